# SPDX-License-Identifier: Apache-2.0
"""Keras models that a loop calls eagerly, one operation after the other, or whose `predict` it
calls with a few examples (to choose an action, to sample, for a metric); and each as a graph.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.frameworks.keras import layers_of
from outpace.pyscope.names import assigned_names
from outpace.tune.loop.effects import effect_of
from outpace.tune.loop.step import users_frame

if TYPE_CHECKING:
    from outpace.tune.loop.statement import Statement

OFTEN = 3  # calls, in some more steps that are watched
_KEPT = 2  # calls whose arguments are looked at
_DEEPEST = 3  # attributes that lead to a model
CALL, PREDICT = "call", "predict"
FEW = 256  # examples: what `predict` does for more is worth its time
# What stands for a model's `predict`: that makes a data set of what it is given, and a loop over
# its batches.
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
    """A model that was called. method: `call` or `predict`. name: what leads to it from before the
    loop; empty for nothing. place: the line of the first call. calls: the arguments of the first
    ones. seen: how many there were.
    """

    model: Any
    method: str
    name: str
    place: str
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    seen: int = 0


class Models:
    """The models that a loop calls, from `install` on."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._called: dict[tuple[int, str], Called] = {}
        self._unfit: dict[int, str | None] = {}
        self._inside = False

    @property
    def file(self) -> str:
        """Where the loop stands, outermost."""
        return self._statement.file

    @property
    def line(self) -> int:
        """Its line there."""
        return self._statement.line

    def install(self, hook: Callable[[Any, str, Callable[..., Any]], None]) -> None:
        """See the calls that the script's thread makes; `hook` sees those of a class's method."""
        keras = sys.modules.get("keras")
        if keras is not None and keras.__version__ >= "3" and keras.backend.backend() == "tensorflow":
            hook(keras.Model, "__call__", functools.partial(self._met, CALL))
            hook(keras.Model, "predict", functools.partial(self._met, PREDICT))

    def _met(self, method: str, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """A model is called eagerly, or asked to predict; a model that it consists of is a part of
        the call.
        """
        if self._inside or method in vars(model):
            return original(model, *args, **kwargs)
        self._inside = True
        try:
            self._note(method, model, args, kwargs)
            return original(model, *args, **kwargs)
        finally:
            self._inside = False

    def _note(self, method: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        key = (id(model), method)
        if key not in self._called:
            frame = users_frame(sys._getframe(3))
            place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""
            self._called[key] = Called(model, method, self._name(model), place)
        found = self._called[key]
        found.seen += 1
        if len(found.calls) < _KEPT:
            found.calls.append((args, kwargs))

    def often(self) -> list[Called]:
        """Those that are called in each step."""
        return [each for each in self._called.values() if each.seen >= OFTEN]

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
                why = effect_of(function, [values]) if code is not None and frames.is_user_file(code.co_filename) else None
                if why is not None:
                    return f"{type(layer).__name__}.{function.__name__} {why}"
        if called.method == PREDICT:
            return _unpredictable(called)
        is_told = any("training" in kwargs for _, kwargs in called.calls)
        if is_told and "training" not in inspect.signature(type(called.model).call).parameters:
            return f"{type(called.model).__name__}.call takes no `training`, which {called.place} gives"
        return None

    def _name(self, model: Any) -> str:
        frame, made = self._statement.frame, {*assigned_names([self._statement.node])}
        held: Mapping[str, Any] = {
            name: value for name, value in {**frame.f_globals, **frame.f_locals}.items() if name not in made
        }
        for _ in range(_DEEPEST):
            found = next((name for name, value in held.items() if value is model), "")
            if found:
                return found
            held = dict(_attributes(held))
        return ""


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


def _attributes(held: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What objects of the user's own classes hold."""
    for name, value in held.items():
        module = sys.modules.get(type(value).__module__)
        if not isinstance(value, type) and frames.is_user_file(getattr(module, "__file__", None) or "<"):
            yield from ((f"{name}.{attribute}", each) for attribute, each in getattr(value, "__dict__", {}).items())
