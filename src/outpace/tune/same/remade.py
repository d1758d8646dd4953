"""What an edit lets a script keep, made again later: a compiled function is traced anew, an element of a cache computed anew.

Whatever way a script changes the state that went into it, the two then differ: of an expression or graph the operations and the constants, of
an element the numbers. No text is read for that. Only what is called in an edited line is looked at: what the script keeps as it is it may."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from types import ModuleType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.frames import users
from outpace.tune.same.state import Reader

MOST_KINDS = 64  # of arguments that a function is traced or called anew for
FEW, ROUND = 2, 2.0  # elements of a data set that are made anew at least, and seconds after which it begins anew
DEEPEST = 4  # functions of a graph inside of each other
FREE, SHARE = 1.0, 0.3  # seconds that looking may take, and of the run's time
ONCE, LAST = 0.1, 30.0  # seconds after which no further one is made, and likewise at the script's end
_END = object()
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
Make = Callable[[], Any]


@dataclass(eq=False)
class Share:
    """The part of a run's time that something may take."""

    _began: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    @property
    def left(self) -> bool:
        """Whether there is time."""
        return self._took <= FREE + SHARE * (time.monotonic() - self._began)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Count what is done meanwhile."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._took += time.monotonic() - began


@dataclass(eq=False)
class Elements:
    """Elements of a data set (`data`), made round after round, each a few further: as many in a round as ROUND is time for."""

    data: Any
    _first: list[int | None] = field(default_factory=list)
    _rest: Iterator[Any] | None = None
    _at: int = 0
    _took: float = 0.0

    def same(self, until: float, anew: bool = False) -> bool:
        """Whether those that are made until then are what they were at first. anew: all that were made before."""
        if anew or self._rest is None or (self._took > ROUND and self._at >= FEW):
            self._rest, self._at, self._took = iter(self.data), 0, 0.0
        began = time.monotonic()
        while time.monotonic() < until or self._at < FEW:
            each = next(self._rest, _END)
            now = None if each is _END else hash(tuple(held(each).items()))
            if self._at == len(self._first):
                self._first.append(now)
            if self._first[self._at] != now:
                return False
            self._at += 1
            if each is _END:
                self._rest = None
                break
            if anew and self._at == len(self._first):
                break
        self._took += time.monotonic() - began
        return True


@dataclass(eq=False)
class Remade:
    """lines: of edited files those that the original has too. quiet: a context in which traces are none of the script's. changed: by what is
    kept, how: `compiled`, `cached`, `kept`. unmade: what cannot be made again, or not be compared, of which nothing is known."""

    lines: Mapping[str, Mapping[int, int]]
    quiet: Callable[[], contextlib.AbstractContextManager[None]]
    changed: dict[str, str] = field(default_factory=dict)
    unmade: set[str] = field(default_factory=set)
    _makes: dict[tuple[str, Any], tuple[str, Make]] = field(default_factory=dict)
    _first: dict[tuple[str, Any], Any] = field(default_factory=dict)
    _functions: list[tuple[str, Any]] = field(default_factory=list)
    _turn: int = 0
    _share: Share = field(default_factory=Share)
    _making: bool = False
    _until: float = 0.0
    _everything: bool = False

    def on_functools(self) -> None:
        """Of functions whose results are kept."""
        for name in ("cache", "lru_cache"):
            setattr(functools, name, self._kept(getattr(functools, name)))

    def on_jax(self, jax: ModuleType) -> None:
        """Of functions that JAX compiles."""
        plain = jax.jit

        @functools.wraps(plain)
        def jit(*args: Any, **kwargs: Any) -> Any:
            if args and callable(args[0]) and self._edited():
                args = (self._traced(jax, args[0]), *args[1:])
            return plain(*args, **kwargs)

        jax.jit = jit  # type: ignore[attr-defined]  # this process does nothing else

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Of functions that TensorFlow compiles, and of data sets that it keeps."""
        function, cache = tf.function, tf.data.Dataset.cache

        @functools.wraps(function)
        def compiled(func: Any = None, *args: Any, **kwargs: Any) -> Any:
            edited = self._edited()

            def noted(made: Any) -> Any:
                if edited:
                    self._functions.append((getattr(made, "__name__", "a function"), made))
                return made

            made = function(func, *args, **kwargs)
            return noted(made) if func is not None else lambda given: noted(made(given))

        @functools.wraps(cache)
        def cached(data: Any, *args: Any, **kwargs: Any) -> Any:
            if self._edited():
                elements = Elements(data)
                self._add("a cache", len(self._makes), "cached", lambda: elements.same(self._until, self._everything))
            return cache(data, *args, **kwargs)

        tf.function, tf.data.Dataset.cache = compiled, cached  # type: ignore[attr-defined]  # likewise

    def look(self, everything: bool = False) -> None:
        """Make the next one again, as far as there is time, or everything."""
        if self._making or not (everything or self._share.left):
            return
        self._making, self._everything = True, everything
        self._until = time.monotonic() + (LAST if everything else ONCE)
        try:
            with self.quiet(), self._share.taken():
                self._graphs()
                for _ in range(len(self._makes)):
                    self._one()
                    if time.monotonic() > self._until:
                        break
        finally:
            self._making = False

    def _one(self) -> None:
        self._turn += 1
        key = list(self._makes)[self._turn % len(self._makes)]
        how, make = self._makes[key]
        try:
            found = make()
        except Exception:  # whatever a function of the user's raises that runs at another time
            self.unmade.add(key[0])
            del self._makes[key]
            return
        if self._first.setdefault(key, found) != found:
            self.changed[key[0]] = how

    def _add(self, name: str, kind: Any, how: str, make: Make) -> None:
        self._makes.setdefault((name, kind), (how, make))

    def _edited(self) -> bool:
        """Whether the line that calls is one of the edit's; what libraries keep is their own."""
        frame = sys._getframe(2)
        lines = self.lines.get(os.path.realpath(frame.f_code.co_filename))
        return lines is not None and frame.f_lineno not in lines

    def _kept(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def keeping(*args: Any, **kwargs: Any) -> Any:
            if args and callable(args[0]) and self._edited():
                return self._remembered(plain(*args, **kwargs), args[0])
            return plain(*args, **kwargs)

        return keeping

    def _remembered(self, kept: Any, function: Any) -> Any:
        noted = itertools.count()

        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            found = kept(*args, **kwargs)
            if next(noted) < MOST_KINDS:
                name = getattr(function, "__name__", "a function")
                make = functools.partial(function, *args, **kwargs)
                self._add(name, len(self._makes), "kept", lambda: (held(make()), held(found)))
            return found

        for name in ("cache_info", "cache_clear", "cache_parameters"):
            setattr(remembered, name, getattr(kept, name))
        return remembered

    def _traced(self, jax: Any, function: Any) -> Any:
        """The function, which says what it is traced for."""
        name = getattr(function, "__name__", "a function")
        noted = 0

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            nonlocal noted
            leaves, form = jax.tree.flatten((args, kwargs))
            at = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]
            if noted < MOST_KINDS and not self._making:
                noted += 1
                shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in (leaves[n].aval for n in at)]
                rest = [None if isinstance(leaf, jax.core.Tracer) else leaf for leaf in leaves]

                def make() -> Any:
                    def anew(*given: Any) -> Any:
                        these = list(rest)
                        for place, value in zip(at, given, strict=True):
                            these[place] = value
                        args, kwargs = jax.tree.unflatten(form, these)
                        return function(*args, **kwargs)

                    made = jax.make_jaxpr(anew)(*shapes)
                    return _ADDRESS.sub("", str(made.jaxpr)), [held(each) for each in made.consts]

                self._add(name, len(self._makes), "compiled", make)
            return function(*args, **kwargs)

        return traced

    def _graphs(self) -> None:
        """Note for what TensorFlow's functions were traced so far; a method has one of its own for each object."""
        for name, function in self._functions:
            for each in (function, *list(getattr(function, "_descriptor_cache", {}).values())):
                for kind in list(getattr(each, "_list_all_concrete_functions", list)())[:MOST_KINDS]:
                    args, kwargs = kind.structured_input_signature
                    make = functools.partial(_graph, each, args, kwargs)
                    self._add(name, id(kind), "compiled", make)


def _graph(function: Any, args: Any, kwargs: Any) -> Any:
    made = type(function)(function.python_function, "remade").get_concrete_function(*args, **kwargs)
    graph = made.graph.as_graph_def()
    library = {each.signature.name: each for each in graph.library.function}
    said: dict[str, Any] = {}
    for _ in range(DEEPEST):
        said = {name: _said(body.node_def, library, said) for name, body in library.items()}
    return _said(graph.node, library, said), [id(outer) for outer, _ in made.graph.captures]


def _said(nodes: Iterable[Any], library: Mapping[str, Any], said: Mapping[str, Any]) -> Any:
    """Operations with what goes into them by their place, whatever they are called."""
    places: dict[str, str] = {}
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
    found = Reader(users).of({"": value})
    if found.unread:
        raise ValueError(f"It holds a {next(iter(found.unread.values()))}, which cannot be compared.")
    return {
        path: each if isinstance(each, str) else (each.dtype, each.shape, each.tobytes()) for path, each in found.values.items()
    }
