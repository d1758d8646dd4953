"""Whether a variant of a loop learns as the loop does: the same steps from the same state, within what chance would do to them."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError, UsageError
from outpace.tune.loop.replayed import Replayed, objection, random
from outpace.tune.loop.stepper import LoopStepper
from outpace.tune.numerics import Band, affordable, held, judge, ordered, same, shuffled
from outpace.tune.program.state import Variables, nudged

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Variant
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.stepper import Call
    from outpace.tune.program.program import Program

STEPS = 50
NUDGES = 3  # states that differ by one rounding: what a single one does to a step is chance
REPLAYED = 56  # steps of a loop of JAX: whole calls of several
SECONDS, FEWEST = 5.0, 10  # that these steps may take, made four times and more; of slow ones fewer are compared, but so many
_RANDOM = (
    " A step draws random numbers that come from none of its variables, so that its numbers alone decide, and no single step."
)
_REDRAWN = " XLA makes other random numbers of the same seeds (for dropout, say), so that its numbers alone decide, beside those of others."
CALLS = 10  # of a step's function, where no data set can be given to it again


@dataclass(frozen=True, eq=False)
class Run:
    """Steps from one state. numbers: of each the loss, or how far the variables have moved. first: what the first one, or the first call of
    several, left, arrays."""

    numbers: list[float]
    first: list[Any]


class Runs(Protocol):
    """Makes steps, one per place in `order`, from the state that was kept; `nudge`: with all its numbers moved by one rounding, up or down by
    that seed; below 0 with other seeds of what is random."""

    def __call__(self, variant: Variant | None, order: Sequence[int], nudge: int = 0) -> Run:
        """The steps."""


def loop_band(program: Program, variant: Variant, *, seconds: float | None = None) -> Band:
    """Run steps of the loop, of its controls (other orders of batches) and of the variant, each from the state that it had when it was taken
    over: the trials train on, and where a loss is next to nothing its gradients are rounding alone. What variables hold now is put back.

    After one step the variables, and what functions of the step return, may differ by rounding alone (`agreement`). After that the first number
    that a function of the step returns is compared, its loss as a rule; where there is none, how far the variables have moved. A loop that
    reads no tf.data runs on; of its steps the calls of their function are made again.
    Raises UsageError where there are none.
    """
    loop, now = program.loop, Variables.here()
    assert loop is not None
    kept = now.as_in(loop.began) if loop.began is not None else now
    if loop.woven is not None and (replayed := loop.woven.record(compared(program, REPLAYED))) is not None:
        if isinstance(loop.calls, Replayed):
            replayed = replace(replayed, carried=loop.calls.carried)
        run, first = _of_steps(program, loop, replayed, variant)
        order = list(range(len(replayed.made)))
    else:
        with _applied(program, variant):
            size = loop.per_call(loop.prepared())
        by_batches = program.limited and kept.held != ()
        if by_batches:
            run, count = _of_batches(program, kept, size)
        elif size > 1 and loop.jax is None:
            run, count = _of_several(program, loop, kept, size)
        else:
            run, count = _of_calls(program, loop, kept)
        steps = max(compared(program, STEPS) // size, 2) * size if size > 1 else compared(program, STEPS)
        order = [step % count for step in range(steps if kept.held else count)]
        first = size if kept.held else count  # calls that leave no state behind are each a first step
    one = order[:first]
    if loop.woven is not None:
        loop.woven.whole = True
    try:
        why, chance = _agreed(run, one, variant, _compiles(program, variant))
        if why is not None:
            return Band((), (), (), math.inf, None, None, False, f"It cannot be kept: {why}.")
        began = time.perf_counter()
        base = run(None, order)
        spent = time.perf_counter() - began
        tried = run(variant, order)
        seeds = () if same(base.numbers, tried.numbers) else range(1, 1 + affordable(seconds, spent))
        controls = [run(None, shuffled(order, seed), -seed if chance == _REDRAWN else 0).numbers for seed in seeds]
    finally:
        now.restore()
        if loop.woven is not None:
            loop.woven.whole = False
    band = judge(base.numbers, tried.numbers, controls)
    return replace(band, sentence=band.sentence + chance)


def _agreed(run: Runs, one: Sequence[int], variant: Variant, redraws: bool) -> tuple[str | None, str]:
    """What speaks against a variant after its first step, or nothing; and what chance has to do with it, as a sentence. `redraws`: the variant
    may make other random numbers of the same seeds."""
    left, *own = (run(None, one, nudge).first for nudge in (0, 0, *range(1, 1 + NUDGES)))
    found = run(variant, one).first
    why = objection(left, own, found)
    if random(left, own[0]):
        return why, _RANDOM
    if why is not None and redraws:
        other = run(None, one, -1).first
        if random(_floats(left), _floats(other)) and objection(left, [other, *own], found) is None:
            return None, _REDRAWN
    return why, ""


def _floats(arrays: Sequence[Any]) -> list[Any]:
    """Without the seeds themselves."""
    return [array for array in arrays if array.dtype.kind == "f"]


def _compiles(program: Program, variant: Variant) -> bool:
    """Whether XLA compiles a variant: of the same seeds it makes other random numbers than TensorFlow's own kernels."""
    loop = program.loop
    with _applied(program, variant):
        return loop is not None and loop.prepared().compiled


def compared(program: Program, most: int) -> int:
    """Steps that are compared: as many as SECONDS hold."""
    return most if program.step_seconds is None else max(FEWEST, min(most, int(SECONDS / program.step_seconds)))


def _of_batches(program: Program, kept: Variables, size: int) -> tuple[Runs, int]:
    """Runs the loop itself on batches that are held in memory, `size` steps at a time; how many batches there are."""
    from outpace.tune.program.source import Feed

    loop, batches = program.loop, held(program, compared(program, STEPS))
    assert loop is not None

    def run(variant: Variant | None, order: Sequence[int], nudge: int = 0) -> Run:
        feed = Feed(ordered(batches, order))
        with _applied(program, variant):
            stepper = LoopStepper(loop, feed)
        stepper.compile()  # its first step
        kept.restore(nudge)
        stepper.iterator = stepper.active.iterator = iter(feed.dataset)
        loop.keeps, numbers = True, list[float]()
        first: list[Any] = []
        for at in range(0, len(order), size):
            loop.values.clear()
            stepper.run(size)
            losses = loop.values[:1] if size == 1 and not loop.eager else []  # a call of several steps may tell other ones
            numbers.append(losses[0] if losses else kept.moved())
            if at == 0:
                first = [*kept.now(), *map(np.asarray, losses)]
        loop.keeps = False
        return Run(numbers, first)

    return run, len(batches)


def _of_steps(program: Program, loop: Loop, replayed: Replayed, variant: Variant) -> tuple[Runs, int]:
    """Makes steps of a loop of JAX again, each from the state that the one before it left; how many one call of the variant makes."""
    with _applied(program, variant):
        size = loop.per_call(loop.prepared())

    def run(variant: Variant | None, order: Sequence[int], nudge: int = 0) -> Run:
        with _applied(program, variant):
            active = loop.prepared()
        found: list[Run] = []

        def made() -> None:
            loop.active = active
            found.append(Run(*replayed.run(active, order, size, nudge)))

        loop.clock.perform(loop.inside(made))
        return found[0]

    return run, size


def _of_several(program: Program, loop: Loop, kept: Variables, size: int) -> tuple[Runs, int]:
    """Makes steps of a loop of TensorFlow again, which it has just made, `size` of them in one call where the variant does; how many there
    are."""
    from outpace.tune.loop.tensors import TensorWoven

    assert isinstance(loop.woven, TensorWoven)
    woven, made = loop.woven, loop.woven.made(compared(program, STEPS))
    if not made:
        raise UsageError("The loop has made no step that could be made again.")

    def run(variant: Variant | None, order: Sequence[int], nudge: int = 0) -> Run:
        kept.restore(nudge)
        with _applied(program, variant):
            loop.active = active = loop.prepared()
        numbers, first = list[float](), list[Any]()

        def again() -> None:
            for at in range(0, len(order), size):
                results = woven.again([made[each] for each in order[at : at + size]], active)
                arrays = [[np.asarray(leaf) for leaf in loop.flat(each)] for each in results]
                losses = [[float(array) for array in each if array.ndim == 0 and array.dtype.kind == "f"] for each in arrays]
                numbers.extend([each[0] for each in losses] if all(losses) else [kept.moved()])
                if not at:
                    first.extend([*kept.now(), *itertools.chain(*arrays)])

        loop.clock.perform(loop.inside(again))
        if active.failure:
            raise CaptureError(active.failure)
        return Run(numbers, first)

    return run, len(made)


def _of_calls(program: Program, loop: Loop, kept: Variables) -> tuple[Runs, int]:
    """Makes calls of the step's function again, which the loop has just made; how many there are."""
    loop.active, calls = loop.plain, loop.record(CALLS)
    if not calls:
        raise UsageError("The loop reads no data set of tf.data, and its step is no function whose calls could be made again.")

    def run(variant: Variant | None, order: Sequence[int], nudge: int = 0) -> Run:
        kept.restore(nudge)
        with _applied(program, variant):
            function = loop.as_prepared(calls[0].function)
        numbers: list[float] = []
        first: list[Any] = []

        def made() -> None:
            for number, at in enumerate(order):
                arrays = _returned(loop, calls[at], function, nudge)
                losses = [float(array) for array in arrays if array.ndim == 0 and array.dtype.kind == "f"]
                norms = math.fsum(float(np.linalg.norm(array.ravel())) for array in arrays if array.dtype.kind == "f")
                numbers.append(losses[0] if losses else kept.moved() if kept.held else norms)
                if number == 0 or not kept.held:
                    first.extend([*kept.now(), *arrays])

        loop.clock.perform(loop.inside(made))
        return Run(numbers, first)

    return run, len(calls)


def _returned(loop: Loop, call: Call, function: Any, nudge: int) -> list[Any]:
    """The arrays that a call returns; `nudge`: of arguments that were moved by one rounding, where it is a function of them."""
    if nudge and loop.jax is not None:
        jax = loop.jax.jax
        args, kwargs = jax.tree_util.tree_map(
            lambda leaf: nudged(leaf, nudge) if isinstance(leaf, jax.Array) else leaf, (call.args, call.kwargs)
        )
        call = replace(call, args=args, kwargs=kwargs)
    leaves = loop.flat(call.make(function))
    return [
        np.array(leaf) for leaf in leaves if hasattr(leaf, "dtype") and leaf.dtype != object and "key<" not in str(leaf.dtype)
    ]


def _applied(program: Program, variant: Variant | None) -> Any:
    return contextlib.nullcontext() if variant is None else variant.applied(program)
