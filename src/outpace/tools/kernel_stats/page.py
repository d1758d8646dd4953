"""The page of GPU kernels."""

from __future__ import annotations

from outpace.metrics.machine.device import device_facts
from outpace.metrics.model.hlo_lines import one_program
from outpace.metrics.model.kernel_names import short
from outpace.metrics.program.budget import step_share
from outpace.metrics.program.program import program
from outpace.model import Category, Chart, ChartKind, Figure, Figures, Page, Rows, Table, Unavailable, Unit, filled
from outpace.model.units import counted
from outpace.timeline import Run
from outpace.tools.kernel_stats import TOOL
from outpace.tools.kernel_stats import findings as rules
from outpace.tools.kernel_stats.collect import devices
from outpace.tools.kernel_stats.compute import FUNCTION, kernel_slices, kernel_tree, kernels, tuning
from outpace.tools.kernel_stats.copies import copies
from outpace.tools.kernel_stats.idle import causes_table, gaps_table, idle
from outpace.tools.kernel_stats.idle_parts import devices_table
from outpace.tools.kernel_stats.launches import launches

_KERNELS = ("total_ps", "kernel_fraction", "occurrences", "function", "op", "tensor_cores", "occupancy", "mean_ps")
_LAUNCHES = ("device", "kernels", "unmatched", "median_latency_ps", "p95_latency_ps", "mean_latency_ps", "mean_queued_ps")
_BY = ("function", "op", "device", "tensor_cores")
_TUNING = (
    "XLA times kernels that it may choose from while it compiles, and compares their results: no work of the training, and in no table above. "
    "jax.config.update('jax_compilation_cache_dir', ...) keeps its choices."
)
_NO_DEVICE = Unavailable(
    "the profile holds no events of a GPU",
    "Train on a GPU that TensorFlow lists (tf.config.list_physical_devices('GPU')) or JAX (jax.devices()), and capture again. If it was "
    "there, the profiler could not reach CUPTI: put libcupti on the library path, or allow it (NVreg_RestrictProfilingToAdminUsers=0).",
)
_NO_KERNEL = Unavailable(
    "the profile has device events, but none of them is a GPU kernel",
    "For a TPU the op statistics say where its time goes. On a GPU, capture while training runs, with device tracing on "
    "(device_tracer_level=1, the default).",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    found = [device for timeline in run.hosts for device in devices(timeline)]
    table = kernels(found)
    if len(table) == 0:
        return TOOL.page(unavailable=_NO_KERNEL if run.has_device else _NO_DEVICE)
    gaps = [idle(device) for device in found if len(device.kernels)]
    by_device, causes, moved = devices_table(gaps), causes_table(gaps), copies(found)
    part, tree = kernel_slices(table), kernel_tree(table)
    where = ("device",) if len(by_device) > 1 else ()
    sections = (
        _figures(table, by_device),
        Chart(part.title, ChartKind.PIE, part, "kernel", ("total_ps",), then=("by",)),
        Chart(tree.title, ChartKind.ICICLE, tree, "id", ("parent", "name", "total_ps")),
        Rows(table, ("rank", *where, *_KERNELS), limit=20, pick=("device", "host"), by=_BY),
        Rows(
            by_device, ("device", "kernels", "kernel_ps", "mean_kernel_ps", "idle_ps", "idle_fraction", "waited_ps", "late_ps")
        ),
        Rows(causes, ("idle_ps", "idle_fraction", "gaps", "device", "host_activity"), pick=("device",)),
        Rows(gaps_table(gaps), ("start_ps", "length_ps", "step", "device", "next", "host_activity"), pick=("device",)),
        Rows(launches(found), _LAUNCHES),
        *filled(Rows(tuning(found), ("total_ps", "occurrences", "kernel", "device"), limit=10, remark=_TUNING)),
        *filled(Rows(moved, ("kind", "source", "destination", "occurrences", "bytes", "total_ps", "bandwidth", "device"))),
    )
    bits = step_share(run, Category.DEVICE_COMPUTE_32), step_share(run, Category.DEVICE_COMPUTE_16)
    advice = tuple(rules.find(table, by_device, moved, program(run), device_facts(run), bits, one_program(run)))
    return TOOL.page(headline=_headline(part, by_device), sections=sections, findings=advice)


def _figures(table: Table, by_device: Table) -> Figures:
    total = table["total_ps"].astype(float)
    able, used = table["eligible"].astype(bool), table["tensor_cores"].astype(bool)
    span, idle_time = by_device["span_ps"].sum(), by_device["idle_ps"].sum()
    return Figures(
        "Kernels",
        (
            Figure("Kernels run", int(table["occurrences"].sum()), Unit.COUNT, f"{len(table):,} kernel-op pairs"),
            Figure("Kernel time", int(total.sum()), Unit.PS, f"on {counted(len(by_device), 'device')}"),
            Figure("In kernels with tensor cores", float(total[used].sum() / total.sum()), Unit.FRACTION, "of kernel time"),
            Figure("In ops that could use them", float(total[able].sum() / total.sum()), Unit.FRACTION, "of kernel time"),
            Figure("Idle", float(idle_time / span) if span else 0.0, Unit.FRACTION, "of first to last event"),
        ),
    )


def _headline(largest: Table, by_device: Table) -> str:
    largest = largest.take(largest["by"] == FUNCTION)
    top = next(largest.records())
    span, idle_time = by_device["span_ps"].sum(), by_device["idle_ps"].sum()
    share = top["total_ps"] / largest["total_ps"].sum()
    return f"The GPU is idle for {idle_time / span:.0%} of its time; kernel {short(top['kernel'])} takes the most kernel time ({share:.0%})."
