# SPDX-License-Identifier: Apache-2.0
"""The innermost loop around a step, taken apart: what makes its inputs, the calls that make the
step, and what comes after them.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from outpace._dataclass import dataclass
from outpace.pyscope.names import assigned_names, read_names, read_names_outside, required_names, stored_texts
from outpace.pyscope.nodes import is_stored
from outpace.tune.loop.jax_calls import compiled_functions
from outpace.tune.loop.statement import (
    GIVES,
    SAID,
    arguments_before,
    called_objects,
    counts_one,
    function_of,
    innermost,
    innermost_around,
    leaves,
    meant,
    reached,
    source_of,
)
from outpace.tune.texts.indentation import dedent_code, indent_code
from outpace.tune.texts.parsed import parsed

if TYPE_CHECKING:
    from outpace.tune.loop.step import Outline

GRADIENTS = frozenset({"grad", "value_and_grad"})  # functions of JAX that take them
_CONTROL = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)

_SCAN = '''def {name}(carried, stack, fixed):
    """Steps one after the other in one call: the state after the last one, and the results of each."""

    def one_step(carried, inputs):
{step}
        return {carried}, {results}

    return {jax}.lax.scan(one_step, carried, stack)
'''


@dataclass(frozen=True, eq=False)
class Body:
    """A `for` loop. before, steps, after: its statements up to the first call of a compiled
    function, those up to the last one, and the rest. openings: conditions among the first that look
    at what a step changes, and are known before it: several steps begin where one of them holds.

    carried: names that a step needs of the one before it. inputs: others that the loop assigns.
    fixed: of values that a call of several steps is given besides. results: names that it gives to
    what comes after it. beside: names that the loop assigns, which only that reads. outline: what
    some of its statements shall become, whose call then stands for them.
    """

    frame: FrameType
    tree: ast.Module
    lines: Sequence[str]
    loop: ast.For
    before: tuple[ast.stmt, ...]
    steps: tuple[ast.stmt, ...]
    after: tuple[ast.stmt, ...]
    carried: tuple[str, ...]
    inputs: tuple[str, ...]
    fixed: tuple[str, ...]
    results: tuple[str, ...]
    beside: tuple[str, ...]
    outline: Outline | None = None
    openings: tuple[ast.If, ...] = ()
    framework: ClassVar[str] = "jax"

    @property
    def file(self) -> str:
        """Where it stands."""
        return self.frame.f_code.co_filename

    def text(self, statements: Sequence[ast.stmt]) -> str:
        """Statements as they stand in the file, with the comments right above them, from the left
        on, without a line's end.
        """
        last = {
            each.lineno: each for each in (*self.before, *self.openings, *self.steps, *self.after)
        }  # several may say one line
        parts = list[str]()
        for plain, group in itertools.groupby(statements, lambda each: not hasattr(each, SAID)):
            some = list(group)
            for each in () if plain else some:
                parts += [self._source(each.lineno, each.lineno - 1)] if last.get(each.lineno) is each else []
                parts.append(getattr(each, SAID))
            parts += [self._source(some[0].lineno, some[-1].end_lineno or 0)] if plain else []
        return "\n".join(part for part in parts if part)

    def _source(self, first: int, last: int) -> str:
        """Lines of the file, by their numbers, with the comments right above the first one."""
        while first > 1 and self.lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return dedent_code("".join(self.lines[first - 1 : last])).rstrip()

    @property
    def names(self) -> Mapping[str, Any]:
        """What its names meant when it was found."""
        return _names_of(self.frame, self.outline)

    @classmethod
    def makes_step(cls, statement: ast.stmt, names: Mapping[str, Any]) -> bool:
        """Whether a statement calls a function that is compiled, or one of the user's that takes
        gradients.
        """
        return any(compiled_functions(statement, names)) or any(map(differentiates, called_objects(statement, names)))

    @classmethod
    def prepare(cls, loop: ast.For, names: Mapping[str, Any]) -> None:
        """Let arguments of a step be made before it, where several steps as one function could not
        make them. Nothing else that the loop does changes.
        """
        changing = {*assigned_names([loop.target]), *assigned_names(loop.body)}
        for at, each in reversed(list(enumerate(loop.body))):
            if isinstance(each, (ast.Assign, ast.Expr)) and isinstance(each.value, ast.Call) and cls.makes_step(each, names):
                wanted = functools.partial(cls.made_before, names=names, changing=changing)
                before = arguments_before(each, each.value, meant(each.value.func, names), names, loop, wanted)
                loop.body[at : at + 1] = [*before, each]

    @staticmethod
    def made_before(argument: ast.expr, names: Mapping[str, Any], changing: set[str]) -> bool:
        """Whether an argument is to be made before the step: slices of arrays, since a traced
        function has no values for their bounds.
        """
        bounds = [each for each in ast.walk(argument) if isinstance(each, ast.Slice)]
        return isinstance(argument, ast.Subscript) and any(read_names([each]) & changing for each in bounds)

    @staticmethod
    def given(value: Any) -> bool:
        """Whether a function is given a value as an argument, numbers and arrays, and it is no part
        of the program's code.
        """
        jax: Any = sys.modules["jax"]
        return all(
            isinstance(each, (int, float, complex)) or hasattr(type(each), "dtype") for each in jax.tree_util.tree_leaves(value)
        )

    @classmethod
    def around(cls, frame: FrameType | None, outline: Outline | None = None) -> Body | str:
        """Of the nearest of the user's frames that runs a loop; why not, where there is none whose
        steps can be told.
        """
        found = innermost_around(frame)
        if found is None:
            return "the loop's source was not found"
        tree, lines = source_of(found[0])
        inner = innermost(tree, found[0].f_lineno)
        assert inner is not None, "the same text"
        return cls._of(found[0], tree, lines, inner, outline)

    @classmethod
    def _of(
        cls, frame: FrameType, tree: ast.Module, lines: Sequence[str], loop: ast.For | ast.While, outline: Outline | None
    ) -> Body | str:
        if isinstance(loop, ast.While):
            return f"the loop at line {loop.lineno} is no `for` loop over its batches"
        if outline is not None and not _with_call(loop, outline):
            return f"the step at line {outline.first} stands in a branch of the loop"
        names = _names_of(frame, outline)
        cls.prepare(loop, names)
        calls = [
            at
            for at, each in enumerate(loop.body)
            if stands_for(each, outline)
            or hasattr(each, GIVES)
            or (outline is None and cls.makes_step(each, names) and not _only_looks(each, loop))
        ]
        if not calls:
            return f"the loop at line {loop.lineno} calls no function itself that makes its steps"
        first = _first(loop.body, calls[0], calls[-1], names)
        before, steps, after = loop.body[:first], loop.body[first : calls[-1] + 1], loop.body[calls[-1] + 1 :]
        needed, written = required_names(steps), assigned_names(steps)
        openings = tuple(each for each in before if _only_looks(each, loop) and reached([each], names) & {*written})
        before = [each for each in before if each not in openings]
        made = {*assigned_names([loop.target]), *assigned_names(before)}
        later = {
            *read_names([*openings, *after]),
            *read_names_outside(function_of(frame, tree), loop.lineno, loop.end_lineno or loop.lineno),
        }
        carried = tuple(name for name in needed if name in written)
        inputs = tuple(name for name in needed if name in made and name not in written)
        fixed = tuple(name for name in needed if name not in (*made, *written) and cls.given(names.get(name, builtins)))
        results = tuple(name for name in written if name not in carried and name in later)
        beside = tuple(sorted(name for name in made if name in later and name not in inputs and name not in written))
        parts = (tuple(before), tuple(steps), tuple(after))
        return cls(frame, tree, lines, loop, *parts, carried, inputs, fixed, results, beside, outline, openings)

    @functools.cached_property
    def unmovable(self) -> str:
        """Why what makes a step's inputs cannot be a function of its own; empty where it can."""
        if any(map(leaves, (*self.before, *self.openings, *self.steps, *self.rest))):
            return f"the loop at line {self.loop.lineno} can be left, or begun anew, in the midst of a step"
        if self.loop.orelse:
            return f"the loop at line {self.loop.lineno} has an `else`"
        for each in self.openings:
            if each.orelse or self._foreseen(each) is None:
                return f"whether line {each.lineno} holds is not known before the steps"
        needed, made = required_names(self.before), assigned_names(self.before)
        counted = [name for name in needed if name in made and name not in assigned_names([self.loop.target])]
        if counted:
            return f"{counted[0]}, which the step needs, is counted on in each step"
        return ""

    @functools.cached_property
    def looks(self) -> tuple[ast.If, ...]:
        """Conditions after a step that look at what several steps change, or end the loop, and are
        known before the step: several steps end where one of them holds, so that what it does comes
        at its own time.
        """
        found = (each for each in self.after if isinstance(each, ast.If) and not each.orelse and self.disturbs(each))
        return tuple(each for each in found if _leaves_well(each) and self._foreseen(each) is not None)

    @property
    def rest(self) -> tuple[ast.stmt, ...]:
        """What comes after a step, without these."""
        return tuple(each for each in self.after if each not in self.looks)

    def disturbs(self, statement: ast.stmt) -> bool:
        """Whether a statement after a step may not wait until several steps are made."""
        return leaves(statement) or bool(reached([statement], self.names) & set(self.carried))

    @functools.cached_property
    def ends(self) -> str:
        """Whether several steps end with one of them, as an expression of `item` (its inputs, and
        what is beside them) and `n` (its number, from 1 on); empty where nothing ends them before
        they are as many as can be.
        """
        return self._any_of(self.looks)

    @functools.cached_property
    def begins(self) -> str:
        """Whether several steps begin with one of them, as `ends` tells where they end."""
        return self._any_of(self.openings)

    def _any_of(self, conditions: Sequence[ast.If]) -> str:
        """Whether one of some conditions holds, as an expression."""
        found = [text for each in conditions if (text := self._foreseen(each))]
        return " or ".join(found if len(found) == 1 else (f"({each})" for each in found))

    @property
    def breaks(self) -> bool:
        """Whether the loop may end there."""
        return any(map(leaves, self.looks))

    @property
    def period(self) -> int:
        """Every how many steps such a condition holds, where that is plain; else 0."""
        for each in (node for look in (*self.openings, *self.looks) for node in ast.walk(look.test)):
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod):
                value = each.right.value if isinstance(each.right, ast.Constant) else self.names.get(ast.unparse(each.right))
                return value if isinstance(value, int) else 0
        return 0

    def _foreseen(self, condition: ast.If) -> str | None:
        """The test of a condition, asked before the steps are made; None where it depends on what
        they give.
        """
        item, stored = (*self.inputs, *self.beside), stored_texts(self.loop)
        counted = {
            ast.unparse(each.target): each.lineno for each in self.after if isinstance(each, ast.AugAssign) and counts_one(each)
        }
        test = copy.deepcopy(condition.test)
        if any(isinstance(each, (ast.Call, ast.NamedExpr, ast.Await)) for each in ast.walk(test)) or {"item", "n"} & read_names(
            [test]
        ):
            return None
        for each in [node for node in ast.walk(test) if isinstance(node, ast.Name)]:
            if each.id in item:
                each.id = f"item[{item.index(each.id)}]"
            elif each.id in counted and stored.count(each.id) == 1:
                each.id = f"({each.id} + n)" if counted[each.id] < condition.lineno else f"({each.id} + n - 1)"
            elif each.id in stored or not isinstance(self.names.get(each.id), (int, float, str, type(None))):
                return None
        return ast.unparse(test)

    @functools.cached_property
    def several(self) -> str:
        """Why its steps cannot run several at a time, in one call; empty where they can."""
        if self.unmovable:
            return self.unmovable
        if not self.carried:
            return "no name is given to the step and assigned by it, so that the program's state is not seen"
        for each in self.steps:
            attribute = any(isinstance(node, ast.Attribute) and is_stored(node) for node in ast.walk(each))
            if attribute or not isinstance(each, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                return f"the step at line {each.lineno} is more than assignments of names"
        return ""

    def scan(self, name: str, module: str) -> str:
        """The source of a function that makes several steps. `module`: how its file calls the
        framework.
        """
        parts = {"carried": self.carried, "inputs": self.inputs, "fixed": self.fixed}
        unpacked = [f"{listed(names)[1:-1]} = {part}" for part, names in parts.items() if names]
        return _SCAN.format(
            name=name,
            step=indent_code("\n".join([*unpacked, self.text(self.steps)]), " " * 8),
            carried=listed(self.carried),
            results=listed(self.results),
            jax=module,
        )

    def call(self, name: str, stack: str, found: str) -> str:
        """A call of that function."""
        carried = listed(self.carried)
        return f"{carried}, {found if self.results else '_'} = {name}({carried}, {stack}, {listed(self.fixed)})"


def differentiates(function: Any) -> bool:
    """Whether something is a plain function of Python that takes gradients with JAX."""
    return isinstance(function, types.FunctionType) and bool(GRADIENTS & set(function.__code__.co_names))


def _names_of(frame: FrameType, outline: Outline | None) -> Mapping[str, Any]:
    made = {outline.name: outline.function} if outline is not None else {}
    return {**vars(builtins), **frame.f_globals, **frame.f_locals, **made}


def stands_for(statement: ast.stmt, outline: Outline | None) -> bool:
    """Whether a statement is the call that stands for an outline's."""
    return outline is not None and (statement.lineno, statement.end_lineno) == (outline.first, outline.last)


def _with_call(loop: ast.For, outline: Outline) -> bool:
    """Put the call of an outline into the place of its statements, where they are the loop's own;
    whether they are.
    """
    at = next((at for at, each in enumerate(loop.body) if each.lineno == outline.first), None)
    if at is None:
        return False
    call = parsed(outline.call).body[0]
    for node in ast.walk(call):
        if hasattr(node, "lineno"):
            ast.copy_location(node, loop.body[at])
    call.end_lineno = outline.last
    setattr(call, SAID, outline.call)
    inside = (node for each in loop.body[at : at + outline.statements] for node in ast.walk(each))
    looks = [node for node in inside if isinstance(node, ast.stmt) and node.lineno in outline.looks]
    loop.body[at : at + outline.statements] = [call, *sorted(looks, key=lambda each: each.lineno)]
    return True


def _only_looks(statement: ast.stmt, loop: ast.For) -> TypeGuard[ast.If]:
    """Whether a statement is a condition that gives nothing to a pass of its loop, as one that
    evaluates and logs now and then.
    """
    return isinstance(statement, ast.If) and not {*assigned_names([statement])} & {*required_names(loop.body)}


def _first(body: Sequence[ast.stmt], first: int, last: int, names: Mapping[str, Any]) -> int:
    """The first statement of a step: of arrays that a statement before the calls carries from step
    to step it is a part, too.
    """
    carrying = (at for at in range(first) if carries(body[at], body[at : last + 1], names))
    return next((at for at in carrying if not isinstance(body[at], _CONTROL)), first)


def carries(statement: ast.stmt, step: Sequence[ast.stmt], names: Mapping[str, Any]) -> bool:
    """Whether one of a step's statements assigns arrays of JAX that the next step needs."""
    carried = {*required_names(step)} & {*assigned_names(step)} & {*assigned_names([statement])}
    return any(_arrays(names.get(name)) for name in carried)


def _arrays(value: Any) -> bool:
    """Whether a value holds arrays of JAX."""
    jax: Any = sys.modules.get("jax")
    return jax is not None and any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(value))


def _leaves_well(condition: ast.If) -> bool:
    """Whether a condition leaves its loop by nothing but a `break` at its end."""
    return not any(map(leaves, condition.body[:-1])) and (
        isinstance(condition.body[-1], ast.Break) or not leaves(condition.body[-1])
    )


def listed(names: Sequence[str]) -> str:
    """`(x, y)`, or `(x,)`."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
