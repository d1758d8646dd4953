"""`race` in one process, and its result. Arms measure themselves, at any speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from outpace.model import CaptureError, UsageError
from outpace.report import html
from outpace.tune.pages.race import agreement
from outpace.tune.pages.race import replay_page_of as comparison
from outpace.tune.race import RaceResult, race, replay
from outpace.tune.trial import Arm, Decision, Experiment, Facts, Trial, Work
from outpace.tune.trial.arm import wait_for
from tests.unit.tune.simulated import simulate


def known(rate: float) -> Arm:
    """An arm that always tells the same rate, in steps per second."""
    return Arm("", lambda steps: Work(steps, steps / rate))


def test_functions_and_arms_are_raced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = race({"a": known(1000.0), "b": known(1500.0)}, budget=1.0, out=tmp_path / "r.jsonl")
    assert result.winner == "b"
    assert result.verdict("b").estimate is not None
    assert RaceResult.load(tmp_path / "r.jsonl").experiment == result.experiment
    told = capsys.readouterr()
    assert not told.out
    assert "outpace: racing, at most" in told.err
    with pytest.raises(UsageError, match="Python functions"):
        replay(result.experiment)


def test_a_function_is_one_step() -> None:
    calls: list[str] = []

    def step() -> None:
        time.sleep(0.001)
        calls.append("a")

    experiment = race({"a": step, "b": lambda: time.sleep(0.001)}, budget=0.8, progress=False).experiment
    trial = experiment.trial("a")
    timed = sum(s.steps for s in experiment.samples if s.arm in experiment.instances("a"))
    assert len(calls) == 1 + trial.warmup_steps + timed  # the first step, the warm-up, and the blocks


def test_a_race_of_failures_is_an_error(tmp_path: Path) -> None:
    def broken() -> None:
        raise ValueError("no data")

    with pytest.raises(CaptureError, match="a: ValueError: no data b: ValueError: no data"):
        race({"a": broken, "b": broken}, budget=1.0, progress=False)
    with pytest.raises(CaptureError, match="for the reasons above") as told:
        race({"a": broken, "b": broken}, budget=1.0)
    assert "no data" not in str(told.value)


@pytest.mark.parametrize(
    ("variants", "effect"),
    [({"a": known(1.0)}, 0.03), ({"a": known(1.0), "b": 3}, 0.03), ({"a": known(1.0), "b": known(1.0)}, 3.0)],
)
def test_bad_requests(variants: dict[str, Callable[[], object] | Arm], effect: float) -> None:
    with pytest.raises(UsageError):
        race(variants, effect=effect, progress=False)


def example(**changes: object) -> Experiment:
    experiment = simulate(3, 1.4, 1.0, 0.5)
    failed = Trial("broken", failure="MemoryError: no memory")
    facts = replace(experiment, trials=(*experiment.trials[:-1], failed, experiment.trials[-1]))
    from outpace.tune.trial import judge

    return replace(facts, verdicts=judge(facts), **changes)  # type: ignore[arg-type]  # fields by name


def test_the_page_says_who_won_and_why() -> None:
    experiment = example()
    page = RaceResult(experiment).page
    found = experiment.verdict("v0").estimate
    assert found is not None
    assert page.headline.startswith(
        f"v0 has a speed-up of {found.ratio:.2f}x over base, 95% CI {found.low:.2f} to {found.high:.2f}"
    )
    rows = list(page.table("race").records())
    assert [(row["variant"], row["verdict"]) for row in rows] == [
        ("base", "baseline"), ("v0", "faster"), ("v1", "no difference"), ("v2", "slower"), ("broken", "failed"),
    ]  # fmt: skip
    assert rows[0]["ratio"] == 1.0 and rows[0]["low"] is None
    assert rows[1]["ratio"] == found.ratio
    assert rows[1]["rate"] / rows[0]["rate"] == pytest.approx(found.ratio, rel=0.1)
    assert rows[4]["ratio"] is None and rows[4]["reason"] == "MemoryError: no memory"


def test_the_text_fits_80_columns_and_the_html_holds_the_page() -> None:
    result = RaceResult(example())
    assert max(len(line) for line in str(result).splitlines()) <= 80
    assert "MemoryError" in str(result) and "v0" in str(result)
    assert "x over base" in result._repr_html_()
    assert "speed-up of" in html.render_fragment(result.page)


def test_a_winner_is_the_first_thing_to_change() -> None:
    experiment = example()
    (finding,) = RaceResult(experiment).report.findings
    found = experiment.verdict("v0").estimate
    assert found is not None and finding.saving is not None
    assert finding.action == "Train with v0."
    assert finding.saving.is_predicted
    assert finding.saving.low == pytest.approx(1 - 1 / found.low)
    assert finding.saving.high == pytest.approx(1 - 1 / found.high)
    assert not RaceResult(simulate(1, 1.0)).report.findings


def test_headlines_of_other_outcomes() -> None:
    same = simulate(1, 1.0)
    assert RaceResult(same).page.headline in (
        "No variant is faster than base by 3% or more.",
        "No variant was shown to be faster than base; not all could be judged.",
    )
    assert RaceResult(example(interrupted=True)).page.headline.startswith("The race was stopped early. ")


def test_different_steps_are_said() -> None:
    experiment = example()
    sizes = {"base": 32.0, "v0": 64.0}
    trials = tuple(replace(t, examples=sizes.get(t.arm, 32.0), step=Facts().step) for t in experiment.trials)
    said = str(RaceResult(replace(experiment, trials=trials)))
    assert "A step is not the same work" in said and "--per example" in said
    assert "A step is not the same work" not in str(RaceResult(experiment))


def test_a_repetition_is_compared() -> None:
    first, second, other = simulate(3, 1.4, 0.5), simulate(6, 1.4, 0.5), simulate(5, 2.0, 0.5)
    assert comparison(first, second).headline == "The repetition agrees with the record."
    assert agreement(first.verdicts[0], other.verdicts[0]) == "other ratio"
    assert comparison(first, other).headline == "The repetition agrees with the record for v1; not for v0."
    refused = replace(first.verdicts[0], decision=Decision.REFUSED)
    assert agreement(first.verdicts[0], refused) == "other verdict"


class Pending:
    """An array that is computed in the background."""

    waited = 0

    def block_until_ready(self) -> None:
        self.waited += 1


def test_results_are_waited_for() -> None:
    arrays = [Pending() for _ in range(3)]
    wait_for({"loss": arrays[0], "more": (arrays[1], [arrays[2], 3, None])})
    assert [array.waited for array in arrays] == [1, 1, 1]
