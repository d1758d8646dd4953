"""Several steps of a TensorFlow loop in one call: whether its statements allow that, and what a patch writes word for word.

Groups and their results stand in `batches.py` once more: a patched program has one framework, and imports no other.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import tensorflow as tf

from outpace.capture.frames import users
from outpace.tune.loop.body import Body, listed, stands_for
from outpace.tune.loop.outline import TAPE, takes_gradients
from outpace.tune.loop.statement import GIVES, SAID, arguments_before, assigned, changed_in_place, codes, loop_of, meant, order

if TYPE_CHECKING:
    from outpace.capture.steps_tf import Reader

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


def results_in_step(
    loop: ast.For, first: int, last: int, names: Mapping[str, Any], calm: Callable[[Sequence[ast.stmt]], bool]
) -> None:
    """Let what metrics say after each step (`accuracy.result()`) be asked for in the step: names stand for it behind the step's last statement,
    and right behind that statements assign them.

    first, last: where the step's statements are. calm: whether statements leave every metric, and all that a step changes, alone; those before
    the step, and behind it up to the last that asks, have to, once the names stand in them.
    """
    asking = [at for at in range(last + 1, len(loop.body)) if _asked(loop.body[at], names)]
    between = loop.body[last + 1 : asking[-1] + 1] if asking else []
    calls = {ast.unparse(call): call for each in between for call in _asked(each, names)}
    taken = {*names, *(each.id for each in ast.walk(loop) if isinstance(each, ast.Name))}
    stands, made = dict[str, str](), list[ast.stmt]()
    for text, call in calls.items():
        assert isinstance(call.func, ast.Attribute)
        wished = f"{ast.unparse(call.func.value).replace('.', '_')}_result"
        name = next(each for each in (wished, *(f"{wished}_{at}" for at in range(2, 100))) if each not in taken)
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
    if not made or not calm([*loop.body[:first], *standing]):
        return
    for old, new in zip(between, standing, strict=True):
        if old is not new:
            setattr(ast.fix_missing_locations(new), SAID, ast.unparse(new))
    loop.body[last + 1 : last + 1 + len(between)] = [*map(ast.fix_missing_locations, made), *standing]


_LATER = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # or never, or often


def _asked(statement: ast.stmt, names: Mapping[str, Any]) -> list[ast.Call]:
    """What a statement that runs in every step asks metrics of Keras for, once."""
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)):
        return []
    apart = {id(node) for each in ast.walk(statement) if isinstance(each, _LATER) for node in ast.walk(each)}
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call) and id(each) not in apart)
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
