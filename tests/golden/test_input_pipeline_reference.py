"""The input pipeline page against XProf's `input_pipeline_analyzer`."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.input_pipelines import stage_position
from outpace.tools.input_pipeline.compute import ENQUEUE, PREPROCESSING, READ_IN_ADVANCE, READ_ON_DEMAND
from tests.support import PROFILES, opened, reference

KINDS = {
    "Enqueue": ENQUEUE,
    "Demanded file read": READ_ON_DEMAND,
    "Advanced file read": READ_IN_ADVANCE,
    "Preprocessing": PREPROCESSING,
}
ONE_HOST = [
    n
    for n in PROFILES
    if n not in ("multi_host", "multi_worker_strategy")
    and (answer := reference(n, "input_pipeline_analyzer.xprof"))
    and len(answer) > 2
    and any("MemcpyH" not in r["c"][0]["v"] for r in answer[2]["rows"])
    and not n.endswith("bert")
]


@pytest.mark.parametrize("name", ONE_HOST)
def test_input_ops_equal_the_reference(name: str) -> None:
    theirs = {r["c"][0]["v"]: [c["v"] for c in r["c"]] for r in reference(name, "input_pipeline_analyzer.xprof")[2]["rows"]}
    page = opened(name).input_pipeline()
    several = [t for t in page.tables() if t.name == "input_instances"]
    ours = {r["op"]: r for table in (page.table("input_ops"), *several) for r in table.records()}
    for op, (_, count, total, _, own, share, kind) in theirs.items():
        row = ours[op] if op in ours else ours[stage_position(op)]
        assert op in ours or row["instances"] == 1
        assert row["count"] == count
        assert row["total_ps"] / 1e9 == pytest.approx(total, abs=2e-6)
        assert row["self_ps"] / 1e9 == pytest.approx(own, abs=2e-6)
        assert row["self_fraction"] == pytest.approx(share, abs=1e-6)
        assert KINDS[kind] == row["category"]


def test_an_op_of_many_instances_is_one_row() -> None:
    """`interleave` opens a reader for every file, `repeat` one for every round: the reference lists
    each, a reader looks for the stage.
    """
    page = opened("tfrecord_pipeline").input_pipeline()
    ops = {r["op"].rpartition("::")[2]: r for r in page.table("input_ops").records() if "[" not in r["op"]}
    instances = [r for r in page.table("input_instances").records() if r["op"].endswith("::TFRecord")]
    assert len(instances) > 1
    assert ops["TFRecord"]["instances"] == len(instances)
    for column in ("count", "total_ps", "self_ps"):
        assert ops["TFRecord"][column] == sum(r[column] for r in instances)


@pytest.mark.parametrize("name", ONE_HOST)
def test_host_categories_equal_the_reference(name: str) -> None:
    theirs = reference(name, "input_pipeline_analyzer.xprof")[2]["p"]
    ours = {r["category"]: r["self_ps"] / 1e6 for r in opened(name).input_pipeline().table("host_categories").records()}
    assert ours[ENQUEUE] == pytest.approx(float(theirs["enqueue_us"]), abs=0.01)
    assert ours[READ_ON_DEMAND] == pytest.approx(float(theirs["demanded_file_read_us"]), abs=0.01)
    assert ours[READ_IN_ADVANCE] == pytest.approx(float(theirs["advanced_file_read_us"]), abs=0.01)
    assert ours[PREPROCESSING] == pytest.approx(float(theirs["preprocessing_us"]), abs=0.01)


def test_there_is_something_to_compare() -> None:
    assert len(ONE_HOST) >= 8


@pytest.mark.parametrize(
    ("name", "word"), [("tfdata_heavy", "highly"), ("input_bound_generator", "highly"), ("tfrecord_pipeline", "moderately")]
)
def test_verdicts(name: str, word: str) -> None:
    assert f"is {word} input-bound" in opened(name).input_pipeline().headline


def test_background_input_is_seen_where_no_step_waits() -> None:
    """In `custom_loop` input threads do a third of all work, while a step waits only
    now and then.
    """
    (row,) = opened("custom_loop").input_pipeline().table("saturation").records()
    assert row["input_share"] > 0.2
    assert row["busy_cores"] > 1.0
    assert row["input_ps"] > 5e9
