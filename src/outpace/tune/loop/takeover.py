"""Takes a loop over at one of its first steps: to run it alone, again and again, while another thread tunes it; or to turn on in it what an
earlier tuning has kept, while it runs once."""

from __future__ import annotations

import ast
import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType, FunctionType
from typing import Any, NoReturn

import numpy as np

from outpace.capture.steps_tf import Reader
from outpace.model.errors import UsageError
from outpace.tune.loop.body import Body, differentiates
from outpace.tune.loop.donation import Donation
from outpace.tune.loop.found import Found
from outpace.tune.loop.later import later_of, syncs_of
from outpace.tune.loop.loop import Loop
from outpace.tune.loop.models import Models
from outpace.tune.loop.muted import Muted
from outpace.tune.loop.outline import ON, STEP, outlined, takes_gradients
from outpace.tune.loop.statement import Statement
from outpace.tune.loop.step import Outline, Step
from outpace.tune.loop.woven import Woven
from outpace.tune.reason import reason_of


def take_over(
    found: Found, muted: Muted, tune: Callable[[Loop, Statement], object], interrupted: Callable[[], object]
) -> NoReturn:
    """Call it in the script's main thread, from inside of a step. `tune` is called in another thread, and ends the process, as does
    `interrupted` at Ctrl-C. Raises UsageError where the loop's source is not at hand."""
    statement = loop_around(sys._getframe(1))
    if name := statement.overwritten:
        raise UsageError(
            f"The loop at {statement.place} goes over {name}, and assigns {name} anew in each step: run again from its begin, as it has to be "
            f"here, it would go over a batch. Give the batch another name."
        )
    outline = outlined(statement, sys._getframe(1), jax=found.jax is not None)
    eager = Step(outline.name, outline.function, None, None, outline) if outline is not None else None
    eager = eager or called_step(found, statement, sys._getframe(1))
    if eager is not None and found.jax is not None:
        found = replace(found, step=None)  # a function that it calls is a part of the step
    eager = eager or step_alone(found, statement, sys._getframe(1))
    if eager is not None and eager.outline is None:
        hold_local(eager, statement)
    loop = Loop(found, eager)
    if found.jax is None:
        loop.syncs = syncs_of(statement)
        statement.frame.f_globals.update(loop.kept.names(loop.reads_later))
    loop.weave(woven_of(loop, sys._getframe(1), outline, found.reader), statement)
    if loop.woven is not None and loop.jax is not None:
        loop.donation = Donation(loop.woven.body)
        statement.renewed.append(kept_arrays(statement.frame.f_locals))
    loop.install()
    if found.jax is None:
        loop.eager_models = Models(loop, statement)
        loop.eager_models.install()
    if outline is not None:
        outline.names.update({ON: loop.on, STEP: loop.running(outline.function)})
    signal.signal(signal.SIGINT, lambda number, frame: interrupted())  # the script's own code must not see it
    muted.begin()
    with leave_tapes():
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


def called_step(found: Found, statement: Statement, frame: FrameType) -> Step | None:
    """The eager function that makes the steps, where the loop calls it by a name; None where nothing shows that before a step runs."""
    body = Body.around(frame) if found.jax is not None else None
    if found.jax is None and statement.frame.f_code.co_name != "<module>":  # whose names can be changed now only
        names: Mapping[str, Any] = statement.frame.f_locals
        return next(
            (Step(name, each, None, {}) for name, each in _called([statement.node], names) if takes_gradients(each)), None
        )
    if body is None or isinstance(body, str):
        return None
    names, holder = {**body.frame.f_globals, **body.frame.f_locals}, body.frame.f_globals
    for name, each in _called(body.steps, names):
        if differentiates(each) and (holder.get(name) is each or body.frame is statement.frame):
            return Step(name, each, None, holder)
    return None


def _called(statements: Sequence[ast.AST], names: Mapping[str, Any]) -> Iterator[tuple[str, FunctionType]]:
    """Plain functions that statements call, by name."""
    for each in (node for statement in statements for node in ast.walk(statement)):
        function = names.get(each.func.id) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) else None
        if isinstance(function, FunctionType) and isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            yield each.func.id, function


def hold_local(step: Step, statement: Statement) -> None:
    """Let the switch of a function that the loop's function alone knows be its name's value in each run of the loop."""
    frame, held = statement.frame, dict[str, Any]()
    if frame.f_code.co_name != "<module>" and step.owner is None and frame.f_locals.get(step.name) is step.function:
        step.holder = held
        statement.renewed.append(lambda now: {**now, **held})


def woven_of(loop: Loop, frame: FrameType, outline: Outline | None, reader: Reader | None = None) -> Woven | str:
    """What can be put into the innermost loop around a frame, for several steps in one call and the like; why nothing can. `reader`: what reads
    the loop's data set."""
    if outline is not None and outline.aside:
        return "the step stands in a function that the loop calls, and is compiled first"
    if loop.jax is None:
        from outpace.tune.loop.tensors import TensorBody, TensorWoven

        found = TensorBody.around(frame, outline)
        why = found.reason(loop.dataset, reader) if isinstance(found, TensorBody) else found
        return TensorWoven(loop, found) if isinstance(found, TensorBody) and not why else str(why)
    body = Body.around(frame, outline)
    return body if isinstance(body, str) else Woven(loop, body, later_of(body))


def leave_tapes() -> contextlib.ExitStack:
    """Let the gradient tapes that are open here record nothing more: the loop is run again inside of them, and they would hold on to whatever
    it computes. They record again when what this returns is closed."""
    tf: Any = sys.modules.get("tensorflow")
    stopped = contextlib.ExitStack()
    for each in gc.get_objects() if tf is not None else ():
        if issubclass(type(each), tf.GradientTape) and each._recording:
            stopped.enter_context(each.stop_recording())
    return stopped


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
