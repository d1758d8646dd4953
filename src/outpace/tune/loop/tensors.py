# SPDX-License-Identifier: Apache-2.0
"""Several steps of a TensorFlow loop in one call: whether its statements allow that, and the
function that a patch writes of them.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from outpace.capture.frames import is_user_file
from outpace.pyscope.names import assigned_names, required_names, unused_name, used_names
from outpace.pyscope.nodes import COMPREHENSIONS, iter_calls
from outpace.tune.loop.body import Body, listed, stands_for
from outpace.tune.loop.outline import takes_gradients
from outpace.tune.loop.statement import GIVES, SAID, called_objects, meant, reached
from outpace.tune.texts.indentation import indent_code

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), range, slice)
_HOLDS = (list, tuple, dict, set, frozenset)
_SHOWS = ("tqdm", "logging", "_io", "time", "datetime")  # modules of objects that show or note something
_PLAIN = ("builtins", "numpy", "collections", "itertools")
_MANY = 100  # items of a list that are looked at
_SCAN = '''def {name}({given}):
    """Steps one after the other in one call: the results of each."""

    def {one_step}({inputs}):
{step}
        return {results}

    return {tf}.map_fn({one_step}, {stack}, fn_output_signature={signature}, parallel_iterations=1)
'''


class TensorBody(Body):
    """A `for` loop whose steps functions of TensorFlow make, which hold their state in
    variables.
    """

    framework: ClassVar[str] = "tensorflow"

    @classmethod
    def makes_step(cls, statement: ast.stmt, names: Mapping[str, Any]) -> bool:
        """Whether a statement calls a `tf.function`, or a function of the user's that takes
        gradients.
        """
        return hasattr(statement, GIVES) or any(map(_makes_step, called_objects(statement, names)))

    @classmethod
    def prepare(cls, loop: ast.For, names: Mapping[str, Any]) -> None:
        """Likewise; and let what metrics say after each step be a part of it."""
        steps = [at for at, each in enumerate(loop.body) if cls.makes_step(each, names)]
        if steps:
            results_in_step(loop, steps[0], steps[-1], names)
        super().prepare(loop, names)

    @staticmethod
    def made_before(argument: ast.expr, names: Mapping[str, Any], changing: set[str]) -> bool:
        """Whether an argument is to be made before the step: of what several steps are given,
        TensorFlow alone can make something.
        """
        return not _by_tensorflow(argument, names) and _gives_tensor(argument, names)

    @property
    def known(self) -> Mapping[str, Any]:
        """What its names meant, with those of its own."""
        given = {name: getattr(each, GIVES) for each in self.steps if hasattr(each, GIVES) for name in assigned_names([each])}
        return {**self.names, **given}

    @functools.cached_property
    def several(self) -> str:
        """Why its steps cannot run several at a time, in one call; empty where they can."""
        if self.unmovable:
            return self.unmovable
        if self.carried:
            return f"{self.carried[0]} is passed on from step to step"
        for each in self.steps:
            step = stands_for(each, self.outline) or self.makes_step(each, self.names)
            if not (step and isinstance(each, (ast.Assign, ast.Expr)) and self._calls(each)):
                return f"the step at line {each.lineno} is more than calls of functions and assignments of names"
        made = {name for each in self.before if hasattr(each, SAID) for name in assigned_names([each])}
        for name in (*self.inputs, *self.results):
            if name not in made and not all(map(_is_array, tf.nest.flatten(self.known.get(name)))):
                return f"{name}, which the step {'needs' if name in self.inputs else 'gives'}, is no tensor"
        return ""

    def disturbs(self, statement: ast.stmt) -> bool:
        """Whether a statement after a step may not wait until several steps are made."""
        return super().disturbs(statement) or not all(_calm(self.known.get(each)) for each in reached([statement], self.known))

    @staticmethod
    def given(value: Any) -> bool:
        """Whether a function is given a value as an argument: what else a step needs are the
        program's objects.
        """
        return isinstance(value, _SIMPLE) or _is_array(value)

    def _calls(self, statement: ast.Assign | ast.Expr) -> bool:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        stored = [each for target in targets for each in ast.walk(target)]
        return isinstance(statement.value, ast.Call) and not any(
            isinstance(each, (ast.Attribute, ast.Subscript)) for each in stored
        )

    def scan(self, name: str, module: str) -> str:
        """The source of a function that makes several steps. `module`: how its file calls
        TensorFlow.
        """
        inputs, stack, step = (_beside(each, required_names(self.steps)) for each in ("inputs", "stack", "one_step"))
        unpacked = f"{listed(self.inputs)[1:-1]} = {inputs}\n" if self.inputs else ""
        values = [self.known.get(each) for each in self.results]
        said = ", ".join(_signature(each, module) for each in values)
        return _SCAN.format(
            name=name,
            inputs=inputs,
            stack=stack,
            one_step=step,
            given=", ".join((stack, *self.fixed)),
            step=indent_code(unpacked + self.text(self.steps), " " * 8),
            results=listed(self.results) if self.results else f"{module}.constant(0)",
            tf=module,
            signature=f"({said}{',' if len(values) == 1 else ''})" if values else f"{module}.int32",
        )

    def call(self, name: str, stack: str, found: str) -> str:
        """A call of that function."""
        return (f"{found} = " if self.results else "") + f"{name}({', '.join((stack, *self.fixed))})"


def _beside(name: str, taken: Sequence[str]) -> str:
    """The name, with a line behind it where that is taken."""
    return _beside(f"{name}_", taken) if name in taken else name


def _makes_step(function: Any) -> bool:
    if hasattr(type(function), "get_concrete_function"):
        return True
    python = inspect.unwrap(getattr(function, "__func__", function)) if callable(function) else None
    return takes_gradients(python)


def _by_tensorflow(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an expression is a name or a constant, or made of tensors by TensorFlow alone."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    found = [names.get(name) for name in used_names(ast.walk(node))]
    return all(
        isinstance(each, tf.Tensor) or getattr(each, "__name__", "").startswith(("tensorflow", "keras")) for each in found
    )


def _gives_tensor(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an expression is a call of TensorFlow, or a part of an array."""
    if isinstance(node, ast.Call):
        return (getattr(meant(node.func, names), "__module__", None) or "").startswith("tensorflow")
    return isinstance(node, ast.Subscript) and _is_array(meant(node.value, names))


def _is_array(value: Any) -> bool:
    return isinstance(value, tf.Tensor) or (type(value).__module__ == "numpy" and hasattr(value, "shape"))


def _signature(value: Any, module: str) -> str:
    """What tells `map_fn` of tensors like these, as source text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_signature(each, module)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_signature(each, module) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return f"{module}.{tf.as_dtype(value.dtype).name}"


def _calm(value: Any) -> bool:
    """Whether an object is nothing that a step of TensorFlow may change or need, so that it may be
    looked at after several steps.
    """
    if isinstance(value, (*_SIMPLE, types.FunctionType, types.BuiltinFunctionType)) or _is_array(value):
        return True  # what a function of the user's reads is looked at as well
    if isinstance(value, types.ModuleType):
        return not is_user_file(getattr(value, "__file__", None) or "<built-in>")
    if isinstance(value, _HOLDS):
        inner = list(value.values()) if isinstance(value, dict) else list(value)
        return all(isinstance(each, _HOLDS) or _calm(each) for each in inner[:_MANY])
    if isinstance(value, type):
        return value.__module__.partition(".")[0] in (*_PLAIN, *_SHOWS)
    return _is_data(value) or _settings(value)


def _is_data(value: Any) -> bool:
    """Whether an object holds data, or shows and notes what it is given."""
    kind = type(value)
    return (
        isinstance(value, (tf.data.Dataset, tf.data.Iterator))
        or kind.__module__.partition(".")[0] in (*_PLAIN, *_SHOWS)
        or kind.__name__ in ("Progbar", "_ResourceSummaryWriter")
    )


def _settings(value: Any) -> bool:
    """Whether an object holds numbers and words alone."""
    held = getattr(value, "__dict__", None)
    return bool(held) and all(isinstance(each, _SIMPLE) for each in vars(value).values())


def results_in_step(loop: ast.For, first: int, last: int, names: Mapping[str, Any]) -> None:
    """Let what metrics say after each step (`accuracy.result()`) be asked for in the step: names
    stand for it behind the step's last statement, and right behind that statements assign them.

    first, last: where the step's statements are. Not where statements before the step, or behind it
    up to the last that asks, have other uses for a metric.
    """
    asking = [at for at in range(last + 1, len(loop.body)) if _asked(loop.body[at], names)]
    between = loop.body[last + 1 : asking[-1] + 1] if asking else []
    calls = {ast.unparse(call): call for each in between for call in _asked(each, names)}
    taken = {*names, *used_names(ast.walk(loop))}
    stands, made = dict[str, str](), list[ast.stmt]()
    for text, call in calls.items():
        assert isinstance(call.func, ast.Attribute)
        wished = f"{ast.unparse(call.func.value).replace('.', '_')}_result"
        name = unused_name(wished, taken)
        taken.add(name)
        try:
            value = meant(call.func, names)()
        except Exception:  # it has seen nothing yet
            return
        stands[text] = name
        made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(call)), call))
        setattr(made[-1], SAID, f"{name} = {text}")
        setattr(made[-1], GIVES, value)
    standing = [_Standing(stands).visit(copy.deepcopy(each)) if _asked(each, names) else each for each in between]
    others = {ast.unparse(node) for each in [*loop.body[:first], *standing] for node in ast.walk(each)}
    if others & {ast.unparse(call.func.value) for call in calls.values() if isinstance(call.func, ast.Attribute)}:
        return
    for old, new in zip(between, standing, strict=True):
        if old is not new:
            setattr(ast.fix_missing_locations(new), SAID, ast.unparse(new))
    loop.body[last + 1 : last + 1 + len(between)] = [*map(ast.fix_missing_locations, made), *standing]


_LATER = (ast.Lambda, ast.IfExp, ast.BoolOp, *COMPREHENSIONS)  # or never, or often


def _asked(statement: ast.stmt, names: Mapping[str, Any]) -> list[ast.Call]:
    """What a statement that runs in every step asks metrics of Keras for, once."""
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)):
        return []
    apart = {id(node) for each in ast.walk(statement) if isinstance(each, _LATER) for node in ast.walk(each)}
    calls = (each for each in iter_calls(statement) if id(each) not in apart)
    return [each for each in calls if not each.args and not each.keywords and _of_metric(each.func, names)]


def _of_metric(func: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a function is `metric.result`."""
    metric = meant(func.value, names) if isinstance(func, ast.Attribute) and func.attr == "result" else None
    return hasattr(metric, "update_state") and type(metric).__module__.partition(".")[0] == "keras"


class _Standing(ast.NodeTransformer):
    """Names in the place of calls."""

    def __init__(self, stands: Mapping[str, str]) -> None:
        self._stands = stands

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The name, or the call as it is."""
        name = self._stands.get(ast.unparse(node))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name is not None else self.generic_visit(node)
