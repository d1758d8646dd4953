# SPDX-License-Identifier: Apache-2.0
"""What compiled functions keep of Python's state: what the user's functions read while they were
traced.

A traced function runs once, and what it read then is part of what runs from then on. Variables of a
framework are read at each call.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from outpace.frameworks.jax import JAXPR_TRACE, SET_TRACE, TRACE_TO_JAXPR
from outpace.frameworks.private import PrivateName
from outpace.frameworks.tensorflow import JIT_COMPILE, TRACE_GRAPH, function_class
from outpace.tune.same.changes import TraceRead
from outpace.tune.same.reads import Read, reads_of
from outpace.tune.same.state import is_filled

_CODE = (FunctionType, MethodType, ModuleType, type)
_FRAMEWORKS = ("tensorflow", "jax", "jaxlib", "keras", "tf_keras", "torch")


class Frozen:
    """Watches the traces of a process. users: whether a file is one of the user's. traces: what
    functions have read and keep, with the number of traces in which they read it. rewritten: code
    of which a copy ran, which tells nothing of its branches. unchecked: files and lines of the
    user's assertions in functions that XLA compiles, which leaves them out.
    """

    def __init__(self, users: Callable[[str], bool]) -> None:
        self._users = users
        self._running: list[tuple[CodeType, dict[str, Any], dict[str, Any]]] = []
        self._depth = 0
        self.traces: Counter[TraceRead] = Counter()
        self.rewritten: set[CodeType] = set()
        self.unchecked: set[tuple[str, int]] = set()

    def is_tracing(self) -> bool:
        """Whether a function is being traced."""
        return self._depth > 0

    def on_jax(self, jax: ModuleType) -> None:
        """Of all that JAX makes an expression of."""
        kind, plain = JAXPR_TRACE.value, SET_TRACE.value
        if plain is None:
            self._around(TRACE_TO_JAXPR)
            return

        @contextlib.contextmanager
        def set_current_trace(trace: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with (
                self.watching() if isinstance(trace, kind) else contextlib.nullcontext(),
                plain(trace, *args, **kwargs) as found,
            ):
                yield found

        SET_TRACE.replace(set_current_trace)

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Of all that TensorFlow makes a graph of."""
        self._around(TRACE_GRAPH, self._note_assertions)

    def _around(self, name: PrivateName, seen: Callable[[Any], None] = lambda _: None) -> None:
        plain = name.value

        def watched(*args: Any, **kwargs: Any) -> Any:
            with self.watching():
                made = plain(*args, **kwargs)
            seen(made)
            return made

        name.replace(watched)

    def _note_assertions(self, graph: Any) -> None:
        """Note which lines of the user's ask for an assertion in a graph that XLA compiles."""
        checks = [op for op in graph.get_operations() if op.type == "Assert"]
        if checks and any(map(JIT_COMPILE.of, _functions_on(sys._getframe(2)))):
            for op in checks:
                asks = next((at for at in reversed(list(op.traceback)) if not _is_library(at.filename)), None)
                if asks is not None and self._users(asks.filename):
                    self.unchecked.add((asks.filename, asks.lineno))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """What the user's functions read meanwhile is kept: they are traced."""
        self._depth += 1
        before = sys.getprofile()
        if self._depth == 1:
            sys.setprofile(self._called)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                sys.setprofile(before)
                self._traced()

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_name == "converted_call" and "autograph" in code.co_filename:  # which runs a rewritten copy
            self._converted(frame)
        elif self._users(code.co_filename) and reads_of(code):
            self._running.append((code, frame.f_globals, dict(frame.f_locals)))  # parameters, and names of functions around

    def _converted(self, frame: FrameType) -> None:
        function: Any = frame.f_locals.get("f")
        given = tuple(frame.f_locals.get("args") or ())
        if isinstance(function, MethodType):
            function, given = function.__func__, (function.__self__, *given)
        if isinstance(function, FunctionType) and self._users(function.__code__.co_filename):
            code = function.__code__
            self.rewritten.add(code)
            cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
            held = {name: cell.cell_contents for name, cell in cells if is_filled(cell)}
            self._running.append((code, function.__globals__, held | dict(zip(code.co_varnames, given, strict=False))))

    def _traced(self) -> None:
        """The outermost trace is over: what its functions have read, as it is now that whatever is
        built at first is there.
        """
        running, self._running = self._running, []
        met = set[TraceRead]()
        for code, names, held in running:
            for read in reads_of(code):
                if self._is_kept(read, ChainMap(held, names)):
                    met.add(TraceRead(str(read), code.co_name, read.last, read.owner, read.root in code.co_freevars))
        self.traces.update(met)

    def _is_kept(self, read: Read, names: Mapping[str, Any]) -> bool:
        """Whether what was read is part of the trace: neither code, nor an argument as it is, nor
        what the framework reads at each call, nor an object that goes on to a function of the
        user's, which reads of it what it needs.
        """
        if read.root not in names or (read.given and not read.steps):
            return False
        try:
            value = _taken(names[read.root], read)
        except Exception:  # whatever is not there any more, or an object of the user's raises
            return True
        if isinstance(value, BuiltinFunctionType):  # a method of what may change, or a function of a module
            return not isinstance(value.__self__, ModuleType) and not _is_framework(value.__self__)
        if isinstance(value, _CODE) or _is_framework(value) or _is_traced(value):
            return False
        return not (read.handed and self._is_users(read.handed, names) and not isinstance(value, (int, float, str)))

    def _is_users(self, text: str, names: Mapping[str, Any]) -> bool:
        """Whether a text that is called means a function, method or class of the user's."""
        root, *steps = text.split(".")
        found = names.get(root)
        for each in steps:
            found = inspect.getattr_static(found, each, None)
        code = getattr(inspect.unwrap(found) if callable(found) else None, "__code__", None)
        module = sys.modules.get(getattr(found, "__module__", None) or "") if isinstance(found, type) else None
        return self._users(code.co_filename if code is not None else getattr(module, "__file__", None) or "<")


def _functions_on(frame: FrameType | None) -> Iterator[Any]:
    """Yield the `tf.function` objects that are being called."""
    kind = function_class(sys.modules["tensorflow"])
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), kind):
            yield frame.f_locals["self"]
        frame = frame.f_back


def _is_library(file: str) -> bool:
    """Whether a file is TensorFlow's own, or this one."""
    return f"{os.sep}tensorflow{os.sep}python{os.sep}" in file or file == __file__


def _taken(value: Any, read: Read) -> Any:
    """What is at the end of a chain. A property of the user's is code, whose own reads count."""
    for kind, key in read.steps:
        if kind == "[":
            value = value[key]
        elif isinstance(getattr(type(value), key, None), property) and not _is_framework(value):
            return type(value)
        else:
            value = getattr(value, key)
    return value


def _is_traced(value: Any) -> bool:
    """Whether a value is one of the trace's own."""
    return "Tracer" in type(value).__name__ or (hasattr(value, "graph") and hasattr(value, "op"))


def _is_framework(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _FRAMEWORKS
