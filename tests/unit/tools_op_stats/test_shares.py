"""Self time summed up by type, layer and op, of each side."""

from __future__ import annotations

from collections import defaultdict

import pytest

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.slices import REST_LABEL
from outpace.tools.op_stats.compute import compute_ops, compute_shares
from tests.support import opened


@pytest.mark.parametrize("name", ["tf_gpu_v100_bert", "keras_fit"])
def test_however_it_is_summed_up_it_is_the_time_of_the_side(name: str) -> None:
    table = compute_ops(op_metrics(opened(name).run))
    busy: dict[str, int] = defaultdict(int)
    for row in table.records():
        busy[row["side"]] += 0 if row["idle"] else row["self_ps"]
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for row in compute_shares(table).records():
        sums[row["side"], row["by"]] += row["self_ps"]
    assert {way for _, way in sums} == {"op type", "layer", "op"}
    assert sums == {(side, way): busy[side] for side, way in sums}


def test_repeated_layers_are_one_and_say_what_single_ops_hide() -> None:
    rows = [
        row
        for row in compute_shares(compute_ops(op_metrics(opened("tf_gpu_v100_bert").run))).records()
        if row["side"] == "Device"
    ]
    rest = {row["by"]: row["self_ps"] for row in rows if row["label"] == REST_LABEL}
    whole = sum(row["self_ps"] for row in rows if row["by"] == "op")
    assert rest["op"] > 0.9 * whole, "a hundredth each, nine tenths in the rest"
    assert rest["layer"] < 0.2 * whole
    assert "transformer/layer_*/self_attention" in next(row["label"] for row in rows if row["by"] == "layer")
