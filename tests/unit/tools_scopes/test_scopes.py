"""Name scopes: sums hold, depth is limited, and lines and allocations are found."""

from __future__ import annotations

import pytest

from outpace import api
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.model import TableView
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import SOME, opened

MS = 1_000_000_000


@pytest.mark.parametrize("name", sorted({*SOME, "derived_v100_bert"} - {"idle_empty"}))
def test_the_tree_holds_every_op_once(name: str) -> None:
    page = opened(name).scopes()
    if page.unavailable:
        return
    rows = [row for table in page.tables() if table.name.endswith("_scopes") for row in table.records()]
    ops = [r for r in op_metrics(opened(name).run).records() if not r["idle"] and r["type"] != "Dataset"]
    total = sum(r["self_ps"] for r in ops)
    assert sum(row["total_ps"] for row in rows if row["depth"] == 0) == total
    assert sum(row["self_ps"] for row in rows) == total
    assert sum(row["self_ps"] for row in page.table("scope_ops").records()) == total
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        below = sum(r["total_ps"] for r in rows if r["parent"] == row["id"])
        assert row["total_ps"] == row["self_ps"] + below
        assert row["parent"] == "" or by_id[row["parent"]]["depth"] == row["depth"] - 1


def test_a_known_model_has_known_times() -> None:
    ops = (("net/a/MatMul", "MatMul", 3 * MS), ("net/a/BiasAdd", "BiasAdd", 1 * MS), ("net/b/inner/Relu", "Relu", 2 * MS))
    run = Run.from_traces([read_trace(training_run(steps=5, ops=ops).to_bytes())])
    rows = {r["id"]: r for r in api.Profile(run).scopes().table("host_scopes").records()}
    assert rows["Host:net"]["total_ps"] == 5 * 6 * MS
    assert rows["Host:net/a"]["self_ps"] == 5 * 4 * MS
    assert rows["Host:net/b/inner"]["total_ps"] == 5 * 2 * MS
    flat = {r["id"]: r for r in api.Profile(run).scopes(max_depth=2).table("host_scopes").records()}
    assert "Host:net/b/inner" not in flat
    assert flat["Host:net/b"]["self_ps"] == 5 * 2 * MS


def test_a_layer_has_the_name_that_the_user_gave_it() -> None:
    ops = (("sequential_1/head_1/MatMul", "MatMul", 3 * MS), ("sequential_1/head_1/BiasAdd", "BiasAdd", 1 * MS))
    trace = read_trace(training_run(steps=5, ops=ops).to_bytes())
    made = {
        "kind": "layer",
        "type": "Dense",
        "file": "/home/me/train.py",
        "line": 7,
        "text": "Dense(2, name='head')",
        "inner": False,
    }
    record = {"layers": {"sequential_1/head_1": {"name": "head", "call_line": 0, **made}}}
    known = api.Profile(Run.from_traces([trace], records={trace.host: record})).scopes()
    rows = {r["id"]: r for r in known.table("host_scopes").records()}
    assert (rows["Host:sequential_1/head_1"]["keras"], rows["Host:sequential_1/head_1"]["source"]) == (
        "head (Dense)",
        "train.py:7",
    )
    assert rows["Host:sequential_1"]["keras"] == ""
    unknown = api.Profile(Run.from_traces([trace])).scopes()
    remarks = [[s.remark for s in page.sections if isinstance(s, TableView)] for page in (known, unknown)]
    assert [any("'dense' stands under 'dense_1'" in text for text in each) for each in remarks] == [False, True]


def test_device_ops_are_found_by_source_line() -> None:
    """The copies that the compiler put before and after the 1,200 additions of the line belong to
    it.
    """
    rows = {r["source"].rsplit("/", 1)[-1]: r for r in opened("tpu_v6e_inference").scopes().table("lines").records()}
    assert rows["host_offload_stress_test.py:29"]["occurrences"] == 3 * 1200
    assert rows["host_offload_stress_test.py:29"]["self_ps"] > 9e12


def test_compiled_ops_of_a_cpu_are_found_by_source_line() -> None:
    rows = {(r["source"].rsplit("/", 1)[-1], r["what"]): r for r in opened("jax_loop").scopes().table("lines").records()}
    assert rows["jaxprof.py:7", "compiled ops on the CPU"]["self_ps"] > 60e9


def test_python_calls_are_found() -> None:
    sources = [r["source"] for r in opened("jax_loop").scopes().table("lines").records()]
    assert any(source.startswith("profiler.py:") for source in sources)


def test_allocations_stand_at_the_op_that_asked() -> None:
    rows = opened("memory_heavy").scopes().table("scope_ops").records()
    assert sum(row["allocated_bytes"] or 0 for row in rows) > 1e6
