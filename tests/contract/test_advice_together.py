"""What the rules' findings become in one report: causes stand for their symptoms, and nothing is
promised twice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

import pytest

from outpace.metrics.facts.python_lines import wilson_interval
from outpace.metrics.savings.budget import Budget
from outpace.model import OUTSIDE_STEPS, Category, Evidence, Finding, Page, Saving, Severity, Unit
from tests.advice_cases import CASES
from tests.advice_cases.build import HOST, budget
from tests.contract.test_advice import SLACK, within
from tests.contract.test_advice_cases import TOOLS, rules
from tests.unit.advice.advice_samples import rank_pages

pytestmark = pytest.mark.slow

Chosen = tuple[tuple[str, str], ...]


def pages(chosen: Chosen) -> list[Page]:
    """A page for what each of these cases finds."""
    found = []
    for rule, name in chosen:
        case = next(case for case in CASES[rule] if case.name == name)
        found.append(Page(f"{rule}", "Page", "What?", "So.", findings=tuple(case.findings())))
    return found


def savings(found: tuple[Finding, ...]) -> list[Saving]:
    return [finding.saving for finding in found if finding.saving is not None]


def report(known: Mapping[str, Budget], *chosen: tuple[str, str]) -> tuple[list[str], dict[str, Finding], list[str]]:
    """(ids in their order, findings by id, ids that were struck); whatever they are, they promise
    no more than there is.
    """
    shown, struck = rank_pages(pages(chosen), known)
    within(savings(shown), known[HOST].category_shares)
    assert sum(saving.high for saving in savings(shown) if saving.takes_from != (OUTSIDE_STEPS,)) <= 1 + SLACK
    return [f.id for f in shown], {f.id: f for f in shown}, [f.id for f in struck]


def high(finding: Finding) -> float:
    return finding.saving.high if finding.saving else 0.0


def test_the_stage_stands_for_the_wait() -> None:
    order, found, _ = report(
        budget({Category.INPUT: 0.3}),
        ("input_bound", "in the words of TensorFlow"),
        ("cpu_contention", "all cores busy"),
        ("slow_stage", "30% of the step waits"),
        ("no_prefetch", "0.7 of 10 ms in the loop"),
    )
    assert order == ["slow_stage", "no_prefetch"]
    assert high(found["slow_stage"]) == pytest.approx(0.3)
    assert found["slow_stage"].symptom


def test_the_worst_symptom_is_told() -> None:
    _, found, _ = report(
        budget({Category.INPUT: 0.3}),
        ("input_bound", "in the words of TensorFlow"),
        ("cpu_contention", "all cores busy"),
        ("slow_stage", "30% of the step waits"),
    )
    assert "30.0% of the step time waits for input" in found["slow_stage"].symptom


def test_time_between_steps_that_does_not_wait_for_input_is_told() -> None:
    order, _, _ = report(
        budget({Category.INPUT: 0.3}, outside=0.4),
        ("slow_stage", "in the steps, and hardly between them"),
        ("time_outside_steps", "40% of the time"),
    )
    assert "time_outside_steps" in order


def test_two_layers_of_one_line_save_what_both_take() -> None:
    _, found, _ = report(budget({Category.HOST_COMPUTE: 0.9, Category.INPUT: 0.1}), ("odd_ops", "two layers made at one line"))
    assert high(found["odd_ops"]) == pytest.approx(0.3)


def test_two_ways_to_save_one_wait_do_not_add_up() -> None:
    order, found, _ = report(
        budget({Category.INPUT: 0.3, Category.DEVICE_COMPUTE_32: 0.7}),
        ("no_cache", "30% of the work"),
        ("slow_stage", "30% of the step waits"),
        ("input_bound", "in the words of TensorFlow"),
    )
    assert len(order) == 1 and order[0] in ("no_cache", "slow_stage")  # they are of one line
    assert high(found[order[0]]) == pytest.approx(0.3)


def test_two_ways_to_save_one_wait_at_two_lines_say_that_they_do_not_add_up() -> None:
    def finding(line: int) -> Finding:
        saving = Saving(0.0, 0.3, (Category.INPUT.value,), "if it was gone")
        evidence = (Evidence("x", 1.0, Unit.COUNT, "t"),)
        return Finding(f"rule_{line}", Severity.HIGH, "So.", "Do.", evidence, saving=saving, location=f"train.py:{line}")

    page = Page("a", "Page", "What?", "So.", findings=(finding(1), finding(2)))
    (first, second), _ = rank_pages([page], budget({Category.INPUT: 0.3, Category.DEVICE_COMPUTE_32: 0.7}))
    assert high(first) == pytest.approx(0.3) and second.saving is None
    assert any("do not add up" in note for note in second.counter_evidence)


def test_a_line_is_one_finding_with_the_sum_of_its_savings() -> None:
    """Two rules of one line took 62 and 38% of the step, and mending the line saved 98: neither
    bound is that of the line.
    """
    parts = ((Category.HOST_COMPUTE, 0.62), (Category.ALL_OTHERS, 0.38))

    def finding(at: int, location: str = "train.py:51") -> Finding:
        saving = Saving(0.0, parts[at][1], (parts[at][0].value,), "if it was gone")
        evidence = (Evidence(f"e{at}", 1.0, Unit.COUNT, "t"),)
        return Finding(f"rule_{at}", Severity.HIGH, f"So {at}.", f"Do {at}.", evidence, saving=saving, location=location)

    def ranked(*found: Finding) -> tuple[Finding, ...]:
        return rank_pages([Page("a", "Page", "What?", "So.", findings=found)], budget(dict(parts)))[0]

    (only,) = ranked(finding(0), finding(1))
    assert (only.id, only.action) == ("rule_0", "Do 0. Also: Do 1.") and high(only) == pytest.approx(1.0)
    assert "So 1." in only.symptom and {e.says for e in only.evidence} == {"e0", "e1"}
    assert len(ranked(finding(0), finding(1, "train.py:52"))) == 2
    assert len(ranked(finding(0), replace(finding(1), severity=Severity.INFO))) == 2
    assert len(ranked(finding(0, ""), finding(1, ""))) == 2  # of no line that is known


def test_a_line_of_python_stands_for_its_overhead() -> None:
    order, found, _ = report(
        budget({Category.ALL_OTHERS: 0.6}),
        ("python_overhead", "in the words of TensorFlow"),
        ("small_steps", "12% of the step"),
        ("python_line", "30 samples"),
    )
    assert order == ["python_line"]  # both are of one line; what a call costs is also work on the host
    assert high(found["python_line"]) == pytest.approx(0.12 + wilson_interval(0.25, 120)[1], abs=0.01)
    assert "is untraced" in found["python_line"].symptom


def test_a_line_that_explains_little_leaves_the_rest_to_the_symptom() -> None:
    order, found, _ = report(
        budget({Category.ALL_OTHERS: 0.2}),
        ("python_overhead", "in the words of TensorFlow"),
        ("python_line", "5% of the step"),
    )
    assert set(order) == {"python_overhead", "python_line"}
    assert high(found["python_overhead"]) + high(found["python_line"]) == pytest.approx(0.2)


def test_the_function_stands_for_what_it_compiles() -> None:
    order, found, _ = report(
        budget({Category.COMPILATION: 0.3}),
        ("compiling_in_steps", "in the words of JAX"),
        ("recompiled", "a lambda"),
        ("set_aside", "in the words of JAX"),
    )
    assert order == ["recompiled", "set_aside"]
    assert high(found["recompiled"]) == pytest.approx(0.3)


def test_of_a_gpu_what_the_host_does_comes_before_its_launches() -> None:
    order, found, struck = report(
        budget(
            {
                Category.KERNEL_LAUNCH: 0.05,
                Category.ALL_OTHERS: 0.2,
                Category.HOST_COMPUTE: 0.05,
                Category.DEVICE_COMPUTE_32: 0.7,
            }
        ),
        ("high_kernel_launch", "little"),
        ("gpu_thread_mode", "it is set"),
        ("python_overhead", "in the words of TensorFlow"),
        ("late_launches", "30% of the time"),
        ("tensor_cores_unused", "15% of the kernels"),
        ("low_16_bit_share", "in the words of TensorFlow"),
    )
    assert struck == ["gpu_thread_mode"]
    assert set(order) == {"late_launches", "tensor_cores_unused"}
    assert high(found["late_launches"]) == pytest.approx(0.3)
    assert high(found["tensor_cores_unused"]) == pytest.approx(0.36)  # of 80%, 15% to nothing, what else is in 32 bits by half


def test_a_cause_without_a_number_is_given_none_of_its_symptom() -> None:
    saving = Saving(0.0, 0.4, (Category.INPUT.value,), "if it was gone")
    symptom, cause = (
        Finding(name, Severity.HIGH, "So.", "Do.", (Evidence("x", 1.0, Unit.COUNT, "t"),)) for name in ("wait", "stage")
    )
    found = [replace(symptom, saving=saving), replace(cause, explains=("wait",))]
    (only,), _ = rank_pages([Page("a", "Page", "What?", "So.", findings=tuple(found))], budget({Category.INPUT: 0.5}))
    assert (only.id, only.saving, only.symptom) == ("stage", None, "So.")


def test_where_16_bits_gain_nothing_both_are_struck() -> None:
    order, _, struck = report(
        budget({Category.DEVICE_COMPUTE_32: 0.6}),
        ("tensor_cores_unused", "there are none"),
        ("low_16_bit_share", "no tensor cores"),
    )
    assert not order and sorted(struck) == ["low_16_bit_share", "tensor_cores_unused"]


def test_a_part_stands_for_the_model() -> None:
    order, found, _ = report(
        budget({Category.HOST_COMPUTE: 0.7}), ("model_bound", "in the words of Keras"), ("slow_part", "in the words of Keras")
    )
    assert order == ["slow_part"] and found["slow_part"].symptom.startswith("The model's computation takes 70%")
    order, found, _ = report(
        budget({Category.HOST_COMPUTE: 0.7}),
        ("model_bound", "40% of the step"),
        ("slow_part", "of dense arithmetic, in the words of Keras"),
    )
    assert order == ["slow_part"] and found["slow_part"].saving is None


def test_an_embedding_stands_for_the_ops_that_update_it() -> None:
    embedding = ("slow_part", "an embedding whose updates are most of the element-wise ops")
    order, found, _ = report(
        budget({Category.HOST_COMPUTE: 0.9}), embedding, ("small_ops", "half of it in updates of variables, which stay")
    )
    assert order == ["slow_part"] and "60% of the step goes to element-wise ops" in found["slow_part"].symptom


def test_what_comes_round_is_paid_before_what_is_always_there() -> None:
    order, found, _ = report(
        budget({Category.ALL_OTHERS: 0.2}),
        ("python_overhead", "in the words of Keras"),
        ("periodic_cost", "in the words of Keras"),
        ("python_line", "5% of the step"),
    )
    assert order[0] == "periodic_cost" or order[0] == "python_line"
    assert sum(map(high, found.values())) <= 0.2 + SLACK


def test_a_saving_is_of_the_time_from_step_to_step_where_much_lies_between() -> None:
    """'At most 83% of a step' of 4.7 ms is nothing to one who pays 223 ms for each step and the
    validation behind it.
    """

    def high_of(between: float) -> tuple[float, float, str]:
        known = {host: replace(each, gap_share=between) for host, each in budget({Category.HOST_COMPUTE: 0.9}).items()}
        saving = Saving(0.0, 0.8, (Category.HOST_COMPUTE.value,), "if it was gone")
        found = Finding("calls", Severity.HIGH, "So.", "Do.", (Evidence("x", 1.0, Unit.COUNT, "t"),), saving=saving)
        (only,), _ = rank_pages([Page("a", "Page", "What?", "So.", findings=(found,))], known)
        assert only.saving is not None
        return only.saving.high, only.saving.high * only.saving.step, only.saving.base

    step, cycle = high_of(0.1), high_of(0.9)
    assert step[0] == pytest.approx(0.8) and cycle[0] == pytest.approx(0.08)
    assert step[1] == pytest.approx(cycle[1])  # the same time
    assert cycle[2] == "from step to step"


def test_a_worker_that_all_others_wait_for_comes_first() -> None:
    def finding(name: str, share: float, delays: bool = False) -> Finding:
        saving = Saving(0.0, share, (Category.HOST_COMPUTE.value,), "if it was gone")
        found = Finding(name, Severity.HIGH, "So.", "Do.", (Evidence("x", 1.0, Unit.COUNT, "t"),), saving=saving)
        return replace(found, delays=delays)

    found = (finding("exchange_cost", 0.4), finding("straggler", 0.1, delays=True), finding("other", 0.3))
    shown, _ = rank_pages([Page("a", "Page", "What?", "So.", findings=found)], budget({Category.HOST_COMPUTE: 0.9}))
    assert [f.id for f in shown] == ["straggler", "exchange_cost", "other"]


def test_a_capture_without_steps_comes_first() -> None:
    order, _, _ = report(
        budget({Category.INPUT: 0.3}), ("slow_stage", "30% of the step waits"), ("capture.no_steps", "in the words of Keras")
    )
    assert order == ["capture.no_steps", "slow_stage"]


def test_what_two_pages_say_is_one_finding() -> None:
    twice = (("python_line", "5% of the step"), ("python_line", "5% of the step"))
    order, found, _ = report(budget({Category.ALL_OTHERS: 0.2}), *twice)
    assert order == ["python_line"]
    assert len(found["python_line"].evidence) == 3


@pytest.mark.parametrize("category", list(Category))
def test_all_rules_at_once_promise_no_more_than_there_is(category: Category) -> None:
    """Every case that speaks, in one report of a step that is mostly one category."""
    rest = {each: 0.05 for each in Category if each is not category}
    known = budget({**rest, category: 1 - sum(rest.values())}, outside=0.2)
    chosen = tuple((c.rule, c.name) for cases in CASES.values() for c in cases if c.severity is not None)
    order, found, _ = report(known, *chosen)
    assert order[0].startswith("capture.")
    assert not {"input_bound", "model_bound"} & found.keys()
    assert high(found.get("time_outside_steps", found[order[0]])) <= 0.2 + SLACK


def test_symptoms_are_rules() -> None:
    """What a rule says that it explains is the id of another one, and nothing explains itself in
    the end.
    """
    explains = {rule: {s for c in cases for f in c.findings() for s in f.explains} for rule, cases in CASES.items()}
    named = {symptom for some in explains.values() for symptom in some}
    assert named <= rules()
    for rule in explains:
        seen, new = set[str](), {rule}
        while new:
            new = {symptom for one in new for symptom in explains.get(one, ())} - seen
            seen |= new
        assert rule not in seen


def test_all_symptoms_of_the_sources_are_rules() -> None:
    """Also those that no case reaches."""
    for path in TOOLS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "explains":
                named = {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
                assert named <= rules(), path


@pytest.mark.parametrize(
    ("takes", "expected"),
    [((Category.HOST_COMPUTE,), 0.35), ((Category.HOST_COMPUTE, Category.DEVICE_COMPUTE_32), 0.65)],
)
def test_what_is_a_part_of_all_that_a_line_takes_adds_nothing_to_it(takes: tuple[Category, ...], expected: float) -> None:
    """Samples saw 35% of the time in validate(), and the profile 30% in the calls that it makes:
    that is no 65%.
    """

    def finding(at: int, saving: Saving) -> Finding:
        evidence = (Evidence(f"e{at}", 1.0, Unit.COUNT, "t"),)
        return Finding(f"rule_{at}", Severity.HIGH, "So.", f"Do {at}.", evidence, saving=saving, location="train.py:71")

    keys = tuple(each.value for each in takes)
    whole = Saving(0.0, 0.35, (Category.ALL_OTHERS.value, Category.HOST_COMPUTE.value), "if it took no time", whole_line=True)
    part = Saving(0.0, 0.3, keys, "if it was not called")
    shares = budget({Category.HOST_COMPUTE: 0.6, Category.DEVICE_COMPUTE_32: 0.2, Category.ALL_OTHERS: 0.2})
    for order in ((whole, part), (part, whole)):
        page = Page("a", "Page", "What?", "So.", findings=tuple(finding(at, each) for at, each in enumerate(order)))
        (only,), _ = rank_pages([page], shares)
        assert high(only) == pytest.approx(expected)


def test_a_part_of_a_line_adds_nothing_behind_what_is_elsewhere_either() -> None:
    """All of the line's time, then time that is elsewhere, then a part of the first."""
    python, elsewhere = Category.ALL_OTHERS.value, Category.INPUT.value
    savings = (
        Saving(0.0, 0.35, (python,), "if it took no time", whole_line=True),
        Saving(0.0, 0.3, (elsewhere,), "if nobody waited"),
        Saving(0.0, 0.25, (python,), "if it was not called"),
    )
    evidence = (Evidence("x", 1.0, Unit.COUNT, "t"),)
    findings = tuple(
        Finding(f"rule_{at}", Severity.HIGH, "So.", f"Do {at}.", evidence, saving=saving, location="train.py:71")
        for at, saving in enumerate(savings)
    )
    shares = budget({Category.ALL_OTHERS: 0.65, Category.INPUT: 0.35})
    (only,), _ = rank_pages([Page("a", "Page", "What?", "So.", findings=findings)], shares)
    assert high(only) == pytest.approx(0.65)
