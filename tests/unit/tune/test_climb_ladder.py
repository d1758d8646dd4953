"""What the last race keeps of what seemed faster. Time is simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from outpace.tune.climb.outcome import Rung, Tried, ladder_of
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.verify import Risk
from outpace.tune.trial import Arm, Protocol, run_experiment
from outpace.tune.trial.statistics import Estimate
from tests.unit.tune.simulated import Machine

FAILS = -1.0


def changed(id: str, title: str) -> Change:
    rewrite: Any = SimpleNamespace(id=id, title=title, minor=False)
    return Change(rewrite, "", Risk.EXACT)


def _fail(steps: int) -> None:
    raise RuntimeError("out of memory")


def kept(*rates: float, bursts: bool = False) -> list[str]:
    """Titles of the rungs that are kept, of rungs with these rates on top of each other; the start has rate 1, and one fails."""
    machine = Machine(3, noise=0.02, drift=0.0, bursts=bursts)
    best = start = Variant("as it is", None)
    for at, _ in enumerate(rates):
        best = best.with_change(changed(f"c{at}", f"change {at}"), object())
    arms = [machine.arm(start.name)]
    for rung, rate in zip(best.rungs, rates, strict=True):
        arms.append(machine.arm(rung.name, rate) if rate != FAILS else Arm(rung.name, _fail))
    final = run_experiment(arms, budget=60.0, clock=machine.clock, protocol=Protocol(search=False))
    return [rung.change.title for rung in ladder_of(final, best.rungs)]


def test_rungs_are_kept_in_order() -> None:
    assert kept(1.3, 1.6, 2.0) == ["change 0", "change 1", "change 2"]


def test_a_rung_at_the_top_that_is_slower_goes() -> None:
    assert kept(1.3, 1.6, 1.2) == ["change 0", "change 1"]


def test_a_rung_at_the_top_that_adds_nothing_goes() -> None:
    assert kept(1.5, 1.5) == ["change 0"]


def test_a_rung_at_the_top_that_is_not_proven_takes_no_other_with_it() -> None:
    assert kept(1.5, FAILS) == ["change 0"]


def test_what_only_seemed_faster_is_not_kept() -> None:
    assert kept(1.0) == [] and kept(1.0, 1.005) == []


def test_a_rung_that_needs_the_next_one_stays() -> None:
    assert kept(1.0, 1.5) == ["change 0", "change 1"]


def test_the_last_race_has_the_last_word_on_a_practice() -> None:
    screened = Tried("cache", "Cache", "seems faster", "Speed-up 4x on 8 rounds of a search", "it repeats", (4.0, 3.0, 5.0))
    step = Estimate(3.48, 2.96, 4.1, 33, 0.2)
    kept = screened.kept(Rung(changed("cache", "Cache"), 112.0, step, step))
    assert kept.ratio == (3.48, 2.96, 4.1)
    assert (
        kept.reason == "speed-up 3.48x (95% CI 2.96 to 4.10) over the program without it, on 33 fresh rounds of the last race"
    )
    dropped = screened.unproven()
    assert dropped.decision == "not proven" and dropped.ratio == screened.ratio
    assert dropped.reason.endswith("The last race, on fresh rounds, did not prove it")
