"""The commands to go on with run as they are typed."""

from __future__ import annotations

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
