"""Columns of the kernel tables."""

from outpace.metrics.call_tree import fields
from outpace.model import Field, Unit

_HOST = Field("host", Unit.TEXT, "host that recorded it")
_DEVICE = Field("device", Unit.TEXT, "device, as its plane is called")

KERNELS = (
    Field("rank", Unit.COUNT, "place by total time among all kernel-op pairs"),
    Field("kernel", Unit.TEXT, "name of the kernel"),
    Field("function", Unit.TEXT, "the kernel's own name, without namespaces, types and arguments"),
    Field("registers", Unit.COUNT, "registers per thread; missing where the profiler does not record them (AMD)"),
    Field("shared_bytes", Unit.BYTES, "shared memory per block, static and dynamic (AMD: LDS)", "Shared"),
    Field(
        "static_bytes", Unit.BYTES, "static shared memory per block; missing where only the sum is recorded", "Static shared"
    ),
    Field(
        "dynamic_bytes", Unit.BYTES, "dynamic shared memory per block; missing where only the sum is recorded", "Dynamic shared"
    ),
    Field("block", Unit.TEXT, "threads per block, x,y,z"),
    Field("grid", Unit.TEXT, "blocks per grid, x,y,z"),
    Field("occupancy", Unit.FRACTION, "theoretical occupancy: resident warps of a multiprocessor of the most that it can hold"),
    Field(
        "occupancy_source",
        Unit.TEXT,
        "recorded by the profiler, computed from registers, shared memory, block and device, or unknown",
        "Occupancy by",
    ),
    Field("eligible", Unit.BOOL, "whether the op could use tensor cores (AMD: matrix cores), by its name", "Op eligible"),
    Field("tensor_cores", Unit.BOOL, "whether the kernel has tensor-core instructions, by its name", "Tensor cores"),
    Field("op", Unit.TEXT, "op that launched the kernel; empty where the profile names none"),
    Field(
        "hlo_op",
        Unit.TEXT,
        "instruction of the compiled program, the first by time if there are several; empty outside XLA",
        "HLO op",
    ),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("total_ps", Unit.PS, "time on the device, all executions"),
    Field("mean_ps", Unit.PS, "time per execution"),
    Field("min_ps", Unit.PS, "shortest execution"),
    Field("max_ps", Unit.PS, "longest execution"),
    Field("kernel_fraction", Unit.FRACTION, "share of the time of all kernels of all devices", "Of kernels"),
    Field(
        "mean_latency_ps",
        Unit.PS,
        "mean time from the start of the host's launch call to the start on the device; missing without a known launch",
        "Mean latency",
    ),
    _DEVICE,
    _HOST,
)

COPIES = (
    Field("kind", Unit.TEXT, "HToD, DToH, DToD, PToP (between devices), HToH, memset, or allocation"),
    Field("source", Unit.TEXT, "kind of memory read; empty where not recorded"),
    Field("destination", Unit.TEXT, "kind of memory written; empty where not recorded"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("bytes", Unit.BYTES, "bytes moved, set or allocated", "Size"),
    Field("total_ps", Unit.PS, "time on the device"),
    Field("bandwidth", Unit.BYTES_PER_S, "bytes divided by time, missing where either is 0"),
    Field(
        "memory_fraction",
        Unit.FRACTION,
        "within one device: bytes read and written as a share of its memory bandwidth; missing elsewhere",
        "Of memory bandwidth",
    ),
    _DEVICE,
    _HOST,
)

LAUNCHES = (
    Field("kernels", Unit.COUNT, "kernels that ran"),
    Field("matched", Unit.COUNT, "kernels whose launch call on the host is known, by correlation id"),
    Field("unmatched", Unit.COUNT, "kernels without a known launch"),
    Field("median_latency_ps", Unit.PS, "time from the start of the launch call to the start on the device, median"),
    Field("p95_latency_ps", Unit.PS, "the same, 95th percentile", "p95 latency"),
    Field("max_latency_ps", Unit.PS, "the same, longest"),
    Field("latency_ps", Unit.PS, "the same, sum over all kernels", "Sum of latency"),
    Field("queued_ps", Unit.PS, "part of that sum in which the kernel's stream was busy with earlier work", "Queued"),
    _DEVICE,
    _HOST,
)

DEVICES = (
    Field("kernels", Unit.COUNT, "kernels that ran"),
    Field("kernel_ps", Unit.PS, "sum of the kernels' times; streams add up", "Kernel time"),
    Field("mean_kernel_ps", Unit.PS, "time per kernel"),
    Field("copy_ps", Unit.PS, "sum of the times of copies and memory sets", "Copy time"),
    Field("span_ps", Unit.PS, "from the device's first to its last event"),
    Field("busy_ps", Unit.PS, "of the span, some stream was busy"),
    Field("idle_ps", Unit.PS, "of the span, no stream was busy"),
    Field("idle_fraction", Unit.FRACTION, "idle time as a share of the span", "Of span"),
    Field(
        "unlaunched_ps",
        Unit.PS,
        "of the idle time, before the host began to launch the work that ended it; missing if no launch is known",
        "Not launched yet",
    ),
    Field(
        "outside_ps", Unit.PS, "of the idle time, ended by work of no step; missing if the host has no steps", "Outside steps"
    ),
    _DEVICE,
    _HOST,
)

GAPS = (
    Field("start_ps", Unit.PS, "start, from the run's first event"),
    Field("length_ps", Unit.PS, "how long no stream of the device was busy"),
    Field("step", Unit.COUNT, "number of the step that the work after the gap belongs to; missing outside steps"),
    Field("next", Unit.TEXT, "kernel (its own name) or copy that ended the gap"),
    Field(
        "host_activity",
        Unit.TEXT,
        "host event that covers most of the gap, the innermost: on the thread that launched what ended it, else on any",
    ),
    Field("thread", Unit.TEXT, "thread of that event"),
    _DEVICE,
    _HOST,
)

CAUSES = (
    Field("host_activity", Unit.TEXT, "what the host did in a gap, see the gaps"),
    Field("gaps", Unit.COUNT, "gaps with this activity"),
    Field("idle_ps", Unit.PS, "their lengths together"),
    Field("idle_fraction", Unit.FRACTION, "share of the device's idle time", "Of idle"),
    _DEVICE,
    _HOST,
)

TREE = fields(
    "name scope, op, or kernel (its own name)",
    "time of the kernels in it, on all devices",
    "time of the kernel; 0 of a scope or an op",
    "executions of these kernels",
)

SLICES = (
    Field(
        "by",
        Unit.TEXT,
        "what is summed up: kernels of one name, of one kind of layer, or with one set of types",
        "Kernel time by",
    ),
    Field("kernel", Unit.TEXT, "kernel or layer; 'all others' sums up the rest"),
    Field("total_ps", Unit.PS, "time on the device, all executions"),
)
