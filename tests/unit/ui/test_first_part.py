"""On which part of a run its page opens, and what its choices say."""

from __future__ import annotations

import pytest

from outpace.ui.first_part import open_first_part, summarize_run
from outpace.ui.part_choice import build_choices, build_part_view
from tests.support import opened, profile_path


def test_of_several_programs_the_one_with_most_to_gain_is_opened() -> None:
    """Its own saving, over the steps of all of its hosts, is the largest."""
    whole = opened("multi_host")
    choices = build_choices(whole.run)
    first = open_first_part(whole, choices)
    gains = {}
    for program in choices.programs:
        part = whole.part(hosts=[choices.hosts[index] for index in program])
        saving = part.report().findings[0].saving
        assert saving is not None
        gains[",".join(map(str, program))] = saving.high * sum(int(t.steps.duration.sum()) for t in part.run.hosts)
    assert first.hosts == max(gains, key=gains.__getitem__) == "0,2"
    assert first.summary.part == "program 1 of 2"
    assert first.summary == summarize_run(str(profile_path("multi_host")))
    assert "localhost_7011" not in first.report.headline + first.report.warnings[0]


@pytest.mark.parametrize("name", ["keras_fit", "multi_worker_strategy", "jax_rocm_conv_8gpu"])
def test_a_run_of_one_program_is_opened_whole(name: str) -> None:
    whole = opened(name)
    first = open_first_part(whole, build_choices(whole.run))
    assert (first.hosts, first.summary.part, first.report.headline) == ("", "", whole.report().headline)


def test_programs_stand_before_hosts_and_each_once() -> None:
    choices = build_choices(opened("multi_host").run)
    view = build_part_view(choices, {"hosts": "0,2"}, "0,2")
    assert [(option["value"], option["text"], option["chosen"]) for option in view["hosts"]] == [
        ("0,2", "program 1, most to gain (localhost_7010, localhost_7012)", True),
        ("1", "program 2 (localhost_7011)", False),
        ("0", "localhost_7010", False),
        ("2", "localhost_7012", False),
    ]
    assert view["part"] and not build_part_view(choices, {"hosts": "all"})["part"]


def test_all_hosts_are_a_part_of_several_programs() -> None:
    run = opened("multi_host").run
    assert build_choices(run).parse_part({"hosts": "all"}).select_from(run) is run
