"""What a loop speaks to while it is tuned: its items as the active variant wants them, and several steps in one call."""

from __future__ import annotations

import ast
import functools
import gc
import operator
import os
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace.model.errors import CaptureError
from outpace.tune.loop.body import Body, listed, unpacked
from outpace.tune.loop.replayed import Replayed
from outpace.tune.loop.weave import AHEAD, DONATED, LATER, NAME, SEVERAL, woven
from outpace.tune.reason import reason_of

if TYPE_CHECKING:
    from outpace.tune.loop.later import Later
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.statement import Statement

USUAL, MOST = 16, 32  # steps per call: where an epoch's length is not known, and in any case
_END = object()


class Woven:
    """One loop. plain: whether its statements run as they stand. length: items of its last whole pass; 0 before."""

    def __init__(self, loop: Loop, body: Body, later: Later) -> None:
        self.loop, self.body, self.later = loop, body, later
        self.plain, self.recording = True, False
        self.length = 0
        self.noted: list[tuple[Any, Any, Any]] = []  # what steps were given: the state, the inputs, the rest
        self.step = _function(one_step(body), f"{NAME}_one_step", {**body.names, **_running(loop)})
        self.groups = 0  # that ran as one call
        self.made_ahead = 0  # inputs
        self.kept_steps = 0  # whose values were kept for later
        self.ends: Callable[[Any, int], bool] | None = None
        self.whole = False  # steps are compared: they end where they are as many as can be, and nowhere else
        self.inside = True  # of the function that holds the outermost loop
        self._looked_at = False  # whether batches share memory
        self._compiled: dict[bool, Any] = {}

    def put(self, statement: Statement) -> str:
        """Change the loop, in the statement that will run or in the function that it calls; why not, or nothing."""
        body = self.body
        self.inside = body.frame is statement.frame
        tree: Any = statement.node if self.inside else ast.parse("".join(body.lines))
        found = [node for node in ast.walk(tree) if isinstance(node, ast.For) and node.lineno == body.loop.lineno]
        if len(found) != 1:
            return f"{len(found)} loops begin at line {body.loop.lineno}"
        body.prepare(found[0], body.names)
        if len(found[0].body) != len((*body.before, *body.steps, *body.after)):
            return f"the loop at line {body.loop.lineno} is not the one that was looked at"
        if self.inside and found[0] is statement.node:
            statement.stands.extend(woven(body, found[0], self.later))
        else:
            _splice(tree, found[0], woven(body, found[0], self.later))
        if not self.inside and not _recompiled(tree, body):
            return f"the function at line {body.frame.f_code.co_firstlineno} could not be changed"
        body.frame.f_globals[NAME] = self
        return ""

    def place(self, line: int) -> str:
        """A line of the loop's file, as the user knows it."""
        return f"{os.path.relpath(self.body.file)}:{line}"

    def items(self, iterable: Iterable[Any], inputs: Any, ends: Callable[[Any, int], bool] | None = None) -> Iterator[Any]:
        """What the loop is to do next: an item of the iterable where it is `plain`, else inputs of some steps and a stack of them. `ends`: see
        `Body.ends`."""
        self.ends = ends
        self.length = self.length or operator.length_hint(iterable)
        source, count = iter(iterable), 0
        stream: Iterator[Any] | None = None
        wanted = self._wanted(inputs)
        gate = _Gate(source)
        while True:
            self.loop.clock.tick()
            if stream is not None and self._wanted(inputs) != wanted:
                gate.shut = True  # what was made ahead is used up before
            if stream is None:
                wanted = self._wanted(inputs)
                if wanted != (1, False):
                    gate = _Gate(source)
                    stream = self._stream(inputs(gate), *wanted)
            if stream is not None:
                item: Any = next(stream, _END)
                if item is not _END:
                    self.plain, count = False, count + len(item[0])
                    self.loop.clock.size = len(item[0])
                    self.made_ahead += len(item[0]) * wanted[1]
                    yield item
                    continue
                stream = None
                if gate.ended:
                    break
            item = next(source, _END)
            if item is _END:
                break
            self.plain, count = True, count + 1
            yield item
        self.length = count
        self.loop.clock.between()

    def _wanted(self, inputs: Any) -> tuple[int, bool]:
        """Steps per call, and whether their inputs are made ahead."""
        turned = self.loop.active.turned
        if inputs is None or self.loop.active.failure:
            return 1, False
        return (self.per_call if SEVERAL in turned else 1), AHEAD in turned

    def _stream(self, items: Iterator[Any], size: int, early: bool) -> Iterator[Any]:
        """Inputs of some steps, and a stack of them."""
        used = len(self.body.inputs)
        checked = items if self._looked_at else unshared(items, size if size > 1 else 3, self._jax.tree.leaves)
        self._looked_at = True
        if size == 1:
            return (([item], None) for item in self._batches.ahead(self._batches.on_device(checked, used)))
        groups: Iterator[Any] = self._batches.in_groups(checked, size, used, None if self.whole else self.ends)
        if early:
            groups = self._batches.ahead((group, self._jax.device_put(stack)) for group, stack in groups)
        return groups

    @functools.cached_property
    def per_call(self) -> int:
        """Steps per call: what divides an epoch well, by what is known when it is first asked for."""
        return size_for(self.length, self.body.period)

    def several(self, carried: Any, stack: Any, fixed: Any, count: int) -> tuple[Any, list[Any]]:
        """Run steps in one call; the state after the last one, and the results of each."""
        donation = self.loop.donation
        donated = donation is not None and (donation.already or DONATED in self.loop.active.turned)
        try:
            state, results = self.compiled(donated)(carried, stack, fixed)
        except Exception as error:
            self.loop.active.failure = reason_of(error)
            return self._singly(carried, stack, fixed, count)
        self.groups += 1
        if donation is not None and donated and not donation.given_away:
            donation.count(self._jax.tree.leaves(carried))
        return state, self._batches.each_of(results, count)

    def _singly(self, carried: Any, stack: Any, fixed: Any, count: int) -> tuple[Any, list[Any]]:
        """The same, step by step."""
        results = []
        for at in range(count):
            carried, result = self.step(carried, self._part(stack, at), fixed)
            results.append(result)
        return carried, results

    def compiled(self, donated: bool) -> Any:
        """The function that makes several steps in one call, made once."""
        if donated not in self._compiled:
            jax = self._jax
            step = self.step

            def several_steps(carried: Any, stack: Any, fixed: Any) -> Any:
                return jax.lax.scan(lambda state, inputs: step(state, inputs, fixed), carried, stack)

            self._compiled[donated] = self._jit(several_steps, **({"donate_argnums": (0,)} if donated else {}))
        return self._compiled[donated]

    def _part(self, stack: Any, at: int) -> Any:
        return self._jax.tree.map(lambda leaf: leaf[at], stack)

    @property
    def compiles(self) -> bool:
        """Whether XLA has to be asked for: JAX needs no asking."""
        return False

    @functools.cached_property
    def _batches(self) -> Any:
        """What needs JAX to be there."""
        from outpace.tune.loop import batches

        return batches

    @property
    def _jax(self) -> Any:
        return sys.modules["jax"]

    @property
    def _jit(self) -> Callable[..., Any]:
        assert self.loop.jax is not None
        made: Callable[..., Any] = self.loop.jax.original["jit"]
        return made

    def note(self, carried: Any, inputs: Any, fixed: Any) -> None:
        """A step begins, and is recorded."""
        if not self.noted:
            carried = self._jax.tree.map(_copied, carried)
        self.noted.append((carried if not self.noted else None, inputs, fixed))

    def made(self, steps: int) -> list[tuple[Any, Any, Any]]:
        """Let the loop make some steps; what each was given: the state, the inputs, the rest."""
        self.loop.active = self.loop.plain
        self.noted, self.recording = [], True
        self.loop.clock.advance(steps)
        self.recording = False
        noted, self.noted = self.noted, []
        return noted

    def record(self, steps: int) -> Replayed | None:
        """Let the loop make some steps, and keep what they were given; None where nothing was."""
        noted = self.made(steps)
        return (
            Replayed(self, noted[0][0], tuple((inputs, fixed) for _, inputs, fixed in noted))
            if noted and self.body.carried
            else None
        )

    def keeping(self) -> bool:
        """Whether the values of a step are to be read later."""
        keeps = LATER in self.loop.active.turned
        self.kept_steps += keeps
        return keeps


def size_for(length: int, period: int = 0) -> int:
    """Steps per call: as few calls as an epoch of a length allows, those of single steps that are left over included. period: every how many
    steps they end in any case. 0 for what is not known."""

    def calls(steps: int, size: int) -> int:
        return steps // size + steps % size

    def cost(size: int) -> int:
        known = length or period
        return known // period * calls(period, size) + calls(known % period, size) if period else calls(known, size)

    return min(range(1, MOST + 1), key=lambda size: (cost(size), size)) if length or period else USUAL


def _running(loop: Loop) -> dict[str, Any]:
    """The function of an eager step of JAX as the active variant runs it, by its name."""
    step = loop.eager_step if loop.jax is not None else None
    return {step.name: loop.running(step.function)} if step is not None and step.owner is None else {}


def _copied(leaf: Any) -> Any:
    """An array that a step may give away."""
    return leaf.copy() if hasattr(leaf, "is_deleted") else leaf


class _Gate:
    """An iterator that ends where it is shut, and leaves the rest to others. ended: whether there is no rest."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source, self.shut, self.ended = source, False, False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.shut:
            raise StopIteration
        try:
            return next(self._source)
        except StopIteration:
            self.ended = True
            raise


def unshared(items: Iterator[Any], first: int, flat: Callable[[Any], Sequence[Any]]) -> Iterator[Any]:
    """The items. Raises CaptureError where one of the first ones changes while the next ones are made: they share memory."""
    seen: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for at, item in enumerate(items):
        if at < first:
            leaves = flat(item)
            if any(array.tobytes() != before.tobytes() for array, before in seen):
                raise CaptureError("the loop's batches share memory, so that one changes while the next one is made")
            seen += [(leaf, leaf.copy()) for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.dtype != object]
        elif seen:
            seen = []
        yield item


def one_step(body: Body) -> str:
    """The source of a function of the loop's step: what it carries, is given and reads besides; what it carries on, and its results."""
    lines = [f"def {NAME}_one_step(carried, inputs, fixed):"]
    lines += [f"    {line}" for line in unpacked(body, ("carried", "inputs", "fixed"))]
    lines += [textwrap.indent(body.text(body.steps), "    ")]
    lines += [f"    return {listed(body.carried)}, {listed(body.results)}"]
    return "\n".join(lines) + "\n"


def _function(text: str, name: str, names: dict[str, Any]) -> Any:
    exec(compile(text, f"<{name}>", "exec", dont_inherit=True), names)
    return names[name]


def _splice(tree: ast.AST, loop: ast.For, new: Sequence[ast.stmt]) -> None:
    """Put statements into the place of a loop."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            held = getattr(node, name, None)
            if isinstance(held, list) and any(each is loop for each in held):
                at = next(at for at, each in enumerate(held) if each is loop)
                held[at : at + 1] = new
                return


def _recompiled(tree: ast.Module, body: Body) -> bool:
    """Give the function that holds the loop the code of the changed tree."""
    old = body.frame.f_code
    code = compile(ast.fix_missing_locations(tree), body.file, "exec", dont_inherit=True)
    todo: list[types.CodeType] = [code]
    while todo:
        each = todo.pop()
        if (each.co_name, each.co_firstlineno, each.co_freevars) == (old.co_name, old.co_firstlineno, old.co_freevars):
            functions = [
                made for made in gc.get_referrers(old) if isinstance(made, types.FunctionType) and made.__code__ is old
            ]
            for function in functions:
                function.__code__ = each
            return bool(functions)
        todo += [const for const in each.co_consts if isinstance(const, types.CodeType)]
    return False
