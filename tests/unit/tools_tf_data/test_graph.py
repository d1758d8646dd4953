"""The graph's table: all calls first, then the slowest, the median and the fastest call of each
pipeline.
"""

from __future__ import annotations

import pytest

from outpace.model import Chart, ChartKind
from tests.support import opened


def rows(name: str, **wanted: object) -> list[dict[str, object]]:
    return [r for r in opened(name).tf_data().table("graph").records() if all(r[k] == v for k, v in wanted.items())]


@pytest.mark.parametrize("name", ["tfdata_heavy", "multi_host", "keras_fit"])
def test_a_single_call_is_what_the_executions_say(name: str) -> None:
    page = opened(name).tf_data()
    executions = list(page.table("executions").records())
    for row in page.table("graph").records():
        if row["rank"] is None or row["parent"]:
            continue
        mine = [e for e in executions if all(e[k] == row[k] for k in ("host", "pipeline", "rank"))]
        assert row["total_ps"] == max(e["total_ps"] for e in mine if e["stage"] == row["stage"])
        calls = [r for r in rows(name, call=row["call"], host=row["host"], pipeline=row["pipeline"]) if r["calls"]]
        assert sum(float(str(r["self_ps"])) for r in calls) == sum(e["self_ps"] for e in mine)
        assert [r["stage"] for r in calls if r["role"] == "bottleneck"] == [e["stage"] for e in mine if e["bottleneck"]]


def test_all_calls_are_the_stages_per_call() -> None:
    page = opened("tfdata_heavy").tf_data()
    count = next(page.table("pipelines").records())["calls"]
    graph = rows("tfdata_heavy", call=f"all {count} calls: mean")
    for row, stage in zip(graph, page.table("stages").records(), strict=True):
        assert (row["stage"], row["role"], row["busy_per_batch_ps"]) == (
            stage["stage"],
            stage["role"],
            stage["busy_per_batch_ps"],
        )
        assert row["self_ps"] == pytest.approx(stage["self_ps"] / count)


def test_the_slowest_pipeline_comes_first_and_at_most_three_calls_are_offered() -> None:
    (chart,) = [s for s in opened("multi_host").tf_data().sections if isinstance(s, Chart) and s.kind is ChartKind.GRAPH]
    assert chart.choice_columns() == ("host", "pipeline", "call")
    assert chart.table["host"][0] == "localhost_7011"
    per_host: dict[str, list[str]] = {host: [] for host in chart.table["host"].tolist()}
    for row in chart.table.records():
        if row["call"] not in per_host[row["host"]]:
            per_host[row["host"]].append(row["call"])
    for calls in per_host.values():
        assert len(calls) == 4
        assert calls[0].startswith("all ")
        assert calls[1].startswith("rank 1, slowest: ")
        assert calls[3].split(",")[1].startswith(" fastest: ")
