"""The tf.data analysis against TensorFlow 2.15.1's own (on copies with repaired iterator ids), and
the two verdicts.
"""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts.input_iterators import iterator_graphs
from tests.support import PROFILES, opened, reference

MASK = 2**63 - 1  # the reference's answers were made on ids without their top bit


def answer(name: str) -> dict[str, Any]:
    found = reference(name, "tf_data_bottleneck_analysis.tf215") or {}
    hosts: dict[str, dict[str, Any]] = found.get("tf_data_stats", {})
    if len(hosts) != 1:
        return {}
    (host,) = hosts.values()
    return dict(host.get("input_pipelines", {}))


ONE_HOST = [n for n in PROFILES if answer(n) and len(opened(n).run.hosts) == 1]


def executions(name: str) -> dict[int, list[dict[int, dict[str, Any]]]]:
    """Our root calls, slowest first, by root id: iterator id to row. Root and device pipelines
    alike.
    """
    page = opened(name).tf_data()
    roots = {(r["host"], r["pipeline"]): int(r["id"]) & MASK for r in page.table("pipelines").records()}
    calls: dict[int, dict[int, dict[int, dict[str, Any]]]] = {}
    for row in page.table("executions").records():
        root = roots[row["host"], row["pipeline"]]
        calls.setdefault(root, {}).setdefault(row["rank"], {})[int(row["id"]) & MASK] = row
    return {root: [ranks[r] for r in sorted(ranks)] for root, ranks in calls.items()}


@pytest.mark.parametrize("name", ONE_HOST)
def test_every_iterator_of_every_call_equals_the_reference(name: str) -> None:
    ours = executions(name)
    compared = 0
    for root, pipeline in answer(name).items():
        for mine, theirs in zip(ours[int(root)], pipeline["stats"], strict=True):
            assert set(mine) == {int(k) for k in theirs["iterator_stats"]}
            for key, stat in theirs["iterator_stats"].items():
                row = mine[int(key)]
                assert row["total_ps"] == int(stat.get("duration_ps", 0))
                assert row["self_ps"] == int(stat.get("self_time_ps", 0))
                assert row["calls"] == int(stat.get("num_calls", 0))
                assert row["critical"] == bool(stat.get("is_blocking", False))
                compared += 1
            assert int(theirs["bottleneck_iterator_id"]) in [k for k, row in mine.items() if row["bottleneck"]]
    assert compared


@pytest.mark.parametrize("name", ONE_HOST)
def test_latencies_equal_the_reference(name: str) -> None:
    ours = {int(r["id"]) & MASK: r for r in opened(name).tf_data().table("pipelines").records()}
    for root, pipeline in answer(name).items():
        row = ours[int(root)]
        assert row["max_ps"] == int(pipeline["max_latency_ps"])
        assert row["min_ps"] == int(pipeline["min_latency_ps"])
        assert row["mean_ps"] == pytest.approx(int(pipeline["avg_latency_ps"]), abs=1)
        assert row["slow_calls"] == int(pipeline.get("num_slow_calls", 0))
        assert row["calls"] == len(pipeline["stats"])
        # the second half of a distributed dataset, which fetches for a replica, is a pipeline of
        # the host there
        assert row["pipeline"].startswith("Device") or pipeline["metadata"].get("type") != "DEVICE"


def test_there_is_something_to_compare() -> None:
    assert len(ONE_HOST) >= 14


def bottleneck(name: str) -> dict[str, Any]:
    (row,) = [r for r in opened(name).tf_data().table("stages").records() if r["role"] == "bottleneck"]
    return row


def test_both_verdicts_name_the_py_function_map() -> None:
    row = bottleneck("input_bound_generator")
    assert (
        row["long_name"] == "Iterator::Root::Prefetch::BatchV2::Shuffle::Map::Map"
    )  # the inner map: the one that calls py_function
    assert row["python"]
    assert row["guide_bottleneck"]


@pytest.mark.parametrize(
    ("name", "works", "waits"),
    [
        ("tfrecord_pipeline", "MapAndBatch", "Prefetch"),
        ("tfdata_heavy", "Generator", "ParallelBatch"),
        ("iterator_outside_step", "MapAndBatch", "Prefetch"),
    ],
)
def test_ours_names_the_stage_that_works(name: str, works: str, waits: str) -> None:
    (pipeline,) = opened(name).tf_data().table("pipelines").records()
    assert pipeline["bottleneck"] == works
    assert pipeline["guide_bottleneck"] == waits


def test_work_is_not_waiting() -> None:
    """In `tfrecord_pipeline` the Prefetch stage has 9 ms of self time, all of it waiting."""
    stages = {r["stage"]: r for r in opened("tfrecord_pipeline").tf_data().table("stages").records()}
    assert stages["Prefetch"]["self_ps"] > 5e9
    assert stages["Prefetch"]["work_ps"] < 0.5e9
    assert stages["MapAndBatch"]["work_ps"] > 50e9


@pytest.mark.parametrize("name", ["keras_fit", "iterator_outside_step", "custom_loop"])
def test_what_tensorflow_does_by_itself_is_not_advised(name: str) -> None:
    """Written without prefetch: TensorFlow put one in, so nothing of the kind is advised."""
    assert "no_prefetch" not in [finding.id for finding in opened(name).tf_data().findings]


def test_a_random_map_that_was_fused_with_its_batch_is_not_parallel() -> None:
    """TensorFlow makes MapAndBatch of it, which runs its function on several threads, but for one
    element at a time.
    """
    (finding,) = [finding for finding in opened("custom_loop").tf_data().findings if finding.id == "slow_stage"]
    assert "its function runs sequentially" in finding.sentence and "per batch" in finding.sentence
    assert (
        "num_parallel_calls" not in finding.action and "behind .batch()" in finding.action
    )  # its ops take a third of its time
    (stage,) = [r for r in opened("custom_loop").tf_data().table("stages").records() if r["stage"] == "MapAndBatch"]
    assert stage["threads"] == 1


@pytest.mark.parametrize("name", [n for n in PROFILES if answer(n)])
def test_calls_totals_and_self_times_of_a_stage_are_of_the_same_executions(name: str) -> None:
    """All of them: elements that were made ahead and that no recorded root call took count too, as
    in the table of input ops.
    """
    run = opened(name).run
    for host, graph in iterator_graphs(run).items():
        rows = [r for r in opened(name).tf_data().table("stages").records() if r["host"] == host]
        for row in rows:
            mine = graph.rows[[graph.long_names[i] == row["long_name"] for i in graph.iterator.tolist()]]
            if len({r["pipeline"] for r in rows}) > 1 or "[" in "".join(graph.long_names):
                continue  # a name alone does not tell the iterators of two pipelines, or of interleaved copies, apart
            assert row["calls"] == len(mine), row["stage"]
            assert row["total_ps"] == graph.trace.duration[mine].sum()
            assert row["start_ps"] == graph.trace.start[mine].min()
            assert 0 <= row["self_ps"] <= row["total_ps"]


def test_the_tables_of_one_report_agree_on_the_shuffle() -> None:
    (stage,) = [r for r in opened("custom_loop").tf_data().table("stages").records() if r["stage"] == "Shuffle"]
    (op,) = [r for r in opened("custom_loop").input_pipeline().table("input_ops").records() if r["op"].endswith("Shuffle")]
    assert (stage["calls"], stage["total_ps"]) == (op["count"], op["total_ps"])
    attributed = [r for r in opened("custom_loop").tf_data().table("executions").records() if r["stage"] == "Shuffle"]
    assert sum(r["calls"] for r in attributed) < stage["calls"]  # an element or more waits in a buffer when the capture ends


@pytest.mark.parametrize("name", [n for n in PROFILES if answer(n)])
def test_work_per_batch_is_work_by_root_calls_and_busy_times_sum_to_the_segments(name: str) -> None:
    page = opened(name).tf_data()
    calls = {(r["host"], r["pipeline"]): r["steady_calls"] for r in page.table("pipelines").records()}
    segments = {(r["host"], r["pipeline"], r["segment"]): r for r in page.table("segments").records()}
    for row in page.table("stages").records():
        assert row["work_per_batch_ps"] == pytest.approx(row["work_ps"] / calls[row["host"], row["pipeline"]])
        if row["work_ps"]:
            segment = segments[row["host"], row["pipeline"], row["segment"]]
            assert row["threads"] == segment["threads"]
            assert row["busy_per_batch_ps"] <= segment["busy_per_batch_ps"] * (1 + 1e-9)
            assert row["busy_per_batch_ps"] * row["threads"] <= row["work_per_batch_ps"] * (1 + 1e-9)
    for key, segment in segments.items():
        share = segment["work_ps"] / segment["threads"] / calls[key[:2]]
        assert segment["busy_per_batch_ps"] == pytest.approx(share)
