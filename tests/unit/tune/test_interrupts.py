"""Ctrl-C during trials: real signals, whose exception gets lost or comes at a bad moment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from outpace.tune.trial import run_experiment
from outpace.tune.trial.interrupts import Interrupts
from tests.unit.tune.simulated import Machine


@pytest.fixture(autouse=True)
def python_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def lost(steps: int = 0) -> None:
    """What C code does that asks an object for an attribute: the exception is gone."""
    with contextlib.suppress(KeyboardInterrupt):
        ctrl_c()


def test_an_exception_that_got_lost_is_raised_again() -> None:
    with Interrupts() as interrupts:
        lost()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_scripts_own_handler_is_still_called() -> None:
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    with Interrupts() as interrupts:
        ctrl_c()
        assert called == [signal.SIGINT] and interrupts.seen


def test_inside_a_shield_it_waits() -> None:
    with Interrupts() as interrupts:
        with interrupts.shield():
            ctrl_c()
            assert interrupts.seen
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts() as interrupts:
        ctrl_c()
        assert not interrupts.seen
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("moment", ["a step", "undoing"])
def test_a_race_ends_even_when_the_exception_got_lost(moment: str) -> None:
    machine, undone = Machine(0), []

    def step(steps: int) -> None:
        machine.work(0.002 * steps)
        if moment == "a step" and machine.now > 3:
            lost()

    def undo() -> None:
        if moment == "undoing":
            lost()
        undone.append(True)

    arms = [machine.arm("base"), machine.arm("other", undo=lambda: undone.append(True))]
    experiment = run_experiment([*arms, type(arms[0])("lossy", step, undo=undo)], budget=20.0, clock=machine.clock)
    assert experiment.interrupted
    assert len(undone) == 2
