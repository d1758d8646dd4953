# SPDX-License-Identifier: Apache-2.0
"""Records which `tf.function`s built graphs, and for which argument types. A profile does not
contain that, and it explains why a function is built again.

`CREATE_GRAPH` is where TensorFlow 2.16 to 2.21 builds one graph of one function; without it,
nothing is recorded.
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

_MAX_TRACES = 2000  # maximum number of traces: a script that retraces in every step has shown it by then
_MAX_TEXT = 160


class FunctionTraceRecorder:
    """Records the graphs that are built after `install`.

    traces: built graphs, in order.
    """

    def __init__(self, on_graph: Callable[[Any], None] = lambda function: None) -> None:
        """Create a recorder that calls `on_graph` with each new concrete function."""
        self.traces: list[FunctionTrace] = []
        self._on_graph = on_graph

    def install(self, _tf: ModuleType) -> None:
        """Hook TensorFlow; does nothing on a version without the hooked function."""
        if CREATE_GRAPH.value is not None:
            CREATE_GRAPH.replace(self._wrap(CREATE_GRAPH.value))

    def _wrap(self, original: Any) -> Any:
        """Return a function that calls `original` and records the graph that it built."""

        @functools.wraps(original)
        def create(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any, *rest: Any) -> Any:
            start_ns, begin = time.time_ns(), time.perf_counter_ns()
            try:
                function = original(function_type, type_context, func_graph, tracing_options, *rest)
                with suppress_faults():
                    self._on_graph(function)
                return function
            finally:
                if len(self.traces) < _MAX_TRACES:
                    with suppress_faults():
                        self.traces.append(
                            _build_trace(function_type, tracing_options, start_ns, time.perf_counter_ns() - begin)
                        )

        return create


def _build_trace(function_type: Any, options: Any, start_ns: int, duration_ns: int) -> FunctionTrace:
    """Return the record of a graph.

    function_type: TensorFlow's type of the function, with its parameters.
    options: TensorFlow's tracing options, with the function's name and Python function.
    start_ns: start of the build, Unix time in ns.
    duration_ns: duration of the build, ns.
    """
    function = inspect.unwrap(options.python_function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    code = getattr(inspect.unwrap(getattr(function, "__original_wrapped__", function)), "__code__", None)
    arguments = {
        str(name): _format_constraint(parameter.type_constraint)
        for name, parameter in function_type.parameters.items()
        if parameter.type_constraint is not None
    }
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    return FunctionTrace(str(options.name), file, line, start_ns, duration_ns, arguments)


def _format_constraint(constraint: Any) -> str:
    """Return the text of a type constraint, `_MAX_TEXT` characters at most."""
    text = str(constraint).replace(", name=None", "")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
