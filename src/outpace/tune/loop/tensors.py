"""Several steps of a TensorFlow loop in one call: whether its statements allow that, what trials run, and what a patch writes word for word.

Groups and their results stand in `batches.py` once more: a patched program has one framework, and imports no other.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import tensorflow as tf

from outpace.capture.frames import users
from outpace.model.errors import CaptureError
from outpace.tune.loop.body import Body, listed, stands_for
from outpace.tune.loop.jax_calls import SEVERAL_STEPS
from outpace.tune.loop.later import Later
from outpace.tune.loop.outline import TAPE, takes_gradients
from outpace.tune.loop.statement import GIVES, SAID, arguments_before, assigned, changed_in_place, loop_of, meant, order
from outpace.tune.loop.weave import NAME, SEVERAL, results_in_step
from outpace.tune.loop.woven import Woven, size_for, unshared
from outpace.tune.purity.text import codes
from outpace.tune.reason import reason_of

if TYPE_CHECKING:
    from outpace.capture.steps_tf import Reader
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.stepper import Active

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), range, slice)
_HOLDS = (list, tuple, dict, set, frozenset)
_SHOWS = ("tqdm", "logging", "_io", "time", "datetime")  # modules of objects that show or note something
_PLAIN = ("builtins", "numpy", "collections", "itertools")
_MANY = 1000  # items of a list: more are data
_NEVER = frozenset({"eval", "exec", "globals", "locals", "vars", "getattr", "open"})
_SCAN = '''def {name}({given}):
    """Steps one after the other in one call: the results of each."""

    def {one_step}({inputs}):
{step}
        return {results}

    return {tf}.map_fn({one_step}, {stack}, fn_output_signature={signature}, parallel_iterations=1)
'''


def in_groups(
    items: Iterable[Any], size: int, used: int, ends: Callable[[Any, int], bool] | None = None
) -> Iterator[tuple[list[Any], Any]]:
    """Lists of `size` items, each with a stack of their first `used` parts; None for a stack where items are fewer, or of several shapes.

    ends: whether a list ends with an item, the n-th of it.
    """
    items = iter(items)
    while True:
        group = []
        for item in items:
            group.append(item)
            if len(group) == size or (ends is not None and ends(item, len(group))):
                break
        if not group:
            return
        parts = [item[:used] for item in group]
        shapes = {tuple((leaf.dtype, leaf.shape) for leaf in tf.nest.flatten(part)) for part in parts}
        if len(group) < size or len(shapes) > 1:
            yield group, None
        elif used:
            kinds = tf.nest.map_structure(lambda leaf: np if isinstance(leaf, np.ndarray) else tf, parts[0])
            yield group, tf.nest.map_structure(lambda module, *leaves: module.stack(leaves), kinds, *parts)
        else:
            yield group, tf.range(size)


def each_of(results: Any, count: int) -> list[Any]:
    """The results of each of so many steps, of a stack of them."""
    columns = [tf.unstack(leaf, count) for leaf in tf.nest.flatten(results)]
    rows = zip(*columns, strict=True)
    return list(rows) if all(map(tf.is_tensor, results)) else [tf.nest.pack_sequence_as(results, row) for row in rows]


class TensorBody(Body):
    """A `for` loop whose steps functions of TensorFlow make, which hold their state in variables."""

    framework: ClassVar[str] = "tensorflow"

    @classmethod
    def makes_step(cls, statement: ast.stmt, names: Mapping[str, Any]) -> bool:
        """Whether a statement calls a `tf.function`, or a function of the user's that takes gradients."""
        called = (meant(each.func, names) for each in ast.walk(statement) if isinstance(each, ast.Call))
        return hasattr(statement, GIVES) or any(map(_makes_step, called))

    @classmethod
    def prepare(cls, loop: ast.For, names: Mapping[str, Any]) -> None:
        """Let what makes a step's arguments by Python or NumPy be statements before it: of what several steps are given, TensorFlow alone can
        make something. And let what metrics say after each step be a part of it."""
        steps = [at for at, each in enumerate(loop.body) if cls.makes_step(each, names)]
        if steps:
            results_in_step(
                loop, steps[0], steps[-1], names, lambda statements: not _disturbance(statements, names, metrics=False)
            )
        for at, each in reversed(list(enumerate(loop.body))):
            if isinstance(each, (ast.Assign, ast.Expr)) and isinstance(each.value, ast.Call) and cls.makes_step(each, names):
                wanted = functools.partial(_outside, names=names)
                loop.body[at : at + 1] = [
                    *arguments_before(each, each.value, meant(each.value.func, names), names, loop, wanted),
                    each,
                ]

    @property
    def known(self) -> Mapping[str, Any]:
        """What its names meant, with those of its own."""
        given = {name: getattr(each, GIVES) for each in self.steps if hasattr(each, GIVES) for name in assigned([each])}
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
        made = {name for each in self.before if hasattr(each, SAID) for name in assigned([each])}
        for name in (*self.inputs, *self.results):
            if name not in made and not all(map(_is_array, tf.nest.flatten(self.known.get(name)))):
                return f"{name}, which the step {'needs' if name in self.inputs else 'gives'}, is no tensor"
        later = {*assigned(self.rest), *changed_in_place(self.rest)} & {*order(self.steps)[0]}
        if later:
            return f"{sorted(later)[0]}, which each step needs, is changed after it"
        around = loop_of(self.tree, self.loop.lineno)
        changed = set(assigned([around])) if around is not None else set()
        needed, _ = order(self.steps)
        new = next((each for each in needed if each in changed and each not in self.inputs and not self._is_tensor(each)), None)
        if new is not None:
            return f"{new}, which the step needs, changes from epoch to epoch"
        return self.shared or _disturbance([self.loop.iter, *self.before, *self.rest], self.known)

    def disturbs(self, statement: ast.stmt) -> bool:
        """Whether a statement after a step may not wait until several steps are made."""
        return super().disturbs(statement) or bool(_disturbance([statement], self.known))

    def reason(self, dataset: Any, reader: Reader | None = None) -> str:
        """Why the loop is left as it is; empty where its steps can run several at a time. `dataset`: what the program reads in each step;
        `reader`: where."""
        read_here = (
            meant(each, self.names) for each in ast.walk(self.loop.iter) if isinstance(each, (ast.Name, ast.Attribute))
        )
        header = range(self.loop.lineno, (self.loop.iter.end_lineno or self.loop.lineno) + 1)
        itself = reader is not None and reader[0] is self.frame.f_code and reader[1] in header
        if dataset is not None and not itself and not any(map(_is_read, read_here)):
            return f"the loop at line {self.loop.lineno} does not go over the batches itself"
        return self.several

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of values that a call of several steps is given: what else a step needs are the program's objects."""
        return tuple(name for name in self.fixed if isinstance(self.names.get(name), _SIMPLE) or self._is_tensor(name))

    def _is_tensor(self, name: str) -> bool:
        return _is_array(self.names.get(name))

    def _calls(self, statement: ast.Assign | ast.Expr) -> bool:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        stored = [each for target in targets for each in ast.walk(target)]
        return isinstance(statement.value, ast.Call) and not any(
            isinstance(each, (ast.Attribute, ast.Subscript)) for each in stored
        )

    def scan(self, name: str, module: str) -> str:
        """The source of a function that makes several steps. `module`: how its file calls TensorFlow."""
        inputs, stack, step = (_beside(each, order(self.steps)[0]) for each in ("inputs", "stack", "one_step"))
        unpacked = f"{listed(self.inputs)[1:-1]} = {inputs}\n" if self.inputs else ""
        values = [self.known.get(each) for each in self.results]
        said = ", ".join(_signature(each, module) for each in values)
        return _SCAN.format(
            name=name,
            inputs=inputs,
            stack=stack,
            one_step=step,
            given=", ".join((stack, *self.passed)),
            step=textwrap.indent(unpacked + self.text(self.steps), " " * 8),
            results=listed(self.results) if self.results else f"{module}.constant(0)",
            tf=module,
            signature=f"({said}{',' if len(values) == 1 else ''})" if values else f"{module}.int32",
        )


def _beside(name: str, taken: Sequence[str]) -> str:
    """The name, with a line behind it where that is taken."""
    return _beside(f"{name}_", taken) if name in taken else name


def _makes_step(function: Any) -> bool:
    if hasattr(type(function), "get_concrete_function"):
        return True
    python = inspect.unwrap(getattr(function, "__func__", function)) if callable(function) else None
    return takes_gradients(python)


def _outside(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an argument is to be made before the step."""
    return not _by_tensorflow(node, names) and _gives_tensor(node, names)


def _by_tensorflow(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an expression is a name or a constant, or made of tensors by TensorFlow alone."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    found = [names.get(each.id) for each in ast.walk(node) if isinstance(each, ast.Name)]
    return all(
        isinstance(each, tf.Tensor) or getattr(each, "__name__", "").startswith(("tensorflow", "keras")) for each in found
    )


def _gives_tensor(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an expression is a call of TensorFlow, or a part of an array."""
    if isinstance(node, ast.Call):
        return (getattr(meant(node.func, names), "__module__", None) or "").startswith("tensorflow")
    return isinstance(node, ast.Subscript) and _is_array(meant(node.value, names))


def _is_read(value: Any) -> bool:
    return isinstance(value, (tf.data.Dataset, tf.data.Iterator))


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


def _disturbance(statements: Sequence[ast.AST], names: Mapping[str, Any], *, metrics: bool = True) -> str:
    """Why what a loop does besides its steps must stay between them: it may look at what they change, or change what they need. `metrics`: it
    may give something to a metric."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    counted = {id(node) for each in nodes if metrics and isinstance(each, ast.Expr) for node in _metric(each.value, names)}
    counted |= {id(each) for each in nodes if isinstance(each, ast.Name) and each.id.startswith(NAME)}  # of ours
    for node in (each for each in nodes if isinstance(each, ast.Name) and id(each) not in counted):
        if isinstance(node.ctx, ast.Load) and (node.id in _NEVER or not _calm(names.get(node.id), set())):
            return (
                f"line {node.lineno} uses {node.id} between steps, which may look at the weights, or change what a step needs"
            )
    return ""


def _metric(node: ast.expr, names: Mapping[str, Any]) -> Iterator[ast.AST]:
    """The metric of `metric.update_state(...)`."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "update_state" and hasattr(meant(func.value, names), "result"):
        yield func.value


def _calm(value: Any, seen: set[int]) -> bool:
    """Whether an object neither holds weights nor anything else that a step of TensorFlow may change or need."""
    if id(value) in seen or isinstance(value, (*_SIMPLE, types.BuiltinFunctionType)) or _is_array(value):
        return True
    if isinstance(value, types.ModuleType):
        return not users(getattr(value, "__file__", None) or "<built-in>")
    seen.add(id(value))
    if isinstance(value, _HOLDS):
        inner = list(value.values()) if isinstance(value, dict) else list(value)
        return len(inner) > _MANY or all(_calm(each, seen) for each in inner)
    if isinstance(value, types.GeneratorType):
        return value.gi_frame is None or _calm(dict(value.gi_frame.f_locals), seen)
    if isinstance(value, types.MethodType):
        return _calm(value.__self__, seen) and _calm(value.__func__, seen)
    if isinstance(value, types.FunctionType):
        return _calm_function(value, seen)
    if isinstance(value, type):
        return value.__module__.partition(".")[0] in (*_PLAIN, *_SHOWS)
    return _is_data(value) or (
        _settings(value) and all(_calm(each, seen) for each in vars(type(value)).values() if callable(each))
    )


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


def _calm_function(function: types.FunctionType, seen: set[int]) -> bool:
    """Likewise, of a function: by what it reaches."""
    names = {name for code in codes(function.__code__) for name in code.co_names}
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    reached = [function.__globals__[name] for name in names if name in function.__globals__]
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return TAPE not in names and all(_calm(each, seen) for each in (*cells, *reached, *given))


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


class TensorWoven(Woven):
    """A loop of TensorFlow that makes several steps in one call where that is active."""

    body: TensorBody

    def __init__(self, loop: Loop, body: TensorBody) -> None:
        super().__init__(loop, body, Later((), why="values are read where several steps are one call, or by themselves"))
        self._functions: dict[bool, Any] = {}

    @functools.cached_property
    def per_call(self) -> int:
        """Steps per call: what divides an epoch well, where its length is known."""
        dataset = self.loop.dataset
        known = int(dataset.cardinality()) if dataset is not None else self.length
        return size_for(max(known, 0), self.body.period)

    def note(self, carried: Any, inputs: Any, fixed: Any) -> None:
        """A step begins, and is recorded."""
        self.noted.append((carried, inputs, fixed))

    def record(self, steps: int) -> None:
        """Its steps have no state that could be given to them again."""
        return

    def again(self, made: Sequence[tuple[Any, Any, Any]], active: Active) -> list[Any]:
        """Make steps again that were recorded, in one call where several are active; the results of each."""
        inputs, fixed = [each for _, each, _ in made], made[0][2]
        _, stack = next(in_groups(inputs, len(made), len(self.body.inputs)))
        if SEVERAL in active.turned:
            if stack is None:
                raise CaptureError("the steps that were compared have inputs of several shapes")
            return self.several((), stack, fixed, len(made))[1]
        return [self.step((), each, fixed)[1] for each in inputs]

    def _stream(self, items: Iterator[Any], size: int, early: bool) -> Iterator[Any]:
        checked = items if self._looked_at else unshared(items, size, tf.nest.flatten)
        self._looked_at = True
        return in_groups(checked, size, len(self.body.inputs), None if self.whole else self.ends)

    def several(self, carried: Any, stack: Any, fixed: Any, count: int) -> tuple[Any, list[Any]]:
        """Run steps in one call; no state, and the results of each."""
        given = [value for name, value in zip(self.body.fixed, fixed, strict=True) if name in self.body.passed]
        found: list[Any] = []
        try:
            self.loop.inside(lambda: found.append(self.function(self.compiles)(stack, *given)))()
        except Exception as error:
            self.loop.active.failure = reason_of(error)
            return self._singly(carried, stack, fixed, count)
        self.groups += 1
        self.loop.active.calls += self.loop.active.compiled
        results = each_of(found[0], count) if self.body.results else [()] * count
        for each in results:
            self.loop.noted(each)
        return carried, results

    def _part(self, stack: Any, at: int) -> Any:
        return tf.nest.map_structure(lambda leaf: leaf[at], stack) if self.body.inputs else ()

    @property
    def compiles(self) -> bool:
        """Whether XLA compiles the call: where that is active, or the user's own functions are compiled."""
        own = [getattr(function, "_jit_compile", None) for function in self.loop.compilable]
        return self.loop.active.compiled or (bool(own) and all(own))

    def function(self, compiled: bool) -> Any:
        """What makes several steps, made once."""
        if compiled not in self._functions:
            name, file = SEVERAL_STEPS, f"{self.body.file}#{SEVERAL_STEPS}"
            text = self.body.scan(name, "tf")
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # AutoGraph asks for it
            names = {**self.body.names, "tf": tf}
            exec(compile(text, file, "exec", dont_inherit=True), names)
            self._functions[compiled] = tf.function(names[name], jit_compile=compiled or None)
        return self._functions[compiled]
