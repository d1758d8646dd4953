"""Takes a loop over at one of its first steps: from then on the script's thread runs the loop alone, again and again, and another thread
tunes it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from outpace.model.errors import UsageError
from outpace.tune.loop.body import Body
from outpace.tune.loop.found import Found
from outpace.tune.loop.loop import Loop
from outpace.tune.loop.outline import ON, STEP, outlined
from outpace.tune.loop.statement import Statement
from outpace.tune.loop.step import Step
from outpace.tune.loop.syncs import syncs_of
from outpace.tune.loop.written import Unwritten
from outpace.tune.reason import reason_of


def take_over(
    found: Found, guard: Unwritten, tune: Callable[[Loop, Statement], object], interrupted: Callable[[], object]
) -> NoReturn:
    """Call it in the script's main thread, from inside of a step. `tune` is called in another thread, and ends the process, as does
    `interrupted` at Ctrl-C. Raises UsageError where the loop's source is not at hand."""
    statement = loop_around(sys._getframe(1))
    outline = outlined(statement) if found.jax is None else None
    eager = Step(outline.name, outline.function, None, None, outline) if outline is not None else None
    eager = eager or step_alone(found, statement, sys._getframe(1))
    loop = Loop(found, eager)
    if found.jax is not None:
        loop.weave(statement, sys._getframe(1))
        if loop.donation is not None:
            statement.renewed.append(kept_arrays(statement.frame.f_locals))
    loop.install()
    if outline is not None:
        statement.frame.f_globals.update({ON: loop.on, STEP: loop.step_of(outline)})
    if found.jax is None:
        loop.syncs = syncs_of(statement)
        statement.frame.f_globals.update(loop.kept.names(loop.reads_later))
    signal.signal(signal.SIGINT, lambda number, frame: interrupted())  # the script's own code must not see it
    guard.begin()
    guard.mute()
    threading.Thread(target=tune, args=(loop, statement), name="outpace-tuning", daemon=True).start()
    _run(loop, statement)


def loop_around(frame: FrameType) -> Statement:
    """The loop that makes the steps. Raises UsageError where its source is not at hand."""
    statement = Statement.around(frame)
    if statement is None:
        raise UsageError("The loop that makes the steps was not found in the script's source.")
    return statement


def step_alone(found: Found, statement: Statement, frame: FrameType) -> Step | None:
    """The function whose calls are the steps, where nothing else shows them; None where something does. Raises UsageError where none does."""
    in_jax = found.jax is not None and not isinstance(Body.around(frame), str)
    if found.dataset is not None or found.step is not None or in_jax:
        return None
    step = Step.in_loop(frame)
    if step is None:
        raise UsageError(
            f"The steps of the loop at {statement.place} are made in the loop itself, without a data set of tf.data. Put the step into a "
            "function that the loop calls."
        )
    return step


def kept_arrays(values: Mapping[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What gives copies of the arrays of JAX that names hold now: a step may give its own away. Nothing of them is held meanwhile."""
    jax = sys.modules["jax"]

    def kept(leaf: Any) -> Callable[[], Any]:
        if not isinstance(leaf, jax.Array) or leaf.is_deleted():
            return lambda: leaf
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            copied = leaf.copy()
            return copied.copy  # type: ignore[no-any-return]  # an array
        held, sharding = np.array(leaf), leaf.sharding
        return lambda: jax.device_put(held.copy(), sharding)

    trees = {name: jax.tree.flatten(value) for name, value in values.items()}
    made = {
        name: ([kept(leaf) for leaf in leaves], form)
        for name, (leaves, form) in trees.items()
        if any(isinstance(leaf, jax.Array) for leaf in leaves)
    }
    return lambda now: {
        **now,
        **{name: jax.tree.unflatten(form, [make() for make in leaves]) for name, (leaves, form) in made.items()},
    }


def _run(loop: Loop, statement: Statement) -> NoReturn:
    """Run the loop, and once more whenever it ends."""
    while True:
        before = loop.clock.ticks
        try:
            statement.run()
        except BaseException as error:
            if loop.active.turned and not loop.active.failure:
                loop.active.failure = f"the loop fails with it: {reason_of(error)}"
                continue
            loop.clock.stop(f"The loop at {statement.place} fails: {reason_of(error)}")
        loop.clock.aside()
        if loop.clock.ticks == before:
            loop.clock.stop(f"The loop at {statement.place} came to its end, and makes no step when it is run again")
