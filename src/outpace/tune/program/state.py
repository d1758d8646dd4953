"""Everything of a training that trials change, kept and put back bit by bit.

What the functions of an input pipeline change outside of it is kept by `outside.py`.
"""

from __future__ import annotations

import gc
import math
import random
import sys
from typing import Any

import numpy as np

from outpace._dataclass import dataclass

_SWITCHES = ("jit_compile", "steps_per_execution", "run_eagerly", "unrolled_steps_per_execution", "stop_training")
_FUNCTIONS = ("train_function", "test_function", "predict_function")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a model and of the random numbers at one moment; `restore` brings it back.

    variables: every variable of the model (weights, metrics, seeds of its layers, what it holds besides) and of its optimizers, with its value;
    switches: compiled options by name; policies: dtype policy by layer; functions: the compiled functions; random: states of Python's,
    NumPy's, TensorFlow's and Keras' generators.
    """

    model: Any
    variables: tuple[tuple[Any, Any], ...]
    switches: dict[str, Any]
    functions: dict[str, Any]
    policies: tuple[tuple[Any, Any], ...]
    random: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Snapshot:
        """The state now. The model and its optimizer must be built; None for the random numbers alone."""
        if model is None:
            return cls(None, (), {}, {}, (), _random_state())
        variables = {id(variable): variable for variable in _variables(model)}
        return cls(
            model,
            tuple((variable, np.array(variable)) for variable in variables.values()),
            {name: getattr(model, name) for name in _SWITCHES if hasattr(model, name)},
            {name: getattr(model, name, None) for name in _FUNCTIONS},
            tuple((layer, layer.dtype_policy) for layer in layers_of(model) if hasattr(layer, "dtype_policy")),
            _random_state(),
        )

    def restore(self) -> None:
        """Put everything back. Variables that the trials made besides these are left alone."""
        for layer, policy in self.policies:
            if layer.dtype_policy is not policy:
                layer.dtype_policy = policy
        for name, value in (self.switches | self.functions).items():
            if getattr(self.model, name, None) is not value:
                setattr(self.model, name, value)
        for variable, value in self.variables:
            variable.assign(value)
        _set_random_state(self.random)

    def differences(self) -> tuple[str, ...]:
        """Names of the variables whose value is not, bit by bit, what it was."""
        return tuple(
            str(getattr(variable, "path", variable.name))
            for variable, value in self.variables
            if np.array(variable).tobytes() != value.tobytes()
        )


def layers_of(model: Any) -> list[Any]:
    """All layers of a model, those inside others too."""
    return list(model._flatten_layers(include_self=False))


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers that a model holds: the one that it is compiled with, one inside that (loss scaling), those of its own `train_step`."""
    from keras.optimizers import Optimizer

    return [item for item in _held(model) if isinstance(item, Optimizer)]


def _variables(model: Any) -> list[Any]:
    """Keras' variables, and those of TensorFlow that a model holds besides."""
    variable: Any = sys.modules["tensorflow"].Variable
    found = [*model.variables, *model.metrics_variables]
    for optimizer in optimizers_of(model):
        found += optimizer.variables
    known = {id(getattr(item, "_value", item)) for item in found}
    return found + [item for item in _held(model) if isinstance(item, variable) and id(item) not in known]


def _held(model: Any) -> list[Any]:
    """Every object that TensorFlow would save with a model."""
    return list(sys.modules["tensorflow"].train.TrackableView(model).descendants())


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state()}
    context = _context()
    if context is not None:
        state["eager"] = (context._seed, context._rng.getstate() if getattr(context, "_rng", None) is not None else None)
    generator = getattr(sys.modules.get("tensorflow.python.ops.stateful_random_ops"), "global_generator", None)
    if generator is not None:  # reading it through its public name would make one
        state["generator"] = (generator, generator.state.numpy())
    seeds = _keras_seeds()
    if seeds is not None:
        state["keras"] = (seeds, np.array(seeds.state))
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    context = _context()
    if context is not None and "eager" in state:
        context._seed, rng = state["eager"]
        if rng is not None and getattr(context, "_rng", None) is not None:
            context._rng.setstate(rng)
    for name in ("generator", "keras"):
        if name in state:
            holder, value = state[name]
            holder.state.assign(value)
    if (
        "keras" not in state and _keras_seeds() is not None
    ):  # made in a trial: the training makes its own, from the same numbers
        sys.modules["keras.src.backend.common.global_state"].set_global_attribute("global_seed_generator", None)


def _context() -> Any:
    """TensorFlow's eager context, which holds the generator of seeds for ops that are given none."""
    module = sys.modules.get("tensorflow.python.eager.context")
    return module.context() if module is not None else None


def _keras_seeds() -> Any:
    """Keras' own global seed generator, if anything has asked for it yet."""
    module = sys.modules.get("keras.src.backend.common.global_state")
    return module.get_global_attribute("global_seed_generator") if module is not None else None


@dataclass(frozen=True, eq=False)
class Variables:
    """All variables of the process, and what they held."""

    held: tuple[tuple[Any, Any], ...]

    @classmethod
    def here(cls) -> Variables:
        """All, as they are now."""
        kind = getattr(sys.modules.get("tensorflow"), "Variable", None)
        found = [each for each in gc.get_objects() if issubclass(type(each), kind)] if kind is not None else []
        return cls(tuple((each, each.numpy()) for each in found if _readable(each)))

    def as_in(self, other: Variables) -> Variables:
        """The same variables, with what they held in another one where it has them."""
        before = {id(variable): value for variable, value in other.held}
        return Variables(tuple((variable, before.get(id(variable), value)) for variable, value in self.held))

    def restore(self, nudge: int = 0) -> None:
        """Put them back; `nudge`: each number moved by one rounding. Below 0: with other seeds in the generators of Keras' layers."""
        for variable, value in self.held:
            if nudge < 0 and "seed_generator_state" in variable.name:
                variable.assign(value + np.asarray(-nudge, value.dtype))
            else:
                variable.assign(nudged(value, nudge) if nudge > 0 and variable.trainable else value)

    def now(self) -> list[Any]:
        """What they hold now."""
        return [np.array(variable.numpy()) for variable, _ in self.held]

    def moved(self) -> float:
        """How far the trainable ones are from what they held: the Euclidean distance."""
        parts = (np.asarray(v.numpy() - value, np.float64) for v, value in self.held if v.trainable and v.dtype.is_floating)
        return math.sqrt(math.fsum(float((part * part).sum()) for part in parts))


def _readable(variable: Any) -> bool:
    """Whether a variable is one of the eager program, and not a graph's."""
    try:
        variable.numpy()
    except Exception:
        return False
    return True


def nudged(value: Any, seed: int = 1) -> Any:
    """Every number of an array moved by one rounding, up or down; what is no floating number stays."""
    if "float" not in str(value.dtype):  # the key of a random generator, for instance
        return value
    array = np.asarray(value)
    epsilon = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 2.0**-8
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), array.shape)
    return (array.astype(np.float64) * (1 + epsilon * signs)).astype(array.dtype)
