"""Keras models that a loop calls eagerly, one operation after the other, or whose `predict` it calls with a few examples (to choose an action,
to sample, for a metric); and each as a graph."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.tune.loop.frozen import frozen
from outpace.tune.loop.replayed import objection, random
from outpace.tune.loop.statement import assigned
from outpace.tune.loop.step import users_frame
from outpace.tune.program.state import Variables, layers_of
from outpace.tune.reason import reason_of

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.statement import Statement

MODELS = "models"
OFTEN = 3  # calls, in as many steps that are observed
_KEPT = 2  # calls that are compared
_NUDGES = 3  # states that differ by one rounding
_DEEPEST = 3  # attributes that lead to a model
CALL, PREDICT = "call", "predict"
FEW = 256  # examples: what `predict` does for more is worth its time
# What stands for a model's `predict`: that makes a data set of what it is given, and a loop over its batches.
PREDICTED = f"""\
def {{name}}(model):
    call, whole = {{maker}}(lambda x: model(x, training=False)), model.predict

    def predict(x, **options):
        shape = getattr(x[0] if isinstance(x, list) else x, "shape", None)
        few = shape and shape[0] <= {FEW} and {{{{*options}}}} <= {{{{"batch_size", "verbose"}}}}
        if not few:
            return whole(x, **options)
        found = call(x)
        return [each.numpy() for each in found] if isinstance(found, list) else found.numpy()

    return predict"""


@dataclass(eq=False)
class Called:
    """A model that was called. method: `call` or `predict`. name: what leads to it from before the loop; empty for nothing. place: the line of
    the first call. graph: what runs in the method's place. calls: the arguments of the first ones. seen: calls while the loop was observed;
    beside: calls while its step ran as a graph."""

    model: Any
    method: str
    name: str
    place: str
    graph: Any
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    seen: int = 0
    beside: int = 0


class Models:
    """The models that a loop calls, from `install` on."""

    def __init__(self, loop: Loop, statement: Statement) -> None:
        self._loop, self._statement = loop, statement
        self._called: dict[tuple[int, str], Called] = {}
        self._unfit: dict[int, str | None] = {}
        self._inside = False
        self.made = 0  # calls as graphs

    @property
    def file(self) -> str:
        """Where the loop stands, outermost."""
        return self._statement.file

    @property
    def line(self) -> int:
        """Its line there."""
        return self._statement.line

    def install(self) -> None:
        """Take the calls over, in the script's thread."""
        keras = sys.modules.get("keras")
        if keras is not None and keras.__version__ >= "3" and keras.backend.backend() == "tensorflow":
            self._loop.hook(keras.Model, "__call__", self._call)
            self._loop.hook(keras.Model, "predict", self._predict)

    def _call(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """A model is called eagerly."""
        return self._met(CALL, original, model, args, kwargs)

    def _predict(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """A model is asked to predict."""
        return self._met(PREDICT, original, model, args, kwargs)

    def _met(self, method: str, original: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call, or of its graph; a model that it consists of is a part of the call."""
        known, active = self._called.get((id(model), method)), self._loop.active
        if self._inside or method in vars(model) or not (self._loop.recording or known is not None):
            return original(model, *args, **kwargs)
        self._inside = True
        try:
            if self._loop.recording:
                known = self._note(method, model, args, kwargs)
            assert known is not None
            known.beside += active.graph
            if MODELS in active.turned and not active.failure and self.unfit(known) is None:
                try:
                    result = _by_graph(known, original, args, kwargs)
                except Exception as error:  # which the loop must not meet
                    active.failure = reason_of(error)
                else:
                    self.made += 1
                    self._loop.reads.spare(self._loop.clock.ticks)
                    return result
            return original(model, *args, **kwargs)
        finally:
            self._inside = False

    def _note(self, method: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Called:
        key, tf = (id(model), method), sys.modules["tensorflow"]
        if key not in self._called:
            frame = users_frame(sys._getframe(3))
            place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""
            graph = tf.function(model.call) if method == CALL else predicted(model)
            self._called[key] = Called(model, method, self._name(model), place, graph)
        found = self._called[key]
        found.seen += 1
        if len(found.calls) < _KEPT:
            found.calls.append(
                tf.nest.map_structure(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, (args, kwargs))
            )
        return found

    def often(self, step_is_graph: bool) -> list[Called]:
        """Those that are called in each step, which may be a graph."""
        return [each for each in self._called.values() if (each.beside if step_is_graph else each.seen) >= OFTEN]

    def unfit(self, called: Called) -> str | None:
        """Why a model must not run as a graph, or that could not be written; None where it may."""
        if id(called) not in self._unfit:
            self._unfit[id(called)] = self._why_not(called)
        return self._unfit[id(called)]

    def _why_not(self, called: Called) -> str | None:
        if not called.name:
            return f"no name at {self._statement.place} leads to the model that {called.place} calls"
        for layer in (called.model, *layers_of(called.model)):
            given: list[Any] = [(type(layer).call, (layer,)), (getattr(layer, "function", None), ())]  # the latter of a Lambda
            for function, values in given:
                code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
                why = frozen(function, [values]) if code is not None and frames.users(code.co_filename) else None
                if why is not None:
                    return f"{type(layer).__name__}.{function.__name__} {why}"
        if called.method == PREDICT:
            return _unpredictable(called)
        function = type(called.model).call
        if "training" not in inspect.signature(function).parameters and any(map(_trains, layers_of(called.model))):
            return f"{type(called.model).__name__}.call takes no `training`, which its layers ask for"
        return None

    def _name(self, model: Any) -> str:
        frame, made = self._statement.frame, {*assigned([self._statement.node])}
        held: Mapping[str, Any] = {
            name: value for name, value in {**frame.f_globals, **frame.f_locals}.items() if name not in made
        }
        for _ in range(_DEEPEST):
            found = next((name for name, value in held.items() if value is model), "")
            if found:
                return found
            held = dict(_attributes(held))
        return ""

    def objection(self, those: Sequence[Called]) -> str | None:
        """What speaks against the graphs, by calls that the loop has made, made again by both from one state; None for nothing."""
        found: list[str | None] = []

        def compared() -> None:
            found.append(next((why for each in those if (why := self._compared(each)) is not None), None))

        self._loop.clock.perform(self._loop.inside(compared))
        return found[0]

    def _compared(self, called: Called) -> str | None:
        kept, model = Variables.here(), called.model

        def made(call: tuple[tuple[Any, ...], dict[str, Any]], nudge: int = 0, *, graph: bool = False) -> list[Any]:
            kept.restore(nudge)
            args, kwargs = call
            plain = getattr(type(model), "__call__" if called.method == CALL else PREDICT)
            result = _by_graph(called, plain, args, kwargs) if graph else plain(model, *args, **kwargs)
            return [*(np.asarray(leaf) for leaf in self._loop.flat(result)), *kept.now()]

        try:
            for call in called.calls:
                base, *own = (made(call, nudge) for nudge in (0, 0, *range(1, 1 + _NUDGES)))
                if random(base, own[0]):
                    return "its calls draw random numbers that come from none of its variables, and cannot be compared"
                why = objection(base, own, made(call, graph=True))
                if why is not None:
                    return f"of {called.name}, {why}"
        finally:
            kept.restore()
        return None


def _by_graph(called: Called, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a model whose `call` is a graph meanwhile, or what stands for its `predict`."""
    if called.method == PREDICT:
        return called.graph(*args, **kwargs)
    vars(called.model)["call"] = called.graph
    try:
        return original(called.model, *args, **kwargs)
    finally:
        del vars(called.model)["call"]


def predicted(model: Any) -> Any:
    """What stands for a model's `predict`, as a patch writes it."""
    made: dict[str, Any] = {"tf": sys.modules["tensorflow"]}
    exec(PREDICTED.format(name="predicted", maker="tf.function"), made)
    return made["predicted"](model)


def _unpredictable(called: Called) -> str | None:
    """Why a call of a graph would not be what a model's `predict` is; None where it would."""
    own, kerass = type(called.model), sys.modules["keras"].Model
    name = own.__name__
    for method in (PREDICT, "predict_step", "make_predict_function"):
        if getattr(own, method) is not getattr(kerass, method):
            return f"{name}.{method} is its own"
    for args, kwargs in called.calls:
        leaves: list[Any] = args[0] if args and isinstance(args[0], list) else [*args]
        if len(args) != 1 or not {*kwargs} <= {"batch_size", "verbose"} or not all(hasattr(each, "shape") for each in leaves):
            return f"{called.place} gives {name}.predict more than arrays"
        if any(not each.shape or each.shape[0] > FEW for each in leaves):
            return f"{called.place} gives {name}.predict more than {FEW} examples"
    return None


def _trains(layer: Any) -> bool:
    """Whether a layer does something else in training."""
    return "training" in inspect.signature(type(layer).call).parameters


def _attributes(held: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What objects of the user's own classes hold."""
    for name, value in held.items():
        module = sys.modules.get(type(value).__module__)
        if not isinstance(value, type) and frames.users(getattr(module, "__file__", None) or "<"):
            yield from ((f"{name}.{attribute}", each) for attribute, each in getattr(value, "__dict__", {}).items())
