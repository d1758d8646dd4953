"""Marked profiles: durations equal the marks and the reference; category means are within 1% of the
step time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.timeline import StepSource
from outpace.trace.algorithms import compute_union_length
from tests.support import MARKED, PROFILES, beside, opened, opened_beside, reference

# GenericEventType of the reference, and the categories that it shows there.
GENERIC = {
    "1": (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32),
    "2": (Category.DEVICE_TO_DEVICE,),
    "3": (Category.DEVICE_COLLECTIVES,),
    "5": (Category.KERNEL_LAUNCH,),
    "6": (Category.INPUT,),
    "7": (Category.OUTPUT,),
    "9": (Category.ALL_OTHERS,),
    "4+8": (Category.HOST_COMPUTE, Category.COMPILATION),  # graph building is compilation here, host compute in the reference
}
ON_WORKERS = (
    "jax_cpu_steps",
)  # what XLA's threads run for a step, while the training thread waits for it; the reference sees that one alone
# The program runs ahead of its GPU, and the steps are the device's. The reference has them from a
# step's first kernel to its last, without the 3 us to the next one's first.
AHEAD = ("jax_h200_table", "jax_h200_transformer")
JAX = ("jax_loop", "jax_loop_unmarked", *ON_WORKERS)


def generic(name: str) -> dict[str, tuple[Category, ...]]:
    """The categories to compare.

    What XLA's threads run for a JAX program is host compute here (`metrics/facts/jax_activity.py`),
    and mostly "all others" in the reference, which follows fewer of the links to these threads: the
    two are compared as one.
    """
    if name not in JAX:
        return GENERIC
    together = {key: GENERIC[key] for key in ("4+8", "9")}
    rest = {key: categories for key, categories in GENERIC.items() if key not in together}
    return rest | {"+".join(together): tuple(c for categories in together.values() for c in categories)}


def precision(name: str) -> float:
    return 3e-3 if name in AHEAD else 1e-3


def reference_rows(name: str) -> list[dict[str, Any]]:
    steps = reference(name, "pod_viewer.xprof")["podStatsSequence"]["podStatsMap"]
    return [row for step in steps for row in step["podStatsPerCore"].values()]


def ours(name: str) -> list[dict[str, Any]]:
    return list(step_breakdown(opened(name).run).steps.records())


def paired(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The reference's rows, each with ours of the same duration: it names all hosts of a remote
    capture alike and numbers steps anew.
    """
    mine = ours(name)
    pairs = []
    for theirs in reference_rows(name):
        duration = theirs["totalDurationUs"] * 1e6
        row = min(mine, key=lambda r: abs(r["duration_ps"] - duration))
        assert row["duration_ps"] == pytest.approx(duration, rel=precision(name))
        pairs.append((row, theirs))
    return pairs


@pytest.mark.parametrize("name", [*(n for n in MARKED if n not in ("multi_host", "multi_worker_strategy")), *AHEAD])
def test_steps_equal_the_reference_in_order(name: str) -> None:
    theirs = [r["totalDurationUs"] * 1e6 for r in reference_rows(name)]
    assert [r["duration_ps"] for r in ours(name)] == pytest.approx(theirs, rel=precision(name))


@pytest.mark.parametrize("name", MARKED)
def test_duration_is_the_mark(name: str) -> None:
    for host in opened(name).run.hosts:
        marks = host.steps.root_row
        assert host.steps.duration.tolist() == host.trace.duration[marks].tolist()


@pytest.mark.parametrize("name", ON_WORKERS)
def test_what_worker_threads_run_for_a_step_is_its_computation(name: str) -> None:
    """The reference calls four tenths of the steps untraced; here that time is the step's
    computation and compilation, but for 5%.
    """
    rows = reference_rows(name)
    theirs = sum(row["stepBreakdownUs"].get("9", 0.0) for row in rows) / sum(row["totalDurationUs"] for row in rows)
    mine = {
        c: sum(row[f"{c.value}_ps"] for row in ours(name)) / sum(row["duration_ps"] for row in ours(name)) for c in Category
    }
    working = mine[Category.HOST_COMPUTE] + mine[Category.COMPILATION]
    assert theirs > 0.3
    assert mine[Category.ALL_OTHERS] < 0.05
    assert working > 0.9


@pytest.mark.parametrize("name", [*MARKED, "tf_gpu_v100_bert", *AHEAD])
def test_categories_equal_the_reference(name: str) -> None:
    pairs = paired(name)
    step = np.mean([mine["duration_ps"] for mine, _ in pairs])
    allowed = 0.01 * step
    checked = (
        {"1": GENERIC["1"]} if name in ("tf_gpu_v100_bert", *AHEAD) else generic(name)
    )  # the reference dropped host events beside a device
    for key, categories in checked.items():
        mine = np.mean([sum(row[f"{c.value}_ps"] for c in categories) for row, _ in pairs])
        theirs = np.mean([sum(row["stepBreakdownUs"].get(k, 0.0) for k in key.split("+")) * 1e6 for _, row in pairs])
        assert abs(mine - theirs) <= allowed, f"{categories}: {mine} against {theirs}"


@pytest.mark.parametrize("name", PROFILES)
def test_categories_sum_to_the_step_time(name: str) -> None:
    for row in ours(name):
        assert sum(row[f"{c.value}_ps"] for c in Category) == row["duration_ps"]
        assert all(row[f"{c.value}_ps"] >= 0 for c in Category)


def test_a_host_that_waits_for_its_gpu_has_its_own_steps() -> None:
    """`jax_h200_input_bound`: of a GPU the reference takes a step from its first kernel to the next
    step's first, and the last up to its last kernel: 3 ms of 300. What devices did is the same but
    for the first step's copy of its batch, which lies before; the copies that the reference calls
    computation are input here, or launching, as long as the host is in the call.
    """
    theirs, mine = reference_rows("jax_h200_input_bound"), ours("jax_h200_input_bound")
    assert theirs[-1]["totalDurationUs"] == pytest.approx(2793, abs=1)
    assert min(row["duration_ps"] for row in mine) > 200e9
    timeline = opened("jax_h200_input_bound").run.hosts[0]
    _, device = timeline.launches
    trace = timeline.trace
    copies = trace.duration[np.array([row for row in device if trace.names[trace.name[row]] == "MemcpyH2D"])]
    worked = sum(row[f"{c.value}_ps"] for row in mine for c in (*GENERIC["1"], *GENERIC["2"], Category.OUTPUT))
    assert len(copies) == 8
    assert worked + copies[1:].sum() == pytest.approx(sum(row["stepBreakdownUs"]["1"] for row in theirs) * 1e6, rel=1e-3)


def test_graph_building_is_compilation() -> None:
    """`retracing` builds a graph in every step; the reference calls all of it host compute."""
    rows = ours("retracing")
    compiling = np.mean([r["compilation_ps"] for r in rows]) / np.mean([r["duration_ps"] for r in rows])
    assert 0.4 < compiling < 0.7


def test_host_categories_beside_a_device() -> None:
    """`tf_gpu_v100_bert`: TensorFlow 2.15 still counted the host's part of a step with a device:
    3.57 ms launching, 2.39 ms input.
    """
    (row,) = ours("tf_gpu_v100_bert")
    assert row["kernel_launch_ps"] == pytest.approx(3565.8e6, rel=0.01)
    assert row["input_ps"] == pytest.approx(2389.8e6, rel=0.01)
    assert row["all_others_ps"] == pytest.approx(479.2e6, rel=0.01)


@pytest.mark.parametrize("name", beside(("jax_loop", "jax_loop_unmarked", "jax_cpu_steps")))
def test_time_in_which_xlas_threads_compute_is_no_python(name: str) -> None:
    """Counted by hand from the file: the part of the steps in which an op runs on a worker thread
    or an event stands on the main thread.

    Beside these, thunks run. (Where an event without duration held its kind open, as in the
    reference, a fifth of Python's time was theirs.)
    """
    (timeline,) = opened_beside(name).run.hosts
    trace, steps = timeline.trace, timeline.steps
    busy = trace.stat("hlo_op").rows
    main = np.arange(*trace.lines.row_slice(steps.line[0]).indices(len(trace)))
    main = main[trace.duration[main] > 0]
    if steps.source is StepSource.MARKED:
        main = np.setdiff1d(main, steps.root_row)  # a mark is no work
    nothing = 0
    for start, end in zip(steps.start.tolist(), steps.end.tolist(), strict=True):
        rows = np.concatenate((busy, main))
        rows = rows[np.argsort(trace.start[rows])]
        covered, _ = compute_union_length(trace.start[rows], trace.end[rows], start, end)
        nothing += end - start - covered
    total = float(steps.duration.sum())
    mine = step_breakdown(opened_beside(name).run).steps["all_others_ps"].sum()
    assert mine <= nothing
    assert nothing / total < 0.12
    assert mine / total < (0.06 if name == "jax_loop_unmarked" else 0.02)


@pytest.mark.skipif(not beside(("jax_cpu_steps",)), reason="the profile lies beside the repository only")
def test_compiling_in_a_jax_step_is_compilation() -> None:
    """`jax_cpu_steps` compiles two programs in its first step: tracing, lowering and compiling take
    133 ms, `backend_compile_and_load` 98.6.
    """
    rows = list(step_breakdown(opened_beside("jax_cpu_steps").run).steps.records())
    assert rows[0]["compilation_ps"] == pytest.approx(133.1e9, rel=0.01)
    assert sum(row["compilation_ps"] for row in rows[1:]) == 0
