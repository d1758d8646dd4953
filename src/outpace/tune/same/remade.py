# SPDX-License-Identifier: Apache-2.0
"""What an edit lets a script keep, made again later: a compiled function is traced anew, an element
of a cache computed anew.

Whatever way a script changes the state that went into it, the two then differ: of an expression or
graph the operations and the constants, of an element the numbers. No text is read for that. A
function is made again in a call of it: with the arguments, and in the thread and the context, that
the script gives it. What the original keeps as well, by the line that asks for it and what is kept,
and as often, is not looked at.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.capture.frames import is_user_file
from outpace.frameworks.jax import JAXPR_TRACER
from outpace.frameworks.tensorflow import CONCRETE_FUNCTIONS, MAP_FUNCTION, WRAPPED_FUNCTION, function_class, inputs_of
from outpace.tune.same.state import Reader

DEEPEST = 4  # functions of a graph inside of each other
FREE, SHARE, DUE = (
    1.0,
    0.3,
    0.6,
)  # seconds that looking may take, and of the run's time; and where what a function has read is another
ONCE, LAST = 0.1, 30.0  # seconds after which no further one is made, and likewise at the script's end
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(eq=False)
class Share:
    """The part of a run's time that something may take."""

    _began: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    def left(self, share: float = SHARE) -> bool:
        """Whether there is time."""
        return self._took <= FREE + share * (time.monotonic() - self._began)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Count what is done meanwhile."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._took += time.monotonic() - began


@dataclass(eq=False)
class Remade:
    """lines: of edited files those that the original has too. quiet: a context in which traces are
    none of the script's. known: how much the original keeps, by place; none where nothing is made
    again, and only that is counted (`kept`). any_order: whether elements of a cache may come in
    another order, and rows in other batches. changed: by what is kept, how: `compiled`, `cached`,
    `kept`. unmade: what cannot be made again, or not be compared, of which nothing is known.
    partly: that there was no time for all of a cache. changes: how often something became another
    that functions have read; they are due then. missed: that one was due and there was no time.
    """

    lines: Mapping[str, Mapping[int, int]]
    quiet: Callable[[], contextlib.AbstractContextManager[None]]
    known: Mapping[str, int] | None = None
    any_order: bool = False
    changed: dict[str, str] = field(default_factory=dict)
    unmade: set[str] = field(default_factory=set)
    partly: bool = False
    kept: collections.Counter[str] = field(default_factory=collections.Counter)
    changes: int = 0
    missed: bool = False
    _made: int = 0
    _seen: dict[int, int] = field(default_factory=dict)  # changes when a function was made again last, by its id
    _numbers: dict[int, int] = field(default_factory=dict)  # at its place, by the id of what is kept
    _functions: dict[int, tuple[str, Any]] = field(default_factory=dict)  # TensorFlow's, with the place, by id
    _held: list[Any] = field(default_factory=list)
    _first: dict[Any, Any] = field(default_factory=dict)  # what was made first
    _caches: list[_Elements] = field(default_factory=list)
    _share: Share = field(default_factory=Share)
    _maker: int | None = None  # the thread that makes something again
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_functools(self) -> None:
        """Of functions whose results are kept."""
        functools.lru_cache = self._keeping(functools.lru_cache)  # which `functools.cache` asks for

    def on_jax(self, jax: ModuleType) -> None:
        """Of functions that JAX compiles."""
        plain = jax.jit
        tracer = JAXPR_TRACER.value

        def traces(args: Any, kwargs: Any) -> bool:
            return any(isinstance(each, tracer) for each in jax.tree.leaves((args, kwargs)))

        @functools.wraps(plain)
        def jit(*args: Any, **kwargs: Any) -> Any:
            if not args:  # of the function to come
                return lambda function: jit(function, **kwargs)
            if not callable(args[0]):
                return plain(*args, **kwargs)
            function = args[0]
            place = self._place(function)

            @functools.wraps(function)
            def noting(*given: Any, **named: Any) -> Any:
                if not self.making and traces(given, named):
                    self._keep(place, noting)
                return function(*given, **named)

            def fresh() -> Any:
                return plain(functools.wraps(function)(lambda *a, **k: function(*a, **k)), *args[1:], **kwargs)

            kept = plain(noting, *args[1:], **kwargs)
            return kept if self.known is None else _Called(kept, fresh, traces, lambda: self._looks(place, noting), self)

        jax.jit = jit  # type: ignore[attr-defined]  # this process does nothing else

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Of functions that TensorFlow compiles, and of data sets that it keeps."""
        function, cache = tf.function, tf.data.Dataset.cache

        @functools.wraps(function)
        def compiled(func: Any = None, *args: Any, **kwargs: Any) -> Any:
            def noted(made: Any) -> Any:
                self._functions[id(made)] = self._place(made.python_function), made
                return made

            made = function(func, *args, **kwargs)
            return noted(made) if func is not None else lambda given: noted(made(given))

        @functools.wraps(cache)
        def cached(data: Any, *args: Any, **kwargs: Any) -> Any:
            place = self._place(data)
            self._keep(place, data)
            if not self._looks(place, data):
                return cache(data, *args, **kwargs)
            self._caches.append((_Examples if self.any_order else _Elements)(tf, data))
            return cache(self._caches[-1].noted(), *args, **kwargs)

        self._on_functions(tf, function_class(tf))
        tf.function, tf.data.Dataset.cache = compiled, cached  # type: ignore[attr-defined]  # this process does nothing else

    def _on_functions(self, tf: Any, kind: Any) -> None:
        """Of calls of what `tf.function` gives, of that class, which has another object for each
        that it is a method of.
        """
        call, bind, concrete = kind.__call__, kind.__get__, kind.get_concrete_function

        @functools.wraps(bind)
        def bound(this: Any, *args: Any) -> Any:
            found = bind(this, *args)
            if id(this) in self._functions:
                self._functions[id(found)] = self._functions[id(this)][0], found
            return found

        @functools.wraps(call)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            if id(this) not in self._functions or self.making:
                return call(this, *args, **kwargs)
            place, _ = self._functions[id(this)]
            if self._looks(place, this) and tf.executing_eagerly() and not tf.config.functions_run_eagerly():
                self._trace_again(this, functools.partial(concrete, this, *args, **kwargs))
            found = call(this, *args, **kwargs)
            if _traces(this):
                self._keep(place, this)
            return found

        @functools.wraps(concrete)
        def given(this: Any, *args: Any, **kwargs: Any) -> Any:
            if id(this) in self._functions and not self.making:
                self._unseen(self._functions[id(this)][0], this)
            return concrete(this, *args, **kwargs)

        kind.__call__, kind.__get__, kind.get_concrete_function = called, bound, given

    def _trace_again(self, function: Any, concrete: Callable[[], Any]) -> None:
        name = getattr(function, "__name__", "a function")
        with self.turn(name, function) as turn:
            if turn:
                kept = concrete()  # of one that was traced, without doing it anew
                found = _graph(function, *kept.structured_input_signature)
                if self._first.setdefault(id(kept), found) != found:
                    self.changed[name] = "compiled"

    def look(self, everything: bool = False) -> None:
        """Make elements of caches again, as far as there is time; everything: all of them, from the
        first.
        """
        began = time.monotonic()
        for each in self._caches:
            if everything:
                each.restart()
            more = True
            while more:
                more = False
                with self.turn("a cache", anyway=everything) as turn:
                    more = turn and each.next()
                    if each.changed:
                        self.changed["a cache"] = "cached"
                if time.monotonic() - began > (LAST if everything else ONCE):
                    self.partly = self.partly or (everything and more)
                    return

    @property
    def decided(self) -> bool:
        """Whether a function was made again after all that changed of what it had read, as far as
        it was called then.
        """
        return bool(self._made) and not self.missed and not self.unmade

    @contextlib.contextmanager
    def turn(self, name: str, function: Any = None, anyway: bool = False) -> Iterator[bool]:
        """Whether something, as this function, may be made again now, which is done inside of it:
        one at a time, in its share of the time. Whatever is raised means that it cannot be made.
        """
        due = function is not None and self._seen.setdefault(id(function), self.changes) != self.changes
        if not (anyway or self._share.left(DUE if due else SHARE)) or not self._lock.acquire(blocking=False):
            self.missed = self.missed or due
            yield False
            return
        self._maker = threading.get_ident()
        self._made += 1
        self._seen[id(function)] = self.changes
        try:
            with self.quiet(), self._share.taken():
                yield True
        except Exception:  # whatever a function of the user's raises that runs once more
            self.unmade.add(name)
        finally:
            self._maker = None
            self._lock.release()

    @property
    def making(self) -> bool:
        """Whether this thread makes something again."""
        return self._maker == threading.get_ident()

    def _keep(self, place: str, what: Any) -> None:
        """Count what is kept, once; held, so that its number stays its own."""
        if id(what) not in self._numbers:
            self.kept[place] += 1
            self._numbers[id(what)] = self.kept[place]
            self._held.append(what)

    def _looks(self, place: str, what: Any) -> bool:
        """Whether it is kept, and the original keeps less there, or has made it anew more often."""
        if self.known is None or id(what) not in self._numbers:
            return False
        known = self.known.get(place, 0)
        return self._numbers[id(what)] > known or self.kept[place] < known

    def _unseen(self, place: str, what: Any) -> None:
        """It is handed out in a form whose calls are not seen."""
        self._keep(place, what)
        if self._looks(place, what):
            self.unmade.add(getattr(what, "__name__", "a function"))

    def _place(self, what: Any) -> str:
        """The line that asks for something to be kept, the user's behind it, and what is kept; an
        edit's own lines have no number.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        behind = frame
        while behind is not None and not is_user_file(behind.f_code.co_filename):
            behind = behind.f_back
        lines = dict.fromkeys(self._line(each) for each in (frame, behind) if each is not None)
        return " < ".join((_named(what), *lines))

    def _line(self, frame: FrameType) -> str:
        file = os.path.realpath(frame.f_code.co_filename)
        lines = self.lines.get(file)
        at = frame.f_lineno if lines is None else lines.get(frame.f_lineno, f"edited {frame.f_lineno}")
        return f"{file}:{at}"

    def _keeping(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def keeping(*args: Any, **kwargs: Any) -> Any:
            if args and callable(args[0]):
                return self._remembered(plain(*args, **kwargs), args[0])
            decorate = plain(*args, **kwargs)
            return lambda function: self._remembered(decorate(function), function)

        return keeping

    def _remembered(self, kept: Any, function: Any) -> Any:
        code = getattr(function, "__code__", None)
        if code is not None and not is_user_file(code.co_filename):
            return kept  # a library's, of its own
        place, name = self._place(function), getattr(function, "__name__", "a function")
        self._keep(place, kept)
        if self.known is None:
            return kept

        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            found = kept(*args, **kwargs)
            if self._looks(place, kept):
                with self.turn(name, kept) as turn:
                    if turn and held(function(*args, **kwargs)) != held(found):
                        self.changed[name] = "kept"
            return found

        for each in ("cache_info", "cache_clear", "cache_parameters"):
            setattr(remembered, each, getattr(kept, each))
        return remembered


@dataclass(eq=False)
class _Elements:
    """What a data set gives that is cached, the first time and later: element by element, round by
    round.
    """

    tf: Any
    data: Any
    changed: bool = False
    _again: Iterator[Any] | None = None
    _kept: list[Any] = field(default_factory=list)  # of each element
    _at: int = 0

    def noted(self) -> Any:
        """The data set, of which is noted what it gives."""
        tf = self.tf

        def note(*parts: Any) -> None:
            self._kept.append(self._note(parts))

        def seen(*element: Any) -> Any:
            with tf.control_dependencies([tf.numpy_function(note, self._parts(element), [])]):
                whole = element if type(self.data.element_spec) is tuple else element[0]
                return tf.nest.map_structure(tf.identity, whole, expand_composites=True)

        return self.data.map(seen)

    def restart(self) -> None:
        """Begin with the first one again."""
        self._again = None

    def next(self) -> bool:
        """Make an element again; whether a round is yet to be ended."""
        if self._again is None:
            self._again, self._at = iter(self.data), 0
        found = next(self._again, None)
        if found is None or self._at >= len(self._kept):
            self._again = None
            return False
        self.changed = self.changed or self._differs(self._note([each.numpy() for each in self._parts(found)]))
        self._at += 1
        return True

    def _note(self, parts: Iterable[Any]) -> Any:
        return _digest(parts)

    def _differs(self, made: Any) -> bool:
        return bool(made != self._kept[self._at])

    def _parts(self, element: Any) -> list[Any]:
        return [each for each in self.tf.nest.flatten(element, expand_composites=True) if each.dtype != self.tf.variant]


@dataclass(eq=False)
class _Examples(_Elements):
    """Likewise where their order is free, and which batch they come in. Fewer than a batch may be
    others: what fills none is left out.
    """

    _left: collections.Counter[int] = field(default_factory=collections.Counter)  # of a round, kept and not made again yet
    _others: int = 0

    def next(self) -> bool:
        """Likewise, once it is known to be whole."""
        if len(self._kept) < int(self.data.cardinality()):
            return False
        if self._again is None:
            self._left, self._others = collections.Counter(example for each in self._kept for example in each), 0
        return super().next()

    def _note(self, parts: Iterable[Any]) -> list[int]:
        arrays = [np.asarray(each) for each in parts]
        counts = {len(each) if each.ndim else 0 for each in arrays}
        return [_digest(row) for row in zip(*arrays, strict=True)] if len(counts) == 1 and counts != {0} else [_digest(arrays)]

    def _differs(self, made: list[int]) -> bool:
        for example in made:
            self._others += not self._left[example]
            self._left[example] -= 1
        return self._others >= max(len(each) for each in self._kept)


def _digest(parts: Iterable[Any]) -> int:
    arrays = [np.asarray(each) for each in parts]
    return hash(
        tuple(
            (each.dtype.str, each.shape, tuple(each.ravel()) if each.dtype.kind == "O" else each.tobytes()) for each in arrays
        )
    )


class _Called:
    """A function that JAX compiled, which is traced anew when it is called. fresh: gives it as if
    it had never been traced. looks: whether it is to be.
    """

    def __init__(
        self, kept: Any, fresh: Callable[[], Any], traces: Callable[[Any, Any], bool], looks: Callable[[], bool], remade: Remade
    ) -> None:
        functools.update_wrapper(self, kept)
        self._kept, self._fresh, self._traces, self._looks, self._remade = kept, fresh, traces, looks, remade
        self._first: dict[int, tuple[Any, Any]] = {}  # with the expression, whose id it is

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._remade.making:  # inside of another one
            return self._fresh()(*args, **kwargs)
        if self._looks() and not self._traces(args, kwargs):
            name = getattr(self, "__name__", "a function")
            with self._remade.turn(name, self) as turn:
                if turn and self._differs(args, kwargs):
                    self._remade.changed[name] = "compiled"
        return self._kept(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """What is made of it is called unseen."""
        lowered = self._kept.lower(*args, **kwargs)
        if self._looks():
            self._remade.unmade.add(getattr(self, "__name__", "a function"))
        return lowered

    def _differs(self, args: Any, kwargs: Any) -> bool:
        """Whether what is kept for these arguments is another than it would be now. Constants are
        kept as they were when this was first asked: an array that the script changes in place
        changes in its expression, too, and not in what was compiled.
        """
        kept = self._kept.trace(*args, **kwargs).jaxpr  # of one that was traced, without doing it anew
        _, was = self._first.setdefault(id(kept.jaxpr), (kept, _said_of(kept)))
        return bool(_said_of(self._fresh().trace(*args, **kwargs).jaxpr) != was)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_kept"], name)


def _said_of(made: Any) -> Any:
    """What an expression of JAX's is, with its constants."""
    return _ADDRESS.sub("", str(made.jaxpr)), [held(each) for each in made.consts]


def _traces(function: Any) -> list[Any]:
    """For what a function of TensorFlow's was traced so far."""
    return list(CONCRETE_FUNCTIONS.of(function, list)())


def _graph(function: Any, args: Any, kwargs: Any) -> Any:
    made = type(function)(function.python_function, "remade").get_concrete_function(*args, **kwargs)
    graph = made.graph.as_graph_def()
    library = {each.signature.name: each for each in graph.library.function}
    said: dict[str, Any] = {}
    for _ in range(DEEPEST):
        said = {name: _said(body.node_def, library, said, body.signature.input_arg) for name, body in library.items()}
    return _said(graph.node, library, said), [id(outer) for outer, _ in made.graph.captures]


def _said(nodes: Iterable[Any], library: Mapping[str, Any], said: Mapping[str, Any], arguments: Iterable[Any] = ()) -> Any:
    """Operations with what goes into them by their place, whatever they are called; likewise the
    arguments of a function, which a loop's body has named after a count of all that were traced.
    """
    places = {each.name: f"argument {at}" for at, each in enumerate(arguments)}
    found = []
    for at, node in enumerate(nodes):
        places[node.name] = str(at)
        given = [places.get(name := each.lstrip("^").partition(":")[0], name) for each in node.input]
        kept = []
        for key in sorted(node.attr):
            value = node.attr[key]
            if value.HasField("func"):
                kept.append((key, said.get(value.func.name, "")))
            elif not key.startswith("_"):
                kept.append((key, hash(value.SerializeToString(deterministic=True))))
        found.append((node.op if node.op not in library else said.get(node.op, ""), tuple(given), tuple(kept)))
    return hash(tuple(found))


def held(value: Any) -> Any:
    """What something holds, to be compared. Raises ValueError where that cannot be read."""
    found = Reader(is_user_file).of({"": value})
    if found.unread:
        raise ValueError(f"It holds a {next(iter(found.unread.values()))}, which cannot be compared.")
    return {
        path: each if isinstance(each, str) else (each.dtype, each.shape, each.tobytes()) for path, each in found.values.items()
    }


def _named(what: Any) -> str:
    """A function by its name, a data set by what it is made of."""
    if callable(what):
        return str(getattr(what, "__qualname__", type(what).__name__))
    function = WRAPPED_FUNCTION.of(MAP_FUNCTION.of(what))
    inputs = ",".join(map(_named, inputs_of(what)))
    return f"{type(what).__name__}:{getattr(function, '__qualname__', '')}({inputs})"
