# SPDX-License-Identifier: Apache-2.0
"""The page about GPU kernels."""

from __future__ import annotations

from outpace.metrics.facts.device_specs import device_specs
from outpace.metrics.facts.hlo_instructions import has_one_module
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.kernel_names import short_kernel_name
from outpace.metrics.savings.budget import category_share
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    IcicleColumns,
    Page,
    Table,
    TableView,
    Unit,
    select_nonempty,
)
from outpace.model.units import format_count
from outpace.timeline import Run
from outpace.tools.kernel_stats import TOOL
from outpace.tools.kernel_stats import findings as rules
from outpace.tools.kernel_stats.compute import (
    BY_FUNCTION,
    compute_autotuning,
    compute_kernel_shares,
    compute_kernel_tree,
    compute_kernels,
)
from outpace.tools.kernel_stats.copies import compute_copies
from outpace.tools.kernel_stats.device import find_devices
from outpace.tools.kernel_stats.idle_breakdown import compute_devices
from outpace.tools.kernel_stats.idle_gaps import compute_idle_causes, compute_idle_gaps, find_idle_gaps
from outpace.tools.kernel_stats.launch_gaps import compute_launch_gaps
from outpace.tools.kernel_stats.launches import compute_launches

_KERNELS = ("total_ps", "kernel_fraction", "occurrences", "function", "op", "tensor_cores", "occupancy", "mean_ps")
_LAUNCHES = ("device", "kernels", "unmatched", "median_latency_ps", "p95_latency_ps", "mean_latency_ps", "mean_queued_ps")
_BY = ("function", "op", "device", "tensor_cores")
_TUNING = (
    "XLA times kernels that it may choose from while it compiles, and compares their results: no work of the training, and in no table above. "
    "jax.config.update('jax_compilation_cache_dir', ...) keeps its choices."
)


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    devices = [device for timeline in run.hosts for device in find_devices(timeline)]
    table = compute_kernels(devices)
    gaps = [find_idle_gaps(device) for device in devices if len(device.kernel_rows)]
    by_device, causes, moved = compute_devices(run, gaps), compute_idle_causes(gaps), compute_copies(devices)
    launch_gaps = compute_launch_gaps(run, gaps)
    part, tree = compute_kernel_shares(table), compute_kernel_tree(table)
    where = ("device",) if len(by_device) > 1 else ()
    sections = (
        _figures(table, by_device),
        Chart(part.title, ChartKind.PIE, part, "kernel", ("total_ps",), then=("by",)),
        Chart(tree.title, ChartKind.ICICLE, tree, "id", IcicleColumns("parent", "name", "total_ps").series),
        TableView(table, ("rank", *where, *_KERNELS), limit=20, pick=("device", "host"), by=_BY),
        TableView(
            by_device, ("device", "kernels", "kernel_ps", "mean_kernel_ps", "idle_ps", "idle_fraction", "waited_ps", "late_ps")
        ),
        TableView(launch_gaps, ("place", "late", "line", "gaps", "idle_ps", "idle_fraction", "device"), pick=("device",)),
        TableView(causes, ("idle_ps", "idle_fraction", "gaps", "device", "host_activity"), pick=("device",)),
        TableView(
            compute_idle_gaps(gaps), ("start_ps", "length_ps", "step", "device", "next", "host_activity"), pick=("device",)
        ),
        TableView(compute_launches(devices), _LAUNCHES),
        *select_nonempty(
            TableView(compute_autotuning(devices), ("total_ps", "occurrences", "kernel", "device"), limit=10, remark=_TUNING)
        ),
        *select_nonempty(
            TableView(moved, ("kind", "source", "destination", "occurrences", "bytes", "total_ps", "bandwidth", "device"))
        ),
    )
    bits = category_share(run, Category.DEVICE_COMPUTE_32), category_share(run, Category.DEVICE_COMPUTE_16)
    findings = rules.iter_findings(table, by_device, moved, find_workload(run), device_specs(run), bits, has_one_module(run))
    return TOOL.page(_headline(part, by_device), sections, findings)


def _figures(table: Table, by_device: Table) -> Figures:
    """Return the totals of kernels, tensor cores and idle time."""
    total = table["total_ps"].astype(float)
    able, used = table["eligible"].astype(bool), table["tensor_cores"].astype(bool)
    span, idle_time = by_device["span_ps"].sum(), by_device["idle_ps"].sum()
    return Figures(
        "Kernels",
        (
            Figure("Kernels run", int(table["occurrences"].sum()), Unit.COUNT, f"{len(table):,} kernel-op pairs"),
            Figure("Kernel time", int(total.sum()), Unit.PS, f"on {format_count(len(by_device), 'device')}"),
            Figure("In kernels with tensor cores", float(total[used].sum() / total.sum()), Unit.FRACTION, "of kernel time"),
            Figure("In ops that could use them", float(total[able].sum() / total.sum()), Unit.FRACTION, "of kernel time"),
            Figure("Idle", float(idle_time / span) if span else 0.0, Unit.FRACTION, "of first to last event"),
        ),
    )


def _headline(largest: Table, by_device: Table) -> str:
    """Return the sentence at the top of the page: the idle share and the longest kernel."""
    largest = largest.take(largest["by"] == BY_FUNCTION)
    top = next(largest.records())
    span, idle_time = by_device["span_ps"].sum(), by_device["idle_ps"].sum()
    share = top["total_ps"] / largest["total_ps"].sum()
    return (
        f"The GPU is idle for {idle_time / span:.0%} of its time; kernel {short_kernel_name(top['kernel'])} takes the most "
        f"kernel time ({share:.0%})."
    )
