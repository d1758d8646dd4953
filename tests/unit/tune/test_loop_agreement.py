"""One step of a variant against one of the loop: the same but for rounding."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from outpace.tune.loop.losses import compared
from outpace.tune.loop.replayed import apart, objection, random
from outpace.tune.program.state import nudged

BASE: list[np.ndarray[Any, Any]] = [np.asarray([1.0, -4.0, 0.0], np.float32), np.asarray(3, np.int64)]


def changed(factor: float) -> list[np.ndarray[Any, Any]]:
    return [BASE[0] * np.float32(factor), BASE[1]]


def test_a_distance_is_a_part_of_the_largest_number() -> None:
    assert apart(BASE, changed(1.01)) == pytest.approx([0.01, 0.0], rel=1e-3)
    assert apart(BASE, [BASE[0], np.asarray(4, np.int64)]) == [0.0, np.inf]
    assert apart(BASE, [BASE[0][:2], BASE[1]])[0] == np.inf and apart(BASE, BASE[:1]) == [np.inf]
    assert apart([np.zeros(2)], [np.zeros(2)]) == [0.0] and apart([np.zeros(2)], [np.ones(2)]) == [np.inf]
    assert apart([np.asarray([np.nan, 1.0])], [np.asarray([np.nan, 1.0])]) == [0.0]
    assert apart([np.asarray([np.nan, 1.0])], [np.asarray([0.0, 1.0])]) == [np.inf]


@pytest.mark.parametrize(("factor", "kept"), [(1 + 0.5e-5, True), (1 + 2e-5, False)])
def test_one_part_in_a_hundred_thousand_is_allowed(factor: float, kept: bool) -> None:
    assert (objection(BASE, [BASE], changed(factor)) is None) == kept


def test_more_is_allowed_where_one_rounding_of_the_state_does_as_much() -> None:
    """The first step of Adam divides by gradients that may be next to nothing."""
    assert objection(BASE, [BASE, changed(1 + 1e-3), BASE], changed(1 + 7e-3)) is None
    assert "more than rounding" in (objection(BASE, [BASE, changed(1 + 1e-3), BASE], changed(1 + 9e-3)) or "")


def test_what_cancels_is_nothing_but_rounding() -> None:
    """A bias before a batch normalisation has no gradient: what there is of one depends on the order of the sums."""
    noise = [BASE, changed(1 + 1e-2), BASE]
    assert objection(BASE, noise, changed(1.9)) is None
    assert (
        "more than rounding" in (objection(BASE, noise, changed(2.1)) or "")
        and objection(BASE, noise, changed(0.0)) is not None
    )
    assert "more than rounding" in (
        objection(BASE[:1], [each[:1] for each in noise], changed(1.9)[:1]) or ""
    )  # everything is amplified
    half = [array.astype(np.float16) if array.ndim else array for array in BASE]
    own = [half, [half[0] * np.float16(1.01), half[1]]]
    assert "more than rounding" in (objection(half, own, [half[0] * np.float16(1.2), half[1]]) or "")


@pytest.mark.parametrize(("seconds", "steps"), [(None, 50), (0.1, 50), (0.25, 20), (2.0, 10), (60.0, 10)])
def test_slow_steps_are_compared_over_fewer(seconds: float | None, steps: int) -> None:
    program: Any = types.SimpleNamespace(step_seconds=seconds)
    assert compared(program, 50) == steps


def test_keys_of_random_numbers_are_not_moved() -> None:
    jax = pytest.importorskip("jax", exc_type=ImportError)
    key = jax.random.key(0)
    assert nudged(key) is key and nudged(BASE[1]) is BASE[1] and np.all(nudged(BASE[0])[:2] != BASE[0][:2])


def test_a_step_with_random_numbers_allows_what_they_do() -> None:
    assert random(BASE, changed(1.1)) and not random(BASE, BASE) and not random([], [])
    assert objection(BASE, [changed(1.1), BASE], changed(1.5)) is None
    assert "more than rounding" in (objection(BASE, [changed(1.1), BASE], changed(1.9)) or "")
    assert "more than rounding" in (objection(BASE, [changed(1.1), BASE], [*BASE, BASE[0]]) or "")


def test_nothing_cannot_be_compared() -> None:
    assert "changes nothing that could be compared" in (objection([], [], []) or "")


def test_a_nudge_is_one_rounding_of_every_number() -> None:
    moved = nudged(BASE[0])
    assert moved.dtype == np.float32 and moved[0] != 1.0 and moved[2] == 0.0
    assert apart([BASE[0]], [moved])[0] <= np.finfo(np.float32).eps
    assert nudged(BASE[1]) is BASE[1]
