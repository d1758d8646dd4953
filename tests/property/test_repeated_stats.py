"""An event has one value of a stat: of several the first counts, in every table, finding and
viewer's file, and the surplus is told.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.report import json_
from outpace.testing import SpaceBuilder
from outpace.trace import read_trace
from outpace.trace.export import ExportFormat
from outpace.viewer.trace_writer import write_trace
from tests.support import FAST, PROFILES, profile_path
from tests.xspace_proto import XSpace

SAMPLE = ["jax_loop", "jax_rocm_gemm", *random.Random(3).sample(PROFILES, 2 if FAST else 6)]
IN_TURN = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.verify) for name in PROFILES]


def profile(name: str) -> Any:
    return XSpace.FromString(gzip.decompress(min(profile_path(name).glob("*.gz")).read_bytes()))


def odd(stat: Any, chance: random.Random) -> None:
    """Let a stat say something else."""
    kind = chance.choice(("int64_value", "str_value", "double_value"))
    setattr(stat, kind, {"int64_value": chance.randrange(1 << 40), "str_value": "other", "double_value": 0.5}[kind])


def owners(plane: Any) -> list[Any]:
    """Whatever has stats in a plane."""
    return [plane, *plane.event_metadata.values(), *(event for line in plane.lines for event in line.events)]


def repeat_by_id(space: Any, chance: random.Random) -> int:
    """Behind the stats of all that has some stand others under the same ids; returns how many."""
    count = 0
    for plane in space.planes:
        for owner in owners(plane):
            for stat in [stat for stat in owner.stats if chance.random() < 0.5]:
                odd(owner.stats.add(metadata_id=stat.metadata_id), chance)
                count += 1
    return count


def repeat_by_name(space: Any, chance: random.Random) -> int:
    """The same under other ids, which the plane gives the same names."""
    count = 0
    for plane in space.planes:
        free = max(plane.stat_metadata, default=0) + 1
        used = sorted({stat.metadata_id for owner in owners(plane) for stat in owner.stats} & set(plane.stat_metadata))
        other = {known: free + at for at, known in enumerate(used)}
        for known, made in other.items():
            plane.stat_metadata[made].id, plane.stat_metadata[made].name = made, plane.stat_metadata[known].name
        for owner in owners(plane):
            for stat in [stat for stat in owner.stats if stat.metadata_id in other and chance.random() < 0.5]:
                odd(owner.stats.add(metadata_id=other[stat.metadata_id]), chance)
                count += 1
    return count


def said(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """A report but for its warnings and for what names the file, and the warnings."""
    report = json.loads(json_.render(api.open(data).report()))
    return {key: value for key, value in report.items() if key not in ("warnings", "size")}, report["warnings"]


@pytest.mark.parametrize("repeat", [repeat_by_id, repeat_by_name])
@pytest.mark.parametrize("name", IN_TURN)
def test_no_answer_changes_and_the_surplus_is_told(name: str, repeat: Callable[[Any, random.Random], int]) -> None:
    space = profile(name)
    expected, usual = said(space.SerializeToString())
    if not repeat(space, random.Random(1)):
        return
    found, warnings = said(space.SerializeToString())
    assert found == expected
    more = [warning for warning in warnings if warning not in usual]
    assert more
    assert all("the first counts" in warning for warning in more)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), "a key stands twice"
    return found


@pytest.mark.parametrize("repeat", [repeat_by_id, repeat_by_name])
def test_columns_and_arguments_have_one_value_an_event(repeat: Callable[[Any, random.Random], int], tmp_path: Any) -> None:
    space = profile("jax_loop")
    expected = read_trace(space.SerializeToString())
    surplus = repeat(space, random.Random(2))
    trace = read_trace(space.SerializeToString())
    names = list(dict.fromkeys(expected.stat_names))
    for name, column in trace.read_stats(names).items():
        assert (np.diff(column.rows) > 0).all()
        assert column.rows.tolist() == expected.stat(name).rows.tolist()
        assert column.texts() == expected.stat(name).texts()
    assert trace._source.count_repeated_stats().sum() > surplus // 2  # type: ignore[attr-defined]
    for form in ExportFormat:
        made = []
        for data in (profile("jax_loop").SerializeToString(), space.SerializeToString()):
            with (tmp_path / "trace").open("wb") as file:
                write_trace(api.open(data).run, file.fileno(), form)
            made.append((tmp_path / "trace").read_bytes())
        assert made[0] == made[1]
    json.loads(made[1], object_pairs_hook=unique)


@pytest.mark.parametrize("name", ["jax_loop", "jax_h200_table"])
def test_what_nothing_asks_for_is_no_damage(name: str) -> None:
    """JAX writes `_src` twice on some events, of every healthy capture."""
    space = profile(name)
    trace = read_trace(space.SerializeToString())
    assert trace._source.count_repeated_stats().sum() > 0  # type: ignore[attr-defined]
    assert trace.damages == ()


def test_names_that_redaction_makes_alike_are_one(tmp_path: Any) -> None:
    """A stand-in is as long as its name, so that those of one letter are the same."""
    space = SpaceBuilder()
    space.plane("/host:CPU").line("main").event("work", 0, 1000, **{"/a/b": 1, "/c/d": 2, "_r": 1}).event(
        "work", 5000, 1000, **{"/c/d": 3}
    )
    trace = api.open(space.write(tmp_path / "vm.xplane.pb"), redact=True).run.hosts[0].trace
    alike = [name for name in trace.stat_names if trace.stat_names.count(name) > 1]
    assert alike, "they became alike"
    for column in trace.read_stats(trace.stat_names).values():
        assert (np.diff(column.rows) > 0).all()
