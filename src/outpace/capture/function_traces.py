"""Which `tf.function`s built graphs, for which arguments: what a profile cannot tell, and what says
why a function is built anew.

`CREATE_GRAPH` is where TensorFlow 2.16 to 2.21 builds one graph of one function;
without it, nothing is noted.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from outpace.capture.faults import suppress_faults
from outpace.frameworks.tensorflow import CREATE_GRAPH
from outpace.store.record import FunctionTrace

_MOST = 2000  # traces that are kept: a script that retraces in every step has said enough by then
_KEPT_TEXT = 160


class FunctionTraceRecorder:
    """Notes the graphs that are built while it is installed, in order, in `traces`."""

    def __init__(self, on_graph: Callable[[Any], None] = lambda function: None) -> None:
        """A recorder that shows each new concrete function to `on_graph`."""
        self.traces: list[FunctionTrace] = []
        self._built = on_graph

    def install(self, _tf: ModuleType) -> None:
        """Hook TensorFlow; a version without the hook's place is left alone."""
        if CREATE_GRAPH.value is not None:
            CREATE_GRAPH.replace(self._hooked(CREATE_GRAPH.value))

    def _hooked(self, original: Any) -> Any:
        @functools.wraps(original)
        def create(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any, *rest: Any) -> Any:
            start, began = time.time_ns(), time.perf_counter_ns()
            try:
                function = original(function_type, type_context, func_graph, tracing_options, *rest)
                with suppress_faults():
                    self._built(function)
                return function
            finally:
                if len(self.traces) < _MOST:
                    with suppress_faults():
                        self.traces.append(_trace(function_type, tracing_options, start, time.perf_counter_ns() - began))

        return create


def _trace(function_type: Any, options: Any, start: int, duration: int) -> FunctionTrace:
    function = inspect.unwrap(options.python_function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    code = getattr(inspect.unwrap(getattr(function, "__original_wrapped__", function)), "__code__", None)
    arguments = {
        str(name): _text(parameter.type_constraint)
        for name, parameter in function_type.parameters.items()
        if parameter.type_constraint is not None
    }
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    return FunctionTrace(str(options.name), file, line, start, duration, arguments)


def _text(constraint: Any) -> str:
    text = str(constraint).replace(", name=None", "")
    return text if len(text) <= _KEPT_TEXT else text[: _KEPT_TEXT - 1] + "…"
