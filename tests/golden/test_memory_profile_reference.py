"""Every memory of every profile against XProf's `memory_profile`; several hosts against its answer
for each host's file alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from outpace.model import Table
from outpace.tools.memory_profile.breakdown import BEFORE_PEAK_STEP, STACK
from outpace.tools.memory_profile.memory_log import MemoryLog, build_memory_logs
from tests.support import PROFILES, opened, reference

WITHOUT = "jax_h100_"  # no answer of XProf's is kept
# JAX on ROCm: XProf orders events by their offset within their line, though lines begin at
# different times.
ALL_LIVE = ("jax_rocm_conv_8gpu", "jax_rocm_gemm")
UNORDERED = (*ALL_LIVE, "jax_rocm_attention", "jax_rocm_te_attention")
# XProf finds no step in these; its step ids count calls of functions, several in a step, or none.
OTHER_STEPS = ("keras_fit_multi_step", "mirrored", "predict_inference", *UNORDERED)
# Equal peaks in several steps: XProf takes the time of an earlier one and the step of the last one,
# and so lists no allocation at all.
BEFORE_STEPS = (
    "tpu_v6e_inference-tpu-0",
    "tpu_v6e_inference-tpu-3",
)  # most of what is live at the peak was allocated before the first run of the program
TIED = ("retracing-vm-mklcpu", "multi_worker_strategy-worker0-mklcpu")
# XProf keeps the peak over the lifetime that it read last, thread by thread; it is less than the
# peak in the capture here.
READ_LATE = ("tf_gpu_v100_bert-gpu_worker-GPU_4_bfc", "derived_v100_bert-gpu_worker-GPU_4_bfc")
COLUMNS = ("op", "allocated_bytes", "requested_bytes", "occurrences", "region", "data_type", "shape")
SPECIAL = {  # op and region of rows that stand for no allocation: XProf's names, and ours, which say no more than is known
    ("unused preallocated device memory", "persist/dynamic"): (BEFORE_PEAK_STEP, ""),
    ("stack", "stack"): (STACK, "stack"),
}


@dataclass(frozen=True)
class Case:
    """One memory of one host: XProf's answer, and ours."""

    name: str
    profile: str
    theirs: dict[str, Any]
    log: MemoryLog

    def rows(self, name: str) -> Table:
        table = opened(self.profile).page("memory_profile").table(name)
        return table.take((table["host"] == self.log.host) & (table["memory"] == self.log.memory))

    @property
    def summary(self) -> dict[str, Any]:
        (row,) = self.rows("memories").records()
        return row

    @property
    def peak(self) -> dict[str, Any]:
        return dict(self.theirs["profileSummary"]["peakStats"])

    def offsets(self, rows: np.ndarray) -> list[int]:
        """Times as XProf counts them: from the begin of the line that an event stands on."""
        trace = next(t.trace for t in opened(self.profile).run.hosts if t.host == self.log.host)
        begin = trace.lines.timestamp_ns[trace.line[self.log.rows[rows]]] - trace.origin_ns
        return [int(offset) for offset in self.log.time[rows] - begin * 1000]


def answers(profile: str) -> dict[str, Any]:
    """XProf's answer by host."""
    run = opened(profile).run
    if len(run.hosts) == 1:
        return {run.hosts[0].host: reference(profile, "memory_profile.xprof")}
    return {t.host: reference(profile, f"memory_profile_{t.host}.xprof") for t in run.hosts}


@lru_cache(maxsize=1)
def cases() -> dict[str, Case]:
    found = {}
    for profile in (name for name in PROFILES if not name.startswith(WITHOUT)):
        logs = {(log.host, log.memory): log for log in build_memory_logs(opened(profile).run)[0]}
        theirs = {(h, m): v for h, a in answers(profile).items() if a for m, v in a["memoryProfilePerAllocator"].items()}
        assert set(logs) == set(theirs)
        for (host, memory), log in logs.items():
            name = f"{profile}-{host}-{memory}"
            found[name] = Case(name, profile, theirs[host, memory], log)
    return found


@pytest.fixture(params=cases())
def case(request: pytest.FixtureRequest) -> Case:
    return cases()[request.param]


def listed(case: Case) -> list[tuple[Any, ...]]:
    """XProf's breakdown table."""
    rows = []
    for row in case.theirs["activeAllocations"]:
        special = int(row["specialIndex"])
        meta = (
            case.theirs["specialAllocations"][special]
            if special >= 0
            else case.theirs["memoryProfileSnapshots"][int(row["snapshotIndex"])]["activityMetadata"]
        )
        sizes = (int(meta["allocationBytes"]), int(meta["requestedBytes"]), int(row["numOccurrences"]))
        op, region, shape = meta["tfOpName"], meta["regionType"], meta["tensorShape"]
        if special >= 0:
            (op, region), shape = SPECIAL[op, region], ""
        rows.append((op, *sizes, region, said(meta["dataType"]), shape))
    return rows


def said(data_type: str) -> str:
    """A type as XProf prints it; where TensorFlow does not say, it has a word for that, and we have
    none.
    """
    return "" if data_type == "INVALID" else data_type


def ours(table: Table) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c].tolist() for c in COLUMNS), strict=True))


def test_there_are_enough_of_them() -> None:
    assert len(cases()) == 51
    assert len({c.profile for c in cases().values()}) == 29


def test_counts(case: Case) -> None:
    seen = Counter(s["activityMetadata"]["memoryActivity"] for s in case.theirs["sampledTimelineSnapshots"])
    assert (case.summary["allocations"], case.summary["deallocations"]) == (seen["ALLOCATION"], seen["DEALLOCATION"])


def test_peak(case: Case) -> None:
    summary, peak = case.summary, case.peak
    assert summary["peak_bytes"] == int(peak["peakBytesInUse"])
    assert summary["heap_bytes"] == int(peak["heapAllocatedBytes"])
    assert summary["stack_bytes"] == int(peak["stackReservedBytes"])
    assert summary["free_bytes"] == int(peak["freeMemoryBytes"])
    assert summary["capacity_bytes"] == int(case.theirs["profileSummary"]["memoryCapacity"])
    fragmentation = float(peak["fragmentation"])
    assert summary["fragmentation"] == (None if np.isnan(fragmentation) else pytest.approx(fragmentation, rel=1e-5))


def test_time_of_the_peak(case: Case) -> None:
    """XProf takes whichever of equal peaks it read last, thread by thread; we take the latest."""
    theirs = int(case.theirs["profileSummary"]["peakStatsTimePs"])
    highest = np.flatnonzero(case.log.bytes_in_use == case.log.bytes_in_use.max())
    assert theirs in case.offsets(highest)
    if case.name not in TIED:
        assert case.offsets(np.array([case.log.peak_index])) == [theirs]


def test_peak_over_the_lifetime(case: Case) -> None:
    """It only grows while a program runs, so the highest is right."""
    theirs = int(case.theirs["profileSummary"]["peakBytesUsageLifetime"])
    if case.name in READ_LATE:
        assert theirs < case.summary["peak_bytes"] <= case.summary["peak_heap_bytes"]
    else:
        assert case.summary["peak_heap_bytes"] == theirs


def test_timeline(case: Case) -> None:
    """Every event, with what its deallocation takes over from the allocation. No memory has more
    events than XProf shows.
    """
    table, theirs = case.rows("timeline"), case.theirs["sampledTimelineSnapshots"]
    offsets = case.offsets(np.arange(len(case.log)))
    expected, found = [], []
    for snapshot in theirs:
        state, meta = snapshot["aggregationStats"], snapshot["activityMetadata"]
        sign = 1 if meta["memoryActivity"] == "ALLOCATION" else -1
        described = (meta["tfOpName"], meta["regionType"], meta["tensorShape"])
        size = sign * int(meta["allocationBytes"])
        expected.append(
            (int(snapshot["timeOffsetPs"]), int(state["heapAllocatedBytes"]), sign, size, described, said(meta["dataType"]))
        )
    for offset, row in zip(offsets, table.records(), strict=True):
        sign = 1 if row["event"] == "allocation" else -1
        described = (row["op"], row["region"], row["shape"])
        found.append((offset, row["heap_bytes"], sign, int(row["allocated_bytes"] or 0), described, row["data_type"]))
    if case.profile in UNORDERED:
        expected, found = sorted(expected), sorted(found)
    if case.profile == "tpu_v6e_inference":  # deallocations there say neither size nor type: XProf shows 0
        expected, found = ([r for r in rows if r[2] > 0] for rows in (expected, found))
    assert found == expected


def test_breakdown(case: Case) -> None:
    if case.profile not in OTHER_STEPS and case.name not in TIED and case.name not in BEFORE_STEPS:
        assert ours(case.rows("breakdown")) == listed(case)


@pytest.mark.parametrize("name", BEFORE_STEPS)
def test_what_was_allocated_before_the_first_step_belongs_to_none(name: str) -> None:
    """XProf has no steps there and lists all that is live; our first step begins with the first run
    of the program.
    """
    case = cases()[name]
    live = Counter[tuple[Any, ...]]()
    for row in ours(case.rows("breakdown")) + ours(case.rows("earlier")):
        live[row[:3]] += row[3] if row[0] != BEFORE_PEAK_STEP else 0
    assert +live == Counter({row[:3]: row[3] for row in listed(case)})


def test_breakdown_adds_up_to_the_heap_and_the_stack(case: Case) -> None:
    assert case.rows("breakdown")["total_bytes"].sum() == case.summary["peak_bytes"]


def test_steps_explain_every_breakdown_that_differs() -> None:
    """Where XProf has no steps it lists the memory of one function call, which is among what we
    list for the step, or before it.
    """
    compared = 0
    for case in cases().values():
        if case.profile in ("keras_fit_multi_step", "mirrored"):
            mine = Counter(row[0] for row in ours(case.rows("breakdown")) + ours(case.rows("earlier")))
            assert {row[0] for row in listed(case)} <= set(mine)
            assert len(ours(case.rows("breakdown"))) > len(listed(case))
            compared += 1
    assert compared == 2


def test_without_steps_the_rows_are_all_that_is_live() -> None:
    """JAX without marks: one step to XProf, several to us.

    On seven of the ten memories XProf's order of events puts the free of one small allocation
    before the peak.
    """
    equal = 0
    for case in cases().values():
        if case.profile in ALL_LIVE:
            live = Counter[tuple[Any, ...]]()
            for row in ours(case.rows("breakdown")) + ours(case.rows("earlier")):
                live[(*row[:3], *row[4:])] += row[3] if row[0] != BEFORE_PEAK_STEP else 0
            theirs = Counter({(*row[:3], *row[4:]): row[3] for row in listed(case) if row[0] != BEFORE_PEAK_STEP})
            assert not theirs - live
            assert [row[1] for row in (live - theirs).elements()] in ([], [655360])
            equal += +live == theirs
    assert equal == 3


@pytest.mark.parametrize("name", TIED)
def test_of_equal_peaks_the_latest_is_shown_with_its_own_step(name: str) -> None:
    case = cases()[name]
    assert [row[0] for row in listed(case)] == [BEFORE_PEAK_STEP]
    assert len(case.rows("breakdown")) > 1
    assert case.summary["step_bytes"] > 0


@pytest.mark.parametrize("profile", ["idle_empty", "jax_loop", "jax_loop_unmarked"])
def test_no_memory_event(profile: str) -> None:
    page = opened(profile).page("memory_profile")
    assert page.unavailable is not None
    assert "no memory event" in page.unavailable.reason


def test_no_real_profile_is_blamed() -> None:
    for profile in PROFILES:
        assert not opened(profile).page("memory_profile").findings, profile


def test_a_list_that_is_cleared_is_no_leak() -> None:
    """The script of `memory_heavy` appends a tensor of 4 MiB per step to a list, and clears it in
    the eighth.
    """
    page = opened("memory_heavy").page("memory_profile")
    ends = page.table("step_ends")["in_use_bytes"] / 2**20
    assert ends.tolist() == [4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16]
    (row,) = page.table("growth").records()
    assert row["rising"] > 0.9
    assert not row["leak"]
    (left,) = page.table("unfreed").records()  # what steps 9 to 11 appended; the last step is not judged
    assert (left["op"], left["shape"], left["occurrences"], left["total_bytes"]) == ("AddV2", "[1024,1024]", 3, 12 * 2**20)
