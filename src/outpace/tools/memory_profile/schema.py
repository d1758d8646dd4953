"""Columns of the memory tables."""

from outpace.model import Field, Unit

_HOST = Field("host", Unit.TEXT, "host that recorded the memory events")
_MEMORY = Field(
    "memory", Unit.TEXT, "name of the allocator (GPU_0_bfc, gpu_host_bfc, mklcpu), or number of the device on its host (TPU)"
)
_OP = Field("op", Unit.TEXT, "op that asked for the memory; empty where TensorFlow does not say")
_REGION = Field(
    "region", Unit.TEXT, "temp: temporaries; output: activations and gradients; persist/dynamic: weights and constants"
)
_TYPE = Field("data_type", Unit.TEXT, "type of the tensor's elements; INVALID where TensorFlow does not say", "Type")
_SHAPE = Field("shape", Unit.TEXT, "shape of the tensor")

MEMORIES = (
    _HOST,
    _MEMORY,
    Field("allocations", Unit.COUNT, "allocations in the capture"),
    Field("deallocations", Unit.COUNT, "deallocations in the capture"),
    Field(
        "capacity_bytes",
        Unit.BYTES,
        "stack, heap and free memory at the peak; missing where the allocator knows no limit",
        "Capacity",
    ),
    Field(
        "peak_heap_bytes", Unit.BYTES, "most memory in use since the program started, as its allocator reports it", "Peak heap"
    ),
    Field("peak_bytes", Unit.BYTES, "most memory in use in the capture: stack and heap", "Peak"),
    Field("peak_share", Unit.FRACTION, "peak in the capture as a share of the capacity", "Of capacity"),
    Field(
        "peak_time_ps", Unit.PS, "time of the peak, counted from the host's first event (the latest of equal peaks)", "Peak at"
    ),
    Field("peak_step", Unit.COUNT, "number of the step at the peak; missing without steps"),
    Field("stack_bytes", Unit.BYTES, "memory reserved on the stack at the peak", "Stack"),
    Field("heap_bytes", Unit.BYTES, "memory allocated on the heap at the peak", "Heap"),
    Field("free_bytes", Unit.BYTES, "free memory at the peak", "Free"),
    Field("fragmentation", Unit.FRACTION, "1 - largest free chunk / free memory that the allocator holds, at the peak"),
    Field("headroom_bytes", Unit.BYTES, "capacity less the peak", "Headroom"),
    Field("step_bytes", Unit.BYTES, "of the heap at the peak: allocated in the peak's step", "This step"),
    Field(
        "earlier_bytes",
        Unit.BYTES,
        "of the heap at the peak: allocated in the capture, before the peak's step",
        "Earlier steps",
    ),
    Field("before_bytes", Unit.BYTES, "of the heap at the peak: held since before the capture", "Before capture"),
    Field("freed_before_bytes", Unit.BYTES, "freed in the capture though allocated before it", "Freed of before"),
    Field("unfreed", Unit.COUNT, "allocations of the capture that were not freed in it"),
    Field("missing", Unit.COUNT, "allocations at an address that was still taken: a deallocation was not recorded"),
)

TIMELINE = (
    _HOST,
    _MEMORY,
    Field("time_ps", Unit.PS, "time of the event, counted from the host's first event", "Time"),
    Field("event", Unit.TEXT, "allocation or deallocation"),
    Field("requested_bytes", Unit.BYTES, "memory asked for; negative for a deallocation", "Requested"),
    Field("allocated_bytes", Unit.BYTES, "memory allocated; negative for a deallocation", "Allocated"),
    _OP,
    Field("step", Unit.COUNT, "number of the step that caused the event; missing for none"),
    _REGION,
    _TYPE,
    _SHAPE,
    Field("in_use_bytes", Unit.BYTES, "stack and heap after the event", "In use"),
    Field("stack_bytes", Unit.BYTES, "memory reserved on the stack after the event", "Stack"),
    Field("heap_bytes", Unit.BYTES, "memory allocated on the heap after the event", "Heap"),
    Field("free_bytes", Unit.BYTES, "free memory after the event", "Free"),
    Field("fragmentation", Unit.FRACTION, "1 - largest free chunk / free memory that the allocator holds, after the event"),
)

BREAKDOWN = (
    _HOST,
    _MEMORY,
    _OP,
    Field("allocated_bytes", Unit.BYTES, "memory of one of the allocations", "Allocated"),
    Field("requested_bytes", Unit.BYTES, "memory that was asked for by one of them", "Requested"),
    Field("occurrences", Unit.COUNT, "equal allocations that are live at the peak", "Count"),
    _REGION,
    _TYPE,
    _SHAPE,
    Field("total_bytes", Unit.BYTES, "memory of all of them", "Total"),
    Field("share", Unit.FRACTION, "memory of all of them as a share of what is in use at the peak", "Of peak"),
)

GROWTH = (
    _HOST,
    _MEMORY,
    Field("steps", Unit.COUNT, "whole steps that were looked at"),
    Field("rising", Unit.FRACTION, "share of the steps that end with more memory in use than the step before"),
    Field("first_bytes", Unit.BYTES, "in use at the end of the first of them", "First"),
    Field("last_bytes", Unit.BYTES, "in use at the end of the last of them", "Last"),
    Field("grown_bytes", Unit.BYTES, "last less first", "Grown"),
    Field("per_step_bytes", Unit.BYTES, "slope of a straight line through the memory in use at step ends", "Per step"),
    Field("leak", Unit.BOOL, "whether it rises in most steps, is not given back, and sums up to something material"),
)

STEP_ENDS = (
    _HOST,
    _MEMORY,
    Field("step", Unit.COUNT, "number of the step"),
    Field("in_use_bytes", Unit.BYTES, "stack and heap when the step ends", "In use at end"),
    Field("low_bytes", Unit.BYTES, "least memory in use since the end of the step before", "Low"),
    Field("high_bytes", Unit.BYTES, "most memory in use since the end of the step before", "High"),
)

UNFREED = (
    _HOST,
    _MEMORY,
    _OP,
    _REGION,
    _TYPE,
    _SHAPE,
    Field(
        "occurrences",
        Unit.COUNT,
        "allocations that were made in a whole step before the last one, and not freed in the capture",
        "Count",
    ),
    Field("total_bytes", Unit.BYTES, "memory of all of them", "Total"),
    Field("steps", Unit.COUNT, "steps that left at least one of them behind"),
    Field("per_step_bytes", Unit.BYTES, "memory left behind per whole step before the last one", "Per step"),
)

HEADROOM = (
    _HOST,
    _MEMORY,
    Field("capacity_bytes", Unit.BYTES, "capacity of the memory", "Capacity"),
    Field("peak_bytes", Unit.BYTES, "most memory in use in the capture", "Peak"),
    Field("scaling_bytes", Unit.BYTES, "live at the peak as temp or output: assumed to scale with the batch size", "Scales"),
    Field("unknown_bytes", Unit.BYTES, "live at the peak without a region type: scales or not", "Unknown"),
    Field("fixed_bytes", Unit.BYTES, "the rest of the peak, assumed not to scale with the batch size", "Fixed"),
    Field(
        "factor_low",
        Unit.RATIO,
        "how many times the batch size should fit, if what is unknown scales too",
        "Batch size × at least",
    ),
    Field(
        "factor_high",
        Unit.RATIO,
        "how many times the batch size should fit, if what is unknown does not scale",
        "Batch size × at most",
    ),
    Field("estimate", Unit.TEXT, "how many times the batch size should fit, or why nothing can be said", "Batch size"),
)
