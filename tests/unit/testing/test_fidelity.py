"""A built run looks to a reader like a captured one: events, kinds of their stats, and threads are
such as TensorFlow wrote.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from outpace.testing import training_run
from tests.support import profile_bytes
from tests.xspace_proto import XSpace

CAPTURES = ("custom_loop", "tfrecord_pipeline", "keras_fit", "mirrored")
MS = 1_000_000_000
Seen = dict[str, tuple[dict[str, set[str]], set[str]]]


def kind_of(name: str) -> str | None:
    """An event's name without what differs between programs; None for an op."""
    if name.startswith("Iterator::"):
        return "Iterator"
    return None if ":" in name.replace("::", "").replace(": ", "") else name.split("__inference_")[0]


def seen(data: bytes) -> Seen:
    """Per kind of event: which kinds of value each stat has, and on which kinds of thread it
    happens.
    """
    found: Seen = defaultdict(lambda: (defaultdict(set), set()))
    for plane in XSpace.FromString(data).planes:
        for line in plane.lines:
            for event in line.events:
                if kind := kind_of(plane.event_metadata[event.metadata_id].name):
                    found[kind][1].add(line.name.split("/")[0])
                    for stat in event.stats:
                        found[kind][0][plane.stat_metadata[stat.metadata_id].name].add(stat.WhichOneof("value"))
    return found


@cache
def captured() -> Seen:
    merged: Seen = defaultdict(lambda: (defaultdict(set), set()))
    for name in CAPTURES:
        for kind, (stats, threads) in seen(profile_bytes(name, "vm")).items():
            merged[kind][1].update(threads)
            for stat, values in stats.items():
                merged[kind][0][stat].update(values)
    return merged


@pytest.mark.parametrize("marks", ["train", "keras", None])
def test_built_events_occur_in_captures(marks: str | None) -> None:
    built = seen(training_run(marks=marks, work_ps={"ParallelMapV2": MS}).to_bytes())
    assert len(built) > 12
    for kind, (stats, threads) in built.items():
        assert kind in captured(), f"TensorFlow writes no event {kind!r}"
        real_stats, real_threads = captured()[kind]
        for stat, values in stats.items():
            assert values <= real_stats[stat], f"{kind}: stat {stat} is {values}, in captures {real_stats[stat]}"
        assert threads <= real_threads, f"{kind} happens on {threads}, in captures on {real_threads}"


def test_ids_use_all_64_bits() -> None:
    """Ids of runs are signed, ids of iterators unsigned; a reader that mixes them up must fail on
    built runs too.
    """

    def kinds(event: str, stat: str) -> tuple[set[str], set[bool]]:
        (plane, _) = XSpace.FromString(training_run().to_bytes()).planes
        found: list[Any] = [
            s
            for line in plane.lines
            for e in line.events
            if plane.event_metadata[e.metadata_id].name.startswith(event)
            for s in e.stats
            if plane.stat_metadata[s.metadata_id].name == stat
        ]
        return {s.WhichOneof("value") for s in found}, {s.int64_value < 0 for s in found if s.HasField("int64_value")}

    assert kinds("FunctionRun", "id") == ({"int64_value"}, {True, False})
    assert kinds("Iterator::", "id") == ({"int64_value", "uint64_value"}, {False})
    assert kinds("Iterator::", "parent_id") == ({"int64_value", "uint64_value"}, {False})
    assert "uint64_value" in kinds("FunctionRun", "_p")[0]
