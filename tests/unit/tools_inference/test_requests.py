"""Requests: each prediction once, with its own length and parts; a slow call is named with its
cause.
"""

from __future__ import annotations

import pytest

from outpace import api
from outpace.model import Category, Page
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import opened

MS = 1_000_000_000


def served(lengths: list[int], *, gap: int = 1 * MS, building: int = -1) -> Page:
    """A server that answers one request after the other; request `building` spends all but 1 ms on
    building a graph.
    """
    space = SpaceBuilder("server")
    line = space.plane("/host:CPU").line("python")
    at = 0
    for i, length in enumerate(lengths):
        mode = "traced-nonXla" if i == building else "notTraced-nonXla"
        line.event("predict_step", at, length, tf_function_call=mode, tracing_count=1)
        if i == building:
            line.event("tf.function-graph_building", at, length - MS)
            line.event("net/dense/MatMul:MatMul", at + length - MS, MS)
        else:
            line.event("net/dense/MatMul:MatMul", at, length)
        at += length + gap
    return api.Profile(Run.from_traces([read_trace(space.to_bytes(), "server")])).inference()


def test_latency_is_the_length_of_the_call() -> None:
    page = served([3 * MS, 4 * MS, 5 * MS] * 4)
    rows = list(page.table("requests").records())
    assert [row["latency_ps"] for row in rows] == [3 * MS, 4 * MS, 5 * MS] * 4
    assert [row["before_ps"] for row in rows] == [0, *[1 * MS] * 11]
    assert all(row["longest_op"] == "net/dense/MatMul" for row in rows)
    (summary,) = page.table("latency").records()
    assert (summary["requests"], summary["p50_ps"], summary["max_ps"]) == (12, 4 * MS, 5 * MS)
    assert summary["rate"] == pytest.approx(12 / (59e-3), rel=1e-6)
    assert page.findings == ()


def test_the_slow_call_is_blamed_on_what_only_it_did() -> None:
    page = served([2 * MS] * 15 + [40 * MS] + [2 * MS] * 4, building=15)
    (finding,) = page.findings
    assert finding.id == "latency_tail"
    assert Category.COMPILATION.label.lower() in finding.sentence
    assert "Warm the model up" in finding.action
    slowest = next(page.table("slowest_requests").records())
    assert (slowest["request"], slowest["compilation_ps"]) == (15, 39 * MS)


def test_a_slow_first_call_is_a_finding_of_its_own() -> None:
    page = served([50 * MS] + [2 * MS] * 15, building=0)
    assert [f.id for f in page.findings] == ["slow_first_call"]


def test_predictions_of_a_real_capture() -> None:
    page = opened("predict_inference").inference()
    trace = opened("predict_inference").run.hosts[0].trace
    rows = list(page.table("requests").records())
    assert len(rows) == 16
    calls = trace.find_rows_by_name(lambda name: name == "one_step_on_data_distributed")
    assert sorted(row["latency_ps"] for row in rows) == sorted(trace.duration[calls].tolist())
    for row in rows:
        assert sum(row[f"{c.value}_ps"] for c in Category) == row["latency_ps"]
    assert sum(row["requests"] for row in page.table("histogram").records()) == 16


def test_training_holds_no_request() -> None:
    page = opened("custom_loop").inference()
    assert page.unavailable is not None
    assert "predict" in page.unavailable.remedy
