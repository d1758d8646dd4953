"""The commands to go on with run as they are typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from outpace.advice import following
from outpace.metrics.tf_functions import FIELDS, tf_functions
from outpace.timeline import Run
from tests.advice_cases.build import table
from tests.support import opened

BY_TIME = {"mode": "seconds", "script": "a.py"}


def last(name: str, record: Mapping[str, Any] | None = None) -> str:
    """The second command for a test profile, captured as a record says."""
    profile = opened(name)
    run = profile.run if record is None else Run(profile.run.source, profile.run.hosts, {profile.run.hosts[0].host: record})
    return following(run, (profile.overview(),), ())[-1].line


@pytest.mark.parametrize(
    ("name", "record", "command"),
    [
        ("keras_fit", None, "outpace tune train.py"),
        ("custom_loop", None, "outpace race train.py CHANGED.py"),
        ("custom_loop_unmarked", None, "outpace race train.py CHANGED.py"),
        ("custom_loop_unmarked", BY_TIME, "outpace race a.py CHANGED.py"),
        ("eager_loop", {"mode": "eager loop", "script": "a.py"}, "outpace race a.py CHANGED.py"),
        ("jax_loop", None, "outpace race train.py CHANGED.py"),
        ("jax_loop_unmarked", None, "outpace profile train.py"),
        ("jax_loop_unmarked", BY_TIME, "outpace profile a.py"),
    ],
)
def test_a_race_is_offered_where_it_sees_the_steps(name: str, record: Mapping[str, Any] | None, command: str) -> None:
    assert last(name, record) == command


def test_no_race_of_an_eager_loop_over_arrays() -> None:
    hosts = opened("custom_loop_unmarked").run.hosts
    run = Run("", hosts, {hosts[0].host: BY_TIME})
    run.derived.give(tf_functions, table("function_calls", FIELDS))
    assert following(run, (opened("custom_loop_unmarked").overview(),), ())[-1].line == "outpace profile a.py"


def commands(profile: str, **record: Any) -> list[str]:
    run = opened(profile).run
    return [command.line for command in following(dataclasses.replace(run, records={"host": record} if record else {}), (), ())]


@pytest.mark.parametrize(
    ("argv", "command"),
    [([], "outpace tune train.py"), (["--data", "my images"], "outpace tune train.py --data 'my images'")],
)
def test_a_script_is_tuned_with_its_arguments(argv: list[str], command: str) -> None:
    assert commands("keras_fit", script="train.py", argv=argv)[1] == command


def test_a_script_is_raced_with_its_arguments_as_one_word() -> None:
    assert commands("retracing", script="train.py", argv=["--fast"])[1] == "outpace race 'train.py --fast' CHANGED.py"
    assert commands("retracing")[1] == "outpace race train.py CHANGED.py"
