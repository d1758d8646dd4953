"""In which order a reader should act, and which findings a reader sees at all."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import permutations
from types import FrameType
from typing import Any

import pytest

from outpace.advice.ranking import score_finding
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Unit
from tests.unit.advice.advice_samples import finding, one_host, page, rank_pages


def order(*findings: Finding, **shares: float) -> list[str]:
    """Ids in the order of the report, which must not depend on the order in which tools
    give them.
    """
    found = {
        tuple(f.id for f in rank_pages([page(*p)], one_host(**shares) if shares else None)[0]) for p in permutations(findings)
    }
    assert len(found) == 1, f"the order depends on the order of the tools: {found}"
    return list(found.pop())


def only(*findings: Finding, **shares: float) -> Finding:
    (left,) = rank_pages([page(*findings)], one_host(**shares) if shares else None)[0]
    return left


def test_what_saves_most_is_first_whatever_its_severity() -> None:
    small = finding("small", 0.1, severity=Severity.HIGH)
    large = finding("large", 0.4, ("host_compute",), severity=Severity.POTENTIAL)
    assert order(small, large) == ["large", "small"]


def test_what_is_surer_is_first_of_equal_savings() -> None:
    guess = finding("guess", 0.3, certainty=Certainty.POSSIBLE)
    likely = finding("likely", 0.3, ("output",))
    certain = finding("certain", 0.3, ("host_compute",), certainty=Certainty.CERTAIN)
    assert order(guess, likely, certain) == ["certain", "likely", "guess"]
    assert order(finding("guess", 0.5, certainty=Certainty.POSSIBLE), certain) == ["certain", "guess"]


def test_what_is_less_work_is_first_of_nearly_equal_savings() -> None:
    lots = finding("lots", 0.303, effort=Effort.LARGE)
    some = finding("some", 0.302, ("output",))
    line = finding("line", 0.301, ("host_compute",), effort=Effort.SMALL)
    assert order(lots, some, line) == ["line", "some", "lots"]
    assert order(finding("lots", 0.4, effort=Effort.LARGE), line) == ["lots", "line"], "a line that saves much less waits"


def test_what_names_a_place_is_first_of_equals() -> None:
    assert order(finding("generic", 0.3), finding("specific", 0.3, location="train.py:41")) == ["specific", "generic"]


def test_a_prediction_counts_by_its_middle_and_a_bound_by_itself() -> None:
    assert score_finding(finding("a", 0.4, low=0.2)) == pytest.approx(0.3 * score_finding(finding("b", 1.0)))
    assert score_finding(finding("a", 0.4)) == pytest.approx(0.4 * score_finding(finding("b", 1.0)))


def test_without_a_number_severity_speaks_but_a_large_saving_is_before_it() -> None:
    high, moderate = finding("high", severity=Severity.HIGH), finding("moderate")
    potential = finding("potential", severity=Severity.POTENTIAL)
    assert order(potential, moderate, high) == ["high", "moderate", "potential"]
    assert order(finding("saves", 0.2, severity=Severity.POTENTIAL), high) == ["saves", "high"]


@pytest.mark.parametrize(
    ("explained", "saved", "first"), [(0.6, 0.1, "explains"), (0.5, 0.15, "saves"), (0.3, 0.1, "saves"), (1.0, 0.3, "saves")]
)
def test_what_explains_a_part_of_the_step_counts_by_a_fifth_of_it(explained: float, saved: float, first: str) -> None:
    evidence = (Evidence("its share of the step", explained, Unit.FRACTION, "parts"),)
    explains = replace(finding("explains", severity=Severity.HIGH), evidence=evidence)
    assert order(explains, finding("saves", saved, certainty=Certainty.CERTAIN))[0] == first
    assert score_finding(replace(explains, severity=Severity.POTENTIAL)) == 0, "it may not matter at all"
    assert score_finding(replace(explains, evidence=(replace(evidence[0], unit=Unit.COUNT),))) == 0


def test_few_samples_make_no_finding_worth_more() -> None:
    few = finding("few", 0.3, certainty=Certainty.CERTAIN)
    assert few.saving is not None
    few = replace(few, saving=replace(few.saving, sampled=0.1))
    measured = finding("measured", 0.15, ("host_compute",), certainty=Certainty.CERTAIN)
    assert order(few, measured) == ["measured", "few"]
    line = [replace(one, location="train.py:4") for one in (few, measured)]
    merged = only(*line)
    assert merged.saving is not None
    assert (merged.saving.high, merged.saving.sampled) == pytest.approx((0.45, 0.25))


def test_information_is_last_whatever_it_claims() -> None:
    assert order(finding("info", 0.9, severity=Severity.INFO), finding("tiny", 0.01, ("output",))) == ["tiny", "info"]


def test_a_capture_that_shows_nothing_is_the_first_thing_to_change() -> None:
    assert order(finding("saves", 0.9), finding("capture.no_steps", severity=Severity.HIGH)) == ["capture.no_steps", "saves"]


def test_the_cause_stands_for_its_symptom() -> None:
    """It says what it causes, and is as severe as that; what that would save is another action's
    number.
    """
    symptom = finding("input_bound", 0.4, severity=Severity.HIGH)
    left = only(finding("slow_stage", location="train.py:4", explains=("input_bound",)), symptom)
    assert (left.id, left.symptom, left.severity, left.saving) == (
        "slow_stage",
        symptom.sentence,
        Severity.HIGH,
        None,
    )


def test_a_cause_keeps_its_own_number() -> None:
    left = only(finding("slow_stage", 0.3, explains=("input_bound",)), finding("input_bound", 0.4))
    assert left.saving is not None and left.saving.high == 0.3


def test_a_symptom_that_causes_explain_by_less_than_half_keeps_the_remainder() -> None:
    symptom, cause = finding("input_bound", 0.4, low=0.2), finding("map", 0.1, explains=("input_bound",))
    rest, named = rank_pages([page(symptom, cause)], one_host(input=0.4))[0]
    assert rest.saving is not None and named.saving is not None
    assert (rest.id, named.id, named.symptom) == ("input_bound", "map", symptom.sentence)
    assert (rest.saving.low, rest.saving.high, named.saving.high) == pytest.approx((0.1, 0.3, 0.1))
    assert order(symptom, finding("map", 0.2, explains=("input_bound",))) == ["map"]
    several = [finding(f"map{i}", 0.08 * i, location=f"train.py:{i}", explains=("input_bound",)) for i in (1, 2)]
    assert order(symptom, *several) == ["map2", "map1"], "together they explain half"


def test_what_only_informs_explains_nothing() -> None:
    note = finding("note", severity=Severity.INFO, explains=("input_bound",))
    assert order(finding("input_bound", 0.4), note) == ["input_bound", "note"]


def test_a_cause_on_another_host_explains_nothing_here() -> None:
    other = finding("slow_stage", 0.3, host="b", explains=("input_bound",))
    assert order(finding("input_bound", 0.4, host="a"), other) == ["input_bound", "slow_stage"]
    assert order(finding("input_bound", 0.4), other) == ["slow_stage"], "a symptom of the whole run has causes on its hosts"


def test_of_a_chain_of_causes_the_first_is_shown() -> None:
    chain = (finding("line", explains=("stage",)), finding("stage", 0.3, explains=("waits",)), finding("waits", 0.4))
    assert order(*chain) == ["line"]
    left = only(*chain)
    assert left.symptom == "stage is the case." and left.saving is None


def test_circles_of_causes_end() -> None:
    assert len(rank_pages([page(finding("a", 0.3, explains=("b",)), finding("b", 0.3, explains=("a",)))])[0]) == 1
    assert order(finding("a", explains=("a",))) == ["a"]


def test_the_struck_are_told_apart_and_explain_nothing() -> None:
    done = finding("threads", 0.4, struck="it is set already", explains=("launches",))
    shown, struck = rank_pages([page(done, finding("launches", 0.4))])
    assert [f.id for f in shown] == ["launches"]
    assert [(f.id, f.struck) for f in struck] == [("threads", "it is set already")]


def test_the_same_of_the_same_place_is_said_once_with_all_evidence() -> None:
    one = finding("slow", location="train.py:4", counter_evidence=("this",))
    two = finding(
        "slow", 0.2, location="train.py:4", severity=Severity.HIGH, sentence="It is slow.", table="ops", explains=("waits",)
    )
    left = only(one, two)
    assert (left.severity, left.sentence, left.counter_evidence) == (Severity.HIGH, "It is slow.", ("this",))
    assert {e.table for e in left.evidence} == {"page.steps", "page.ops"}
    assert left.explains == ("waits",) and left.saving == two.saving


def test_two_pipelines_of_one_host_stay_two() -> None:
    shown, _ = rank_pages([page(*(finding("slow", host="vm", sentence=f"The pipeline {name} is slow.") for name in "ab"))])
    assert len(shown) == 2
    places = [finding("slow", host="vm", sentence="The map is slow.", location=f"train.py:{line}") for line in (4, 5)]
    assert len(rank_pages([page(*places)])[0]) == 2


def test_the_work_of_ranking_grows_with_the_findings_of_a_pod() -> None:
    """Counted in steps of the interpreter: five findings for each host, each the cause of the one
    before.
    """

    def work(hosts: int) -> int:
        found = [
            replace(finding(f"rule{i}", 0.1), host=f"h{host}", explains=(f"rule{i - 1}",))
            for host in range(hosts)
            for i in range(5)
        ]
        done = 0

        def count(frame: FrameType, event: str, _: object) -> Any:
            nonlocal done
            frame.f_trace_opcodes = True
            done += event == "opcode"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            rank_pages([page(*found)])
        finally:
            sys.settrace(before)
        return done

    assert work(400) < 2.1 * work(200)


def test_circles_of_causes_are_ranked_too() -> None:
    circle = [finding("a", 0.3, explains=("b",)), finding("b", 0.2, explains=("a",)), finding("c", 0.1, explains=("c",))]
    for given in permutations(circle):
        assert {"c"} < {found.id for found in rank_pages([page(*given)])[0]}


def test_a_saving_of_the_steady_steps_counts_for_the_time_that_they_are() -> None:
    """Where single steps compile for 80% of the time, half of the steady step is a tenth of all."""
    inside, outside = finding("inside", 0.5, ("host_compute",)), finding("outside", 0.3, ("outside",))
    assert order(inside, outside, host_compute=0.9, outside=0.8) == ["outside", "inside"]
    assert order(inside, outside, host_compute=0.9, outside=0.3) == ["inside", "outside"]
    assert order(inside, outside, host_compute=0.9, outside=1.5) == ["outside", "inside"]
    assert score_finding(inside, 0.2) == pytest.approx(0.2 * score_finding(inside))
    assert score_finding(finding("silent"), 0.2) == score_finding(finding("silent"))


def test_what_explains_a_part_of_short_steps_is_a_small_part_of_the_time() -> None:
    evidence = (Evidence("its share of the step", 0.6, Unit.FRACTION, "parts"),)
    explains = replace(finding("explains", severity=Severity.HIGH), evidence=evidence)
    between = finding("between", 0.1, ("outside",), certainty=Certainty.CERTAIN)
    assert order(explains, between, outside=0.1)[0] == "explains"
    assert order(explains, between, outside=0.9)[0] == "between"
