"""The turns of a loop's thread and the tuning's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from outpace.model.errors import CaptureError
from outpace.tune.loop.stepper import Clock


def looping(
    clock: Clock, step: Callable[[int], object] = lambda at: None, steps: int = 1_000_000, end: str | None = None
) -> threading.Thread:
    """Run a loop in a thread, as the script's."""

    def run() -> None:
        for at in range(steps):
            clock.tick()
            step(at)
        clock.tick() if end is None else clock.stop(end)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_the_loop_makes_the_steps_that_it_is_given_and_no_more() -> None:
    clock = Clock()
    made: list[int] = []
    looping(clock, made.append)
    assert clock.advance(3).steps == 3 and len(made) == 3
    time.sleep(0.05)
    assert len(made) == 3
    assert clock.advance(2).steps == 2 and len(made) == 5 and clock.steps == 5


def test_a_block_is_as_long_as_its_steps() -> None:
    clock = Clock()
    looping(clock, lambda at: time.sleep(0.01))
    clock.advance(1)
    time.sleep(0.1)  # of the tuning: no part of a block
    work = clock.advance(5)
    assert 0.05 <= work.seconds < 0.14


def test_what_is_set_aside_counts_neither_as_a_step_nor_as_time() -> None:
    clock = Clock()

    def step(at: int) -> None:
        if at == 1:
            clock.aside()
            time.sleep(0.3)

    looping(clock, step)
    work = clock.advance(3)
    assert work.steps == 3 and work.seconds < 0.2


def test_what_lies_between_two_passes_is_no_part_of_a_step_but_what_steps_left_to_devices_is() -> None:
    clock = Clock(lambda: time.sleep(0.05))

    def step(at: int) -> None:
        if at == 1:
            clock.between()
            time.sleep(0.3)

    looping(clock, step)
    work = clock.advance(3)
    assert work.steps == 3 and 0.1 <= work.seconds < 0.3  # the device's time of the pass, and of the block
    ((start, end),) = clock.apart
    assert 0.3 <= end - start < 0.4


def test_the_finish_of_a_block_belongs_to_it() -> None:
    clock = Clock(lambda: time.sleep(0.1))
    looping(clock)
    assert clock.advance(2).seconds >= 0.1


def test_a_loop_that_ends_is_an_error_with_its_reason() -> None:
    clock = Clock()
    looping(clock, steps=4, end="The loop came to its end.")
    assert clock.advance(3).steps == 3
    for _ in range(2):
        with pytest.raises(CaptureError, match="came to its end"):
            clock.advance(3)


def test_the_scripts_thread_does_a_job_between_two_steps() -> None:
    clock = Clock()
    made: list[int] = []
    thread = looping(clock, made.append)
    clock.advance(2)
    where: list[int | None] = []

    def failing() -> None:
        raise ZeroDivisionError

    clock.perform(lambda: where.append(threading.get_ident()))
    assert where == [thread.ident] and len(made) == 2
    with pytest.raises(ZeroDivisionError):
        clock.perform(failing)
    assert clock.advance(1).steps == 1 and len(made) == 3
