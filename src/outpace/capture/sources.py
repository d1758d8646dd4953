"""Where ops, layers and callbacks come from: the user's line of each op in the graphs that
TensorFlow built, and the line that made each Keras layer and callback.

TensorFlow keeps with every op of a graph the stack that made it, mapped back through AutoGraph to
the user's own lines. Keras opens a name scope around each layer's call, and knows whose it is. Both
are read once, when the window closes; whatever is unknown to this version of TensorFlow or Keras is
left out, and nothing raises into the user's program.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import sys
import sysconfig
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CodeType, FrameType, ModuleType
from typing import Any

from outpace.capture.faults import suppress_faults
from outpace.frameworks.keras import ENDS_SCOPE, LAYER_CALL_FILES, NAME_SCOPE, VARIABLES
from outpace.frameworks.tensorflow import DEFAULT_GRAPH, GRAPH_FUNCTIONS
from outpace.store.record import LayerSource, OpSources

_MOST_OPS = 20_000  # ops whose stack is read
_MOST_LAYERS = 20_000
_MOST_SECONDS = 1.0  # that reading stacks may take (50 µs each); what is not read by then has no line
_KEPT_TEXT = 160
_SILENT = ("Const", "Placeholder", "NoOp", "Identity", "IdentityN")  # ops that take no time
_GRADIENT = re.compile(r"(?:^|/)(?:gradient_tape|gradients(?:_\d+)?)/")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_VARIABLES = 10_000
_NUMBERED = re.compile(r"_\d+$")
_KINDS = {"Model": "model", "Layer": "layer", "BaseOptimizer": "optimizer", "Metric": "metric"}  # by Keras' class

FileLine = tuple[str, int]
SourceText = tuple[str, int, str]  # file, number, text
Sources = tuple[OpSources, dict[str, LayerSource]]


class SourceRecorder:
    """Remembers graphs and layers while a script builds them; `build_sources` says where their ops
    and they themselves come from.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, weakref.ref[Any]] = {}
        self._scopes: weakref.WeakKeyDictionary[Any, dict[str, weakref.ref[Any]]] = weakref.WeakKeyDictionary()
        self._made: dict[int, tuple[weakref.ref[Any], FileLine, bool]] = {}
        self._known: Sources | None = None
        # What updates a metric of Keras' own, and the line that made the first such metric.
        self._updates: dict[CodeType, FileLine] = {}
        self.callbacks: dict[str, SourceText] = {}
        self._named = False

    def add_graph(self, function: Any) -> None:
        """A `tf.function` built a graph: `function` is the concrete function."""
        if self._known is None and len(self._graphs) < _MOST_OPS:
            name = function.name
            self._graphs[name.decode() if isinstance(name, bytes) else str(name)] = weakref.ref(function.graph)

    def install(self, keras: ModuleType) -> None:
        """Hook the construction of layers and the name scopes around their calls, on TensorFlow as
        Keras 3's backend.
        """
        with suppress_faults():
            self._hook_layer(keras.layers.Layer)
            _hook_new(keras.metrics.Metric, self._metric)
            self._hook_scope(NAME_SCOPE.value)

    def install_layers(self, keras: ModuleType) -> None:
        """Hook the construction of layers alone, on backends whose programs name each op after its
        layer (JAX).
        """
        with suppress_faults():
            self._named = True
            self._hook_layer(keras.layers.Layer)

    def _hook_layer(self, owner: Any) -> None:
        def layer(made: Any, frame: FrameType) -> None:
            if self._known is None and len(self._made) < _MOST_LAYERS:
                place, inner = _maker(frame)
                if place is not None:
                    self._made[id(made)] = (weakref.ref(made), place, inner)

        _hook_new(owner, layer)

    def _metric(self, made: Any, frame: FrameType) -> None:
        place, inner = _maker(frame)
        if place is not None and not inner:
            self._updates.setdefault(inspect.unwrap(type(made).update_state).__code__, place)

    def install_callbacks(self, owner: Any) -> None:
        """Hook the construction of callbacks; of the user's own classes, their code
        itself is met.
        """

        def callback(made: Any, frame: FrameType) -> None:
            place, inner = _maker(frame)
            if place is not None and not inner and type(made).__module__.startswith("keras."):
                self.callbacks.setdefault(type(made).__name__, (*place, _text(place)))

        with suppress_faults():
            _hook_new(owner, callback)

    def _hook_scope(self, owner: Any) -> None:
        original, recorder = owner.__enter__, self

        @functools.wraps(original)
        def __enter__(scope: Any) -> Any:
            entered = original(scope)
            if recorder._known is None:
                with suppress_faults():
                    recorder._entered(scope)
            return entered

        owner.__enter__ = __enter__

    def _entered(self, scope: Any) -> None:
        if scope.caller is None or not ENDS_SCOPE.of(scope):
            return
        graph = DEFAULT_GRAPH.value()
        if graph.building_function:
            self._scopes.setdefault(graph, {})[graph.get_name_scope()] = weakref.ref(scope.caller)

    def build_sources(self) -> Sources:
        """What the record's `op_sources` and `layers` hold; read once, from then on nothing more is
        remembered.
        """
        if self._known is None:
            self._known = OpSources(), {}
            with suppress_faults():
                self._known = self._read()
            for held in (self._graphs, self._scopes, self._made):
                held.clear()
        return self._known

    def _read(self) -> Sources:
        graphs = {name: graph for name, held in self._graphs.items() if (graph := held()) is not None}
        families = {name: list(_family(graph)) for name, graph in graphs.items()}
        inner = {id(member) for family in families.values() for member in family[1:]}
        layers = {path: facts for family in families.values() for graph in family for path, facts in self._owners(graph)}
        if self._named:
            made = [layer for held, _, inner in self._made.values() if not inner and (layer := held()) is not None]
            layers |= {layer.name: facts for layer in made if (facts := self._facts(layer)) and facts.kind == "layer"}
        reader = _Lines(layers, self._updates)
        for name, family in families.items():
            if id(family[0]) not in inner:
                reader.read(name, family)
        return OpSources(tuple(reader.lines), reader.functions), layers

    def _owners(self, graph: Any) -> Iterator[tuple[str, LayerSource]]:
        """Name scopes of a graph that hold ops and have an owner, and what is noted of it."""
        held = self._scopes.get(graph, {})
        used = {name[:at] for name in (op.name for op in graph.get_operations()) for at in _slashes(name)} if held else set()
        for path, owner in held.items():
            if path in used and (made := owner()) is not None and (facts := self._facts(made)):
                yield path, _with_updates(facts, made, graph, path) if facts.kind == "optimizer" else facts

    def _facts(self, owner: Any) -> LayerSource | None:
        """What is noted of the owner of a name scope; None for what is neither a layer, a metric
        nor an optimizer.
        """
        kinds = {c.__name__ for c in type(owner).__mro__ if c.__module__.startswith("keras.")}
        kind = next((shown for name, shown in _KINDS.items() if name in kinds), None)
        if kind is None:
            return None
        held, place, inner = self._made.get(id(owner), (None, ("", 0), False))
        if held is None or held() is not owner:
            place, inner = ("", 0), False
        call: Any = getattr(type(owner), "call", None)
        code = getattr(inspect.unwrap(call), "__code__", None) if callable(call) else None
        own = (os.path.abspath(code.co_filename), code.co_firstlineno) if code and _is_users(code.co_filename) else ("", 0)
        return LayerSource(str(owner.name), kind, type(owner).__name__, *place, _text(place), inner, *own)


def _with_updates(facts: LayerSource, optimizer: Any, graph: Any, path: str) -> LayerSource:
    """An optimizer with its variables and the ops that it runs for each: those whose names are
    numbered as the variables are. Keras updates one variable after the other, and assigns it last.
    """
    with suppress_faults():
        variables = [str(v.path) for v in VARIABLES.of(optimizer)][:_MOST_VARIABLES]
        of: dict[str, list[int]] = {}
        at = 0
        for op in graph.get_operations():
            scope, _, name = op.name.rpartition("/")
            if scope == path:
                of.setdefault(_NUMBERED.sub("", name).lower(), []).append(at)
                at += op.type == "AssignSubVariableOp"
        count = len(variables)
        even = {name: len(found) // count for name, found in of.items() if count and len(found) % count == 0}
        updates = {name: each for name, each in even.items() if of[name] == [i // each for i in range(len(of[name]))]}
        if at == count:
            return replace(facts, variables=tuple(variables), updates=updates)
    return facts


class _Lines:
    """The lines of ops, numbered once each."""

    def __init__(self, layers: dict[str, LayerSource], updates: dict[CodeType, FileLine]) -> None:
        self.lines: list[tuple[str, int, str]] = []
        self.functions: dict[str, dict[str, int]] = {}
        self._number: dict[FileLine, int] = {}
        self._updates = [
            (code.co_filename, range(code.co_firstlineno, _last_line(code) + 1), at) for code, at in updates.items()
        ]
        self._left = _MOST_OPS
        self._until = time.monotonic() + _MOST_SECONDS
        self._closed = {path for path, layer in layers.items() if not layer.call_line and layer.kind != "model"}

    def read(self, name: str, family: list[Any]) -> None:
        """Note the ops of one function and of the functions inside it."""
        ops: dict[str, int] = {}
        for graph in family:
            for op in graph.get_operations():
                if self._left <= 0 or time.monotonic() > self._until:
                    break
                if op.type not in _SILENT and not self._inside_library_layer(op.name):
                    self._left -= 1
                    self._note(op, ops)
        if ops:
            self.functions[name] = ops

    def _note(self, op: Any, ops: dict[str, int]) -> None:
        if (found := _GRADIENT.search(op.name)) is not None:
            if "/" in op.name[found.end() :]:
                return  # its name says which op it is the gradient of
            forward = next((ops[tensor.op.name] for tensor in _forward_first(op) if tensor.op.name in ops), None)
            if forward is not None:
                ops[op.name] = forward
                return
        place = self._place(op)
        if place is not None:
            if place not in self._number:
                self._number[place] = len(self.lines)
                self.lines.append((*place, _text(place)))
            ops.setdefault(op.name, self._number[place])

    def _place(self, op: Any) -> FileLine | None:
        """The innermost line of the user's code in an op's stack, or the line that made the metric
        which it updates; None where it only calls a Keras layer or `fit`.
        """
        for frame in reversed(list(op.traceback)):
            file = frame.filename
            if _is_users(file):
                return os.path.abspath(file) if not file.startswith("<") else file, int(frame.lineno)
            if file.replace(os.sep, "/").endswith(LAYER_CALL_FILES):
                return None
            for of, lines, place in self._updates:
                if file == of and frame.lineno in lines:
                    return place
        return None

    def _inside_library_layer(self, name: str) -> bool:
        """The layer's own line says more than a stack that begins at `fit`."""
        return any(name[:at] in self._closed for at in _slashes(name))


def _hook_new(owner: Any, note: Callable[[Any, FrameType], None]) -> None:
    """Have `note` told of every new object of a class, and of the frame that makes it."""
    original = owner.__new__

    @functools.wraps(original)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(cls) if original is object.__new__ else original(cls, *args, **kwargs)
        with suppress_faults():
            note(made, sys._getframe(1))
        return made

    owner.__new__ = staticmethod(__new__)


def _slashes(name: str) -> Iterator[int]:
    return (at for at, letter in enumerate(name) if letter == "/")


def _forward_first(op: Any) -> list[Any]:
    """Inputs of a gradient op, the output of the op that it is the gradient of first."""
    return sorted(op.inputs, key=lambda tensor: tensor.op.type + "Grad" != op.type)


def _family(graph: Any) -> Iterator[Any]:
    """The graph, and those of the functions inside it: branches, bodies of loops, calls."""
    todo, seen = [graph], {id(graph)}
    while todo:
        yield (top := todo.pop())
        for function in GRAPH_FUNCTIONS.of(top, {}).values():
            inner = getattr(function, "graph", None)
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                todo.append(inner)


def _last_line(code: CodeType) -> int:
    return max(line for *_, line in code.co_lines() if line is not None)


def _maker(frame: FrameType | None) -> tuple[FileLine | None, bool]:
    """The user's line that constructs a layer, and whether library code does it on behalf of that
    line.
    """
    inner = False
    while frame is not None:
        code = frame.f_code
        if _is_users(code.co_filename):
            return (os.path.abspath(code.co_filename), frame.f_lineno), inner
        inner = inner or code.co_name != "__new__"
        frame = frame.f_back
    return None, inner


@functools.lru_cache(maxsize=4096)
def _is_users(file: str) -> bool:
    """Whether a file is the user's own: none of an installed package, of Python itself, or of
    Outpace.
    """
    if file.startswith("<"):
        return file.startswith("<ipython")
    path = os.path.abspath(file)
    if re.search(r"[/\\](?:site|dist)-packages[/\\]", path) or path.startswith(_OWN):
        return False
    return not path.startswith((sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("platstdlib") + os.sep))


def _text(place: FileLine) -> str:
    return linecache.getline(*place).strip()[:_KEPT_TEXT]
