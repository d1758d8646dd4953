"""The names by which everything above speaks of what a profile holds: planes, lines and stats.

They are those of XSpace, as TensorFlow and JAX write them. A source of another format gives its
events under these names.
"""

from __future__ import annotations

HOST_PLANE = "/host:CPU"
"""Plane of a host's threads."""

HOST_PREFIX = "/host:"
"""What names of planes of a host begin with."""

METADATA_PLANE = "/host:metadata"
"""Plane of compiled programs and versions."""

DEVICE_PREFIX = "/device:"
"""What names of planes of accelerators begin with."""

GPU_PREFIX = "/device:GPU"
"""What those of GPUs begin with."""

ENVIRONMENT_PLANE = "Task Environment"
"""Plane that says when the capture began."""

STEP_LINE = "Steps"
"""A device's line with one event per step."""

DERIVED_LINES = frozenset(
    (
        STEP_LINE,
        "TensorFlow Ops",
        "TensorFlow Name Scope",
        "Framework Ops",
        "Framework Name Scope",
        "Source code",
        "Launch Stats",
    )
)
"""Lines of a device that profilers make of its other lines."""

# Steps, and what belongs to them
IS_ROOT = "_r"  # marks a step's root event (also on tf.data's function runs)
EPOCH_NUM = "epoch_num"  # of the marks of Keras 2
STEP_NUM = "step_num"  # number of the step that a mark opens
GROUP_ID = "group_id"  # step of an event, in files that were saved after grouping
PRODUCER_TYPE = "_pt"  # type of the context that an event produces
PRODUCER_ID = "_p"  # and its id
CONSUMER_TYPE = "_ct"  # type of the context that an event consumes
CONSUMER_ID = "_c"  # and its id
IS_ASYNC = "_a"  # on events that stand outside of their thread's nesting
IPL_STAGE = "_ipl_stage_name"  # stage of an input pipeline other than tf.data

# Executors and programs
RUN_ID = "run_id"  # run of a compiled program
ITER_NUM = "iter_num"  # iteration of an executor's run
CORRELATION_ID = "correlation_id"  # joins a launch with what it launched
HLO_OP = "hlo_op"  # instruction of a compiled program
HLO_MODULE = "hlo_module"  # name of that program
DEVICE_ORDINAL = "device_ordinal"  # which of a host's devices ran it, a CPU's devices included
PROGRAM_ID = "program_id"  # number of that program
HLO_CATEGORY = "hlo_category"  # kind of an instruction, on TPU
SHAPE_WITH_LAYOUT = "shape_with_layout"  # shape of its result
SOURCE = "source"  # line of the user's source
FLOPS = "flops"  # floating point operations of an instruction
BYTES_ACCESSED = "bytes_accessed"  # bytes that it reads and writes
HLO_PROTO = "Hlo Proto"  # the compiled program itself, serialized

# Ops and functions
TF_OP = "tf_op"  # framework op, as name:type
ANNOTATION = "annotation"  # the same, in profiles of TensorFlow 2.3 and 2.4
EAGER_OP = "eager_op"  # op that runs eagerly
IS_FUNC = "is_func"  # whether it is a function
TF_FUNCTION_CALL = "tf_function_call"  # kind of a tf.function's call
TRACING_COUNT = "tracing_count"  # graphs that the function has
EQUATION = "equation"  # einsum of a kernel
SHAPE = "shape"  # shape of a tensor

# tf.data
ID = "id"  # iterator of a tf.data event; run of an executor's
PARENT_ID = "parent_id"  # iterator that calls this one
ELEMENT_ID = "element_id"  # element that a tf.data stage hands over
NAME = "name"  # name of a tf.data stage; op in an annotation
PARALLELISM = "parallelism"  # threads of a tf.data stage
AUTOTUNE = "autotune"  # whether tf.data chooses them
BATCH_SIZE = "batch_size"  # examples in an element of a tf.data stage that makes batches
BUFFERED_MB = "buffered_bytes_MB"  # what a tf.data buffer holds

# Devices
KERNEL_DETAILS = "kernel_details"  # grid, block and registers of a kernel, as text
MEMCPY_DETAILS = "memcpy_details"  # kind, size and route of a copy, as text
MEMSET_DETAILS = "memset_details"  # the same of a memory set
MEMALLOC_DETAILS = "memalloc_details"  # the same of an allocation by the driver
COMPUTE_CAP_MAJOR = "compute_cap_major"  # of a plane: compute capability
COMPUTE_CAP_MINOR = "compute_cap_minor"
DEVICE_VENDOR = "device_vendor"
MEMORY_BANDWIDTH = "memory_bandwidth"  # bytes per second
CLOCK_RATE = "clock_rate"  # of a GPU, kHz
CORE_COUNT = "core_count"  # multiprocessors of a GPU
PEAK_TERAFLOPS = "peak_teraflops_per_second"  # of a TPU
PEAK_MEMORY = "peak_hbm_bw_gigabytes_per_second"  # of a TPU
GPU_DEVICE_NAME = "gpu_device_name"
DEVICE_TYPE = "device_type_string"  # of a TPU

# Memory
BYTES_ALLOCATED = "bytes_allocated"  # in use on the heap after a memory event
BYTES_RESERVED = "bytes_reserved"  # in use on the stack
BYTES_AVAILABLE = "bytes_available"  # free after it
PEAK_BYTES = "peak_bytes_in_use"  # most that was in use so far
REQUESTED_BYTES = "requested_bytes"  # what the op asked for
ALLOCATION_BYTES = "allocation_bytes"  # what it got
ADDRESS = "addr"  # of the memory
REGION_TYPE = "region_type"  # what the memory is for
DATA_TYPE = "data_type"  # of the tensor
INDEX_ON_HOST = "index_on_host"  # number of the memory where it has no name
DEVICE_ORDINAL = "device_ordinal"  # number of the device
ALLOCATOR_NAME = "allocator_name"  # name of the memory
FRAGMENTATION = "fragmentation"  # 0 to 1

# The environment
PROFILE_START_TIME = "profile_start_time"  # of the environment: ns since 1970
PROFILE_STOP_TIME = "profile_stop_time"  # likewise
PROFILE_OPTIONS = "profile_options"  # of the environment: what the profiler was asked for, a protobuf message

KNOWN_NAMES = frozenset(value for key, value in dict(globals()).items() if key.isupper() and isinstance(value, str))
"""All that is asked for by one of these names."""
