"""Whatever rules claim, a report's savings are on one base, none is more than there is, and
together they are not either.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.advice import drop_unsupported_findings
from outpace.advice.ledger import Ledger
from outpace.metrics.savings.budget import ALL_HOSTS, Budget
from outpace.model import OUTSIDE_STEPS, Category, Finding, Severity
from tests.unit.advice.advice_samples import PS, budget, finding, one_host, page, rank_pages

KEYS = (*(c.value for c in Category), OUTSIDE_STEPS)
SMALL = 1e-9


def high(found: Finding) -> float:
    return found.saving.high if found.saving else 0.0


def test_a_saving_is_at_most_its_categories() -> None:
    paid = Ledger(one_host(input=0.2, host_compute=0.5)).cap_saving(finding("waits", 0.6))
    assert high(paid) == pytest.approx(0.2)
    assert not paid.counter_evidence, "it got all there is: nothing was taken by another"
    paid = Ledger(one_host(input=0.2, host_compute=0.5)).cap_saving(finding("waits", 0.6, ("input", "host_compute")))
    assert high(paid) == pytest.approx(0.6)


def test_all_are_on_one_base() -> None:
    paid = Ledger(one_host(input=0.4, host_compute=0.5)).cap_saving(finding("waits", 0.3, low=0.2))
    assert paid.saving is not None
    assert (paid.saving.low, paid.saving.high, paid.saving.step, paid.saving.base) == (0.2, 0.3, PS, "recorded step")


def test_time_between_steps_is_no_part_of_a_step() -> None:
    ledger = Ledger(one_host(input=1.0, outside=0.5))
    paid = ledger.cap_saving(finding("gap", 0.9, (OUTSIDE_STEPS,)))
    assert paid.saving is not None and paid.saving.high == pytest.approx(0.5)
    assert paid.saving.base == "time from the first step to the last"
    assert high(ledger.cap_saving(finding("waits", 1.0))) == pytest.approx(1.0)


def test_what_slow_steps_or_steady_ones_take_is_told_on_the_base_of_the_larger() -> None:
    asks = finding("builds", 0.6, ("compilation", OUTSIDE_STEPS))
    steady = Ledger(one_host(compilation=0.5, outside=0.1)).cap_saving(asks)
    assert steady.saving is not None and (steady.saving.high, steady.saving.base) == (0.5, "recorded step")
    slow = Ledger(one_host(compilation=0.0, outside=0.4)).cap_saving(asks)
    assert slow.saving is not None and slow.saving.high == pytest.approx(0.4)
    assert slow.saving.base == "time from the first step to the last"


def test_the_same_time_is_paid_once() -> None:
    ledger = Ledger(one_host(input=0.4))
    assert high(ledger.cap_saving(finding("first", 0.3, low=0.2))) == pytest.approx(0.3)
    second = ledger.cap_saving(finding("second", 0.3, low=0.2))
    assert second.saving is not None and second.saving.high == pytest.approx(0.1)
    assert second.saving.low == pytest.approx(0.1), "a prediction cannot promise more than is left"
    assert "do not add up" in second.counter_evidence[0]
    third = ledger.cap_saving(finding("third", 0.3))
    assert third.saving is None and "do not add up" in third.counter_evidence[0]


def test_what_nobody_could_measure_is_no_saving() -> None:
    assert Ledger(one_host(input=0.004)).cap_saving(finding("waits", 0.3)).saving is None
    assert Ledger(one_host(input=0.4)).cap_saving(finding("waits", 0.004)).saving is None


def test_categories_are_taken_in_the_order_that_a_rule_names() -> None:
    ledger = Ledger(one_host(input=0.3, host_compute=0.3))
    ledger.cap_saving(finding("waits", 0.4, ("input", "host_compute")))
    assert high(ledger.cap_saving(finding("compute", 1.0, ("host_compute",)))) == pytest.approx(0.2)


def test_where_no_step_is_known_nothing_is_promised() -> None:
    asked = finding("waits", 0.3)
    assert Ledger({}).cap_saving(asked).saving is None
    assert Ledger({"a": budget("a", input=0.4)}).cap_saving(finding("waits", 0.3, host="b")).saving is not None, (
        "of the one with steps"
    )
    stated = page(asked)
    assert rank_pages([stated], {})[0] == (replace(stated.findings[0], saving=None),)
    assert rank_pages([stated], None)[0] == stated.findings, "nobody keeps a ledger"


def test_where_no_step_is_known_the_capture_alone_is_to_be_changed() -> None:
    asked, capture = finding("waits", 0.3), replace(finding("waits", 0.0), id="capture.no_steps", saving=None)
    stated = page(asked, capture)
    assert drop_unsupported_findings([stated], {})[0].findings == stated.findings[1:]
    assert drop_unsupported_findings([stated], {"a": budget("a", input=0.4)}) == (stated,)


def test_hosts_have_ledgers_of_their_own() -> None:
    ledger = Ledger({"a": budget("a", input=0.4), "b": budget("b", input=0.4), ALL_HOSTS: budget("a", "b", input=0.4)})
    assert high(ledger.cap_saving(finding("waits", 0.4, host="a"))) == pytest.approx(0.4)
    assert high(ledger.cap_saving(finding("waits", 0.4, host="b"))) == pytest.approx(0.4)
    assert ledger.cap_saving(finding("waits", 0.4)).saving is None, "each has saved it already"


def test_of_one_host_those_that_name_none_are_about_it() -> None:
    ledger = Ledger(one_host(input=0.4))
    assert high(ledger.cap_saving(finding("waits", 0.3, host="vm"))) == pytest.approx(0.3)
    assert high(ledger.cap_saving(finding("waits", 0.3))) == pytest.approx(0.1)


def test_what_is_saved_on_all_hosts_is_saved_on_each() -> None:
    """Two hosts wait for 40% of their steps: whatever is said of one, and of both, neither can save
    more than that.
    """
    budgets = {"a": budget("a", input=0.4), "b": budget("b", input=0.4), ALL_HOSTS: budget("a", "b", input=0.4)}
    ledger = Ledger(budgets)
    assert high(ledger.cap_saving(finding("waits", 0.3))) == pytest.approx(0.3)
    assert high(ledger.cap_saving(finding("stage", 0.4, host="a"))) == pytest.approx(0.1)
    ledger = Ledger(budgets)
    assert high(ledger.cap_saving(finding("stage", 0.4, host="a"))) == pytest.approx(0.4)
    assert high(ledger.cap_saving(finding("waits", 0.4))) == pytest.approx(0.2), "on the mean of both hosts b's half is left"
    assert high(ledger.cap_saving(finding("stage", 0.4, host="b"))) == pytest.approx(0.0)


shares = st.lists(st.floats(0, 1), min_size=len(KEYS) - 1, max_size=len(KEYS) - 1).map(
    lambda p: [x / max(sum(p), 1e-9) for x in p]
)


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Budget]:
    """Budgets of one to three hosts whose steps are equally long, and of their mean."""
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
    each = {n: dict(zip(KEYS, [*draw(shares), draw(st.floats(0, 1))], strict=True)) for n in names}
    mean = {key: sum(s[key] for s in each.values()) / len(each) for key in KEYS}
    return {**{n: budget(n, **s) for n, s in each.items()}, ALL_HOSTS: budget(*names, **mean)}


@st.composite
def claims(draw: st.DrawFn) -> list[Finding]:
    found = []
    for number in range(draw(st.integers(0, 8))):
        asked = draw(st.none() | st.floats(0.001, 1))
        found.append(
            finding(
                draw(st.sampled_from("rstuvw")),
                asked,
                tuple(
                    draw(st.lists(st.sampled_from(KEYS[:-1]), min_size=1, max_size=3, unique=True) | st.just([OUTSIDE_STEPS]))
                ),
                low=draw(st.floats(0, asked or 0)),
                severity=draw(st.sampled_from(Severity)),
                location=f"train.py:{number}",
                host=draw(st.sampled_from(["", "a", "b", "elsewhere"])),
                explains=tuple(draw(st.lists(st.sampled_from("rstuvw"), max_size=2))),
                struck=draw(st.sampled_from(["", "", "", "in force"])),
            )
        )
    return found


@given(hosts(), claims())
def test_no_report_promises_more_than_there_is(budgets: dict[str, Budget], findings: list[Finding]) -> None:
    """Per host with all that names no host: not more than the step, than the categories that each
    takes from, or than any rule asked.
    """
    shown, struck = rank_pages([page(*findings)], budgets)
    names = [host for host in budgets if host != ALL_HOSTS]
    sums: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
    for found in shown:
        if found.saving is None:
            continue
        asked = [f.saving.high for f in findings if f.saving and f.id in _reasons(found.id, findings)]
        assert found.saving.high <= max(asked) + SMALL
        host = found.host if found.host in names else names[0] if len(names) == 1 else ALL_HOSTS
        sums[host, found.saving.takes_from] += found.saving.high
        assert found.saving.high <= sum(budgets[host].category_shares[key] for key in found.saving.takes_from) + SMALL
    for host in budgets:
        mine = {takes: total for (of, takes), total in sums.items() if of == host}
        inside = sum(total for takes, total in mine.items() if takes != (OUTSIDE_STEPS,))
        assert inside <= 1 + 1e-6
        for takes, total in mine.items():
            assert total <= sum(budgets[host].category_shares[key] for key in takes) + SMALL
    assert len(shown) + len(struck) <= len(findings)


def _reasons(rule: str, findings: list[Finding]) -> set[str]:
    """The rule, and all whose savings it may inherit as their cause."""
    known, new = {rule}, {rule}
    while new:
        new = {symptom for f in findings if f.id in new for symptom in f.explains} - known
        known |= new
    return known


@given(hosts(), claims())
def test_hosts_and_their_mean_are_one_ledger(budgets: dict[str, Budget], findings: list[Finding]) -> None:
    """The mean of what the hosts save each, with what all save together, is not more than the mean
    step holds.
    """
    names = [host for host in budgets if host != ALL_HOSTS]
    total: dict[bool, float] = defaultdict(float)
    for found in rank_pages([page(*findings)], budgets)[0]:
        if found.saving is not None:
            total[found.saving.takes_from == (OUTSIDE_STEPS,)] += found.saving.high / (len(names) if found.host in names else 1)
    assert total[False] <= 1 + 1e-6
    assert total[True] <= budgets[ALL_HOSTS].category_shares[OUTSIDE_STEPS] + 1e-6
