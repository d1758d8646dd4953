# SPDX-License-Identifier: Apache-2.0
"""Finds source lines: the user's line of each op in the graphs that TensorFlow built, and the line
that made each Keras layer and callback.

TensorFlow stores with every op of a graph the stack that created it, mapped back through AutoGraph
to the user's own lines. Keras opens a name scope around each layer's call, and knows the layer.
Both are read once, when the window closes. Whatever is missing in this version of TensorFlow or
Keras is left out, and nothing raises into the user's program.
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from outpace.capture.faults import suppress_faults
from outpace.capture.graph_parts import GRADIENT_SCOPE
from outpace.capture.graph_shapes import ShapeReader
from outpace.capture.graph_variables import find_repeated_gradient
from outpace.frameworks.keras import ENDS_SCOPE, LAYER_CALL_FILES, NAME_SCOPE, VARIABLES
from outpace.frameworks.tensorflow import DEFAULT_GRAPH, GRAPH_FUNCTIONS
from outpace.store.record import GraphShapes, LayerSource, OpSources, RepeatedGradient

_MAX_OPS = 20_000  # maximum number of ops whose stack is read
_MAX_LAYERS = 20_000
# time limit in seconds for reading stacks (50 µs each); ops that are not read by then have no line
_MAX_SECONDS = 1.0
_MAX_TEXT = 160
# types of ops that take no time
_UNTIMED_OPS = ("Const", "Placeholder", "NoOp", "Identity", "IdentityN")
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_MAX_VARIABLES = 10_000
_NUMBER_SUFFIX = re.compile(r"_\d+$")
# kinds in the record, by Keras' base class
_KINDS = {"Model": "model", "Layer": "layer", "BaseOptimizer": "optimizer", "Metric": "metric"}

FileLine = tuple[str, int]
SourceText = tuple[str, int, str]  # (file, line, text)


class Sources(NamedTuple):
    """What the graphs of a script tell.

    ops: the user's lines of their ops.
    layers: owners of their name scopes, by scope.
    shapes: shapes of their ops.
    """

    ops: OpSources = OpSources()
    layers: Mapping[str, LayerSource] = MappingProxyType({})
    shapes: GraphShapes = GraphShapes()


class SourceRecorder:
    """Records graphs and layers while a script builds them; `build_sources` returns the lines of
    their ops and of the layers.

    callbacks: source line of the first callback of each Keras class, by the class's name.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, weakref.ref[Any]] = {}
        self._scopes: weakref.WeakKeyDictionary[Any, dict[str, weakref.ref[Any]]] = weakref.WeakKeyDictionary()
        self._layers: dict[int, tuple[weakref.ref[Any], FileLine, bool]] = {}
        self._sources: Sources | None = None
        # by code of `update_state`: the line that made the first metric of that class of Keras
        self._updates: dict[CodeType, FileLine] = {}
        self._metrics: list[weakref.ref[Any]] = []  # metrics that a line of the user's made
        self.callbacks: dict[str, SourceText] = {}
        self._ops_have_layer_names = False

    def add_graph(self, function: Any) -> None:
        """Record the graph of `function`, a new concrete function."""
        if self._sources is None and len(self._graphs) < _MAX_OPS:
            name = function.name
            self._graphs[name.decode() if isinstance(name, bytes) else str(name)] = weakref.ref(function.graph)

    def install(self, keras: ModuleType) -> None:
        """Hook the construction of layers and metrics and the name scopes around their calls, on
        TensorFlow as Keras 3's backend.
        """
        with suppress_faults():
            self._hook_layer(keras.layers.Layer)
            _hook_new(keras.metrics.Metric, self._add_metric)
            self._hook_scope(NAME_SCOPE.value)

    def install_layers(self, keras: ModuleType) -> None:
        """Hook the construction of layers and metrics only, for backends whose programs name each
        op after its layer (JAX).
        """
        with suppress_faults():
            self._ops_have_layer_names = True
            self._hook_layer(keras.layers.Layer)
            _hook_new(keras.metrics.Metric, self._add_metric)

    def _hook_layer(self, owner: Any) -> None:
        """Hook the construction of layers, or metrics: each new one is recorded with the line that
        made it. Errors of the recording never reach the program.
        """

        def add_layer(new_layer: Any, frame: FrameType) -> None:
            if self._sources is None and len(self._layers) < _MAX_LAYERS:
                place, inner = _find_constructor_line(frame)
                if place is not None:
                    self._layers[id(new_layer)] = (weakref.ref(new_layer), place, inner)

        _hook_new(owner, add_layer)

    def _add_metric(self, metric: Any, frame: FrameType) -> None:
        """Record the line that made a metric."""
        place, inner = _find_constructor_line(frame)
        if place is not None and not inner:
            self._updates.setdefault(inspect.unwrap(type(metric).update_state).__code__, place)
            self._metrics.append(weakref.ref(metric))
            self._layers[id(metric)] = (self._metrics[-1], place, inner)

    def install_callbacks(self, owner: Any) -> None:
        """Hook the construction of Keras' own callbacks. The user's own classes need no record,
        because samples of Python show their code itself.
        """

        def add_callback(new_callback: Any, frame: FrameType) -> None:
            place, inner = _find_constructor_line(frame)
            if place is not None and not inner and type(new_callback).__module__.startswith("keras."):
                self.callbacks.setdefault(type(new_callback).__name__, (*place, _read_line(place)))

        with suppress_faults():
            _hook_new(owner, add_callback)

    def _hook_scope(self, owner: Any) -> None:
        """Hook Keras' name scopes."""
        original, recorder = owner.__enter__, self

        @functools.wraps(original)
        def __enter__(scope: Any) -> Any:
            entered = original(scope)
            if recorder._sources is None:
                with suppress_faults():
                    recorder._add_scope(scope)
            return entered

        owner.__enter__ = __enter__

    def _add_scope(self, scope: Any) -> None:
        """Record the owner of a name scope that was entered while a graph is built."""
        if scope.caller is None or not ENDS_SCOPE.of(scope):
            return
        graph = DEFAULT_GRAPH.value()
        if graph.building_function:
            self._scopes.setdefault(graph, {})[graph.get_name_scope()] = weakref.ref(scope.caller)

    def build_sources(self) -> Sources:
        """Return what the graphs tell. They are read once; from then on nothing is recorded."""
        if self._sources is None:
            self._sources = Sources()
            with suppress_faults():
                self._sources = self._read_sources()
            for references in (self._graphs, self._scopes, self._layers):
                references.clear()
        return self._sources

    def _read_sources(self) -> Sources:
        """Read the sources of all recorded graphs."""
        graphs = {name: graph for name, ref in self._graphs.items() if (graph := ref()) is not None}
        families = {name: list(_iter_graphs(graph)) for name, graph in graphs.items()}
        nested_ids = {id(member) for family in families.values() for member in family[1:]}
        layers = {path: facts for family in families.values() for graph in family for path, facts in self._iter_owners(graph)}
        if self._ops_have_layer_names:
            outer = [layer for ref, _, inner in self._layers.values() if not inner and (layer := ref()) is not None]
            layers |= {layer.name: facts for layer in outer if (facts := self._describe(layer)) and facts.kind == "layer"}
        metrics = [metric for ref in self._metrics if (metric := ref()) is not None]
        layers |= {f"metrics/{metric.name}": facts for metric in metrics if (facts := self._describe(metric))}
        reader, shapes = _LineReader(layers, self._updates), ShapeReader()
        for name, family in families.items():
            if id(family[0]) not in nested_ids:
                with suppress_faults():
                    reader.read(name, family)
        for name, graph in graphs.items():  # a function that another one calls may be called by itself, too
            with suppress_faults():
                shapes.read(name, graph)
        return Sources(OpSources(tuple(reader.lines), reader.functions, reader.repeated), layers, shapes.build_shapes())

    def _iter_owners(self, graph: Any) -> Iterator[tuple[str, LayerSource]]:
        """Yield (path, owner) of the name scopes of a graph that hold ops and have an owner."""
        scopes = self._scopes.get(graph, {})
        used = (
            {name[:end] for name in (op.name for op in graph.get_operations()) for end in _slashes(name)} if scopes else set()
        )
        for path, owner in scopes.items():
            if path in used and (target := owner()) is not None and (facts := self._describe(target)):
                yield path, _add_updates(facts, target, graph, path) if facts.kind == "optimizer" else facts

    def _describe(self, owner: Any) -> LayerSource | None:
        """Return the record of the owner of a name scope; None for what is neither a model, layer,
        metric nor optimizer.
        """
        kinds = {c.__name__ for c in type(owner).__mro__ if c.__module__.startswith("keras.")}
        kind = next((shown_kind for name, shown_kind in _KINDS.items() if name in kinds), None)
        if kind is None:
            return None
        ref, place, inner = self._layers.get(id(owner), (None, ("", 0), False))
        if ref is None or ref() is not owner:
            place, inner = ("", 0), False
        call: Any = getattr(type(owner), "call", None)
        code = getattr(inspect.unwrap(call), "__code__", None) if callable(call) else None
        source = (
            (os.path.abspath(code.co_filename), code.co_firstlineno) if code and _is_user_file(code.co_filename) else ("", 0)
        )
        dropout = getattr(owner, "recurrent_dropout", 0.0)
        return LayerSource(
            str(owner.name),
            kind,
            type(owner).__name__,
            file=place[0],
            line=place[1],
            text=_read_line(place),
            inner=inner,
            call_file=source[0],
            call_line=source[1],
            recurrent_dropout=float(dropout) if isinstance(dropout, (int, float)) else 0.0,
            is_frozen=kind == "layer" and bool(getattr(owner, "weights", ())) and not owner.trainable_weights,
        )


def _add_updates(facts: LayerSource, optimizer: Any, graph: Any, path: str) -> LayerSource:
    """Return an optimizer's record with its variables, and with the ops that update each variable.

    Keras updates one variable after the other and assigns it last, so that the ops of one kind are
    numbered in the order of the variables.
    """
    with suppress_faults():
        variables = [str(v.path) for v in VARIABLES.of(optimizer)][:_MAX_VARIABLES]
        by_name: dict[str, list[int]] = {}
        position = 0
        for op in graph.get_operations():
            scope, _, name = op.name.rpartition("/")
            if scope == path:
                by_name.setdefault(_NUMBER_SUFFIX.sub("", name).lower(), []).append(position)
                position += op.type == "AssignSubVariableOp"
        count = len(variables)
        per_variable = {name: len(indices) // count for name, indices in by_name.items() if count and len(indices) % count == 0}
        updates = {name: n for name, n in per_variable.items() if by_name[name] == [i // n for i in range(len(by_name[name]))]}
        if position == count:
            return replace(facts, variables=tuple(variables), updates=updates)
    return facts


class _LineReader:
    """Source lines of ops, each stored once.

    lines: (file, line, text).
    functions: by function and op, the index of the op's line in `lines`.
    repeated: by function, the gradients that it computes several times.
    """

    def __init__(self, layers: dict[str, LayerSource], updates: dict[CodeType, FileLine]) -> None:
        self.lines: list[tuple[str, int, str]] = []
        self.functions: dict[str, dict[str, int]] = {}
        self.repeated: dict[str, RepeatedGradient] = {}
        self._line_indices: dict[FileLine, int] = {}
        self._updates = [
            (code.co_filename, range(code.co_firstlineno, _last_line(code) + 1), place) for code, place in updates.items()
        ]
        self._remaining_ops = _MAX_OPS
        self._deadline_s = time.monotonic() + _MAX_SECONDS
        self._library_scopes = {path for path, layer in layers.items() if not layer.call_line and layer.kind != "model"}

    def read(self, name: str, family: list[Any]) -> None:
        """Read the ops of one function and of the functions inside it."""
        ops: dict[str, int] = {}
        for graph in family:
            for op in graph.get_operations():
                if self._remaining_ops <= 0 or time.monotonic() > self._deadline_s:
                    break
                if op.type not in _UNTIMED_OPS and not self._inside_library_layer(op.name):
                    self._remaining_ops -= 1
                    self._add_op(op, ops)
            if (again := find_repeated_gradient(graph.get_operations())) is not None:
                times, op = again
                self.repeated[name] = RepeatedGradient(times, *(self._find_line(op) or ("", 0)))
        if ops:
            self.functions[name] = ops

    def _add_op(self, op: Any, ops: dict[str, int]) -> None:
        """Store the line of an op in `ops`."""
        if (match := GRADIENT_SCOPE.search(op.name)) is not None:
            if "/" in op.name[match.end() :]:
                return  # the name of a gradient op contains the op that it belongs to
            forward = next((ops[tensor.op.name] for tensor in _forward_first(op) if tensor.op.name in ops), None)
            if forward is not None:
                ops[op.name] = forward
                return
        place = self._find_line(op)
        if place is not None:
            if place not in self._line_indices:
                self._line_indices[place] = len(self.lines)
                self.lines.append((*place, _read_line(place)))
            ops.setdefault(op.name, self._line_indices[place])

    def _find_line(self, op: Any) -> FileLine | None:
        """Return the innermost line of the user's code in an op's stack, or the line that made the
        metric which the op updates; None where that line only calls a Keras layer or `fit`.
        """
        for frame in reversed(list(op.traceback)):
            file = frame.filename
            if _is_user_file(file):
                return os.path.abspath(file) if not file.startswith("<") else file, int(frame.lineno)
            if file.replace(os.sep, "/").endswith(LAYER_CALL_FILES):
                return None
            for updater_file, lines, place in self._updates:
                if file == updater_file and frame.lineno in lines:
                    return place
        return None

    def _inside_library_layer(self, name: str) -> bool:
        """Whether an op belongs to a layer of a library. The layer's own line says more than a
        stack that begins at `fit`.
        """
        return any(name[:index] in self._library_scopes for index in _slashes(name))


def _hook_new(owner: Any, note: Callable[[Any, FrameType], None]) -> None:
    """Call `note` with every new object of a class and the frame that creates it."""
    original = owner.__new__

    @functools.wraps(original)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        instance = original(cls) if original is object.__new__ else original(cls, *args, **kwargs)
        with suppress_faults():
            note(instance, sys._getframe(1))
        return instance

    owner.__new__ = staticmethod(__new__)


def _slashes(name: str) -> Iterator[int]:
    """Yield the positions of the slashes in a name."""
    return (index for index, letter in enumerate(name) if letter == "/")


def _forward_first(op: Any) -> list[Any]:
    """Return the inputs of a gradient op, the output of its forward op first."""
    return sorted(op.inputs, key=lambda tensor: tensor.op.type + "Grad" != op.type)


def _iter_graphs(graph: Any) -> Iterator[Any]:
    """Yield the graph, and the graphs of the functions inside it: branches, loop bodies and
    calls.
    """
    pending, visited = [graph], {id(graph)}
    while pending:
        yield (outer := pending.pop())
        for function in GRAPH_FUNCTIONS.of(outer, {}).values():
            inner = getattr(function, "graph", None)
            if inner is not None and id(inner) not in visited:
                visited.add(id(inner))
                pending.append(inner)


def _last_line(code: CodeType) -> int:
    """Return the last line of a function's code."""
    return max(line for *_, line in code.co_lines() if line is not None)


def _find_constructor_line(frame: FrameType | None) -> tuple[FileLine | None, bool]:
    """Return the user's line that constructs an object, and whether library code does it on behalf
    of that line.
    """
    inner = False
    while frame is not None:
        code = frame.f_code
        if _is_user_file(code.co_filename):
            return (os.path.abspath(code.co_filename), frame.f_lineno), inner
        inner = inner or code.co_name != "__new__"
        frame = frame.f_back
    return None, inner


@functools.lru_cache(maxsize=4096)
def _is_user_file(file: str) -> bool:
    """Whether a file is the user's own: not of an installed package, Python itself or Outpace."""
    if file.startswith("<"):
        return file.startswith("<ipython")
    path = os.path.abspath(file)
    if re.search(r"[/\\](?:site|dist)-packages[/\\]", path) or path.startswith(_OWN_FOLDER):
        return False
    return not path.startswith((sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("platstdlib") + os.sep))


def _read_line(place: FileLine) -> str:
    """Return a source line, cut at `_MAX_TEXT` characters."""
    return linecache.getline(*place).strip()[:_MAX_TEXT]
