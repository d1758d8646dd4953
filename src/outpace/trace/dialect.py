# SPDX-License-Identifier: Apache-2.0
"""Names of planes, lines and stats by which all layers above refer to the content of a profile.

They are the names of XSpace, as TensorFlow and JAX write them. A reader of another format provides
its events under these names.
"""

from __future__ import annotations

HOST_PLANE = "/host:CPU"
"""Plane of a host's threads."""

HOST_PREFIX = "/host:"
"""Prefix of the names of a host's planes."""

METADATA_PLANE = "/host:metadata"
"""Plane of compiled programs and versions."""

DEVICE_PREFIX = "/device:"
"""Prefix of the names of accelerators' planes."""

GPU_PREFIX = "/device:GPU"
"""Prefix of the names of GPUs' planes."""

ENVIRONMENT_PLANE = "Task Environment"
"""Plane with the time at which the capture began."""

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
"""Lines of a device that profilers derive from its other lines."""

# Stats of steps, and of events that belong to them
IS_ROOT = "_r"  # marks a step's root event (also on tf.data's function runs)
EPOCH_NUM = "epoch_num"  # number of the epoch, in marks of Keras 2
STEP_NUM = "step_num"  # number of the step that a mark opens
GROUP_ID = "group_id"  # step of an event, in files that were saved after grouping
PRODUCER_TYPE = "_pt"  # type of the context that an event produces
PRODUCER_ID = "_p"  # id of the context that an event produces
CONSUMER_TYPE = "_ct"  # type of the context that an event consumes
CONSUMER_ID = "_c"  # id of the context that an event consumes
IS_ASYNC = "_a"  # marks events that are not part of their thread's nesting
IPL_STAGE = "_ipl_stage_name"  # stage of an input pipeline other than tf.data

# Stats of executors and programs
RUN_ID = "run_id"  # run of a compiled program
ITER_NUM = "iter_num"  # iteration of an executor's run
CORRELATION_ID = "correlation_id"  # links a launch on the host with its execution on a device
HLO_OP = "hlo_op"  # instruction of a compiled program
HLO_MODULE = "hlo_module"  # name of the instruction's program
DEVICE_ORDINAL = "device_ordinal"  # number of the host's device that ran the instruction, or of a CPU's device
PROGRAM_ID = "program_id"  # id of the instruction's program
HLO_CATEGORY = "hlo_category"  # kind of an instruction, on TPU
SHAPE_WITH_LAYOUT = "shape_with_layout"  # shape of an instruction's result
SOURCE = "source"  # line of the user's source
DEVICE_OFFSET = "device_offset_ps"  # start of an event on its device's own clock, on TPU
DEVICE_DURATION = "device_duration_ps"  # its duration on that clock
GRAPH_ID = "cuda_graph_id"  # number of the CUDA graph that a kernel was launched by
FLOPS = "flops"  # floating point operations of an instruction
BYTES_ACCESSED = "bytes_accessed"  # bytes that an instruction reads and writes
HLO_PROTO = "Hlo Proto"  # the compiled program, serialized

# Stats of ops and functions
TF_OP = "tf_op"  # framework op, as name:type
ANNOTATION = "annotation"  # framework op, as name:type, in profiles of TensorFlow 2.3 and 2.4
EAGER_OP = "eager_op"  # op that runs eagerly
IS_FUNC = "is_func"  # whether the eager op is a function
TF_FUNCTION_CALL = "tf_function_call"  # kind of a tf.function's call
TRACING_COUNT = "tracing_count"  # number of graphs of a tf.function
EQUATION = "equation"  # einsum of a kernel
SHAPE = "shape"  # shape of a tensor

# Stats of tf.data events
ID = "id"  # iterator of a tf.data event; run of an executor's event
PARENT_ID = "parent_id"  # iterator that calls this iterator
ELEMENT_ID = "element_id"  # element that a tf.data stage returns
NAME = "name"  # name of a tf.data stage; op in an annotation
PARALLELISM = "parallelism"  # number of threads of a tf.data stage
AUTOTUNE = "autotune"  # whether tf.data chooses the parallelism
BATCH_SIZE = "batch_size"  # examples per element of a tf.data stage that builds batches
BUFFERED_MB = "buffered_bytes_MB"  # content of a tf.data buffer, MB

# Stats of devices
KERNEL_DETAILS = "kernel_details"  # grid, block and registers of a kernel, as text
MEMCPY_DETAILS = "memcpy_details"  # kind, size and route of a copy, as text
MEMSET_DETAILS = "memset_details"  # kind and size of a memory set, as text
MEMALLOC_DETAILS = "memalloc_details"  # kind and size of an allocation by the driver, as text
COMPUTE_CAP_MAJOR = "compute_cap_major"  # of a plane: major number of the compute capability
COMPUTE_CAP_MINOR = "compute_cap_minor"  # of a plane: minor number of the compute capability
DEVICE_VENDOR = "device_vendor"
MEMORY_BANDWIDTH = "memory_bandwidth"  # of a plane: bytes per second
MEMORY_SIZE = "memory_size"  # of a GPU's plane: bytes
CLOCK_RATE = "clock_rate"  # of a GPU's plane: kHz
CORE_COUNT = "core_count"  # of a GPU's plane: number of multiprocessors
PEAK_TERAFLOPS = "peak_teraflops_per_second"  # of a TPU's plane
PEAK_MEMORY = "peak_hbm_bw_gigabytes_per_second"  # of a TPU's plane
GPU_DEVICE_NAME = "gpu_device_name"
DEVICE_TYPE = "device_type_string"  # of a TPU's plane

# Stats of memory events
BYTES_ALLOCATED = "bytes_allocated"  # bytes in use on the heap after the event
BYTES_RESERVED = "bytes_reserved"  # bytes in use on the stack
BYTES_AVAILABLE = "bytes_available"  # bytes free after the event
PEAK_BYTES = "peak_bytes_in_use"  # maximum of the bytes in use so far
REQUESTED_BYTES = "requested_bytes"  # bytes that the op requested
ALLOCATION_BYTES = "allocation_bytes"  # bytes that were allocated
ADDRESS = "addr"  # address of the memory
REGION_TYPE = "region_type"  # use of the memory
DATA_TYPE = "data_type"  # data type of the tensor
INDEX_ON_HOST = "index_on_host"  # number of the memory, where it has no name
DEVICE_ORDINAL = "device_ordinal"  # number of the device
ALLOCATOR_NAME = "allocator_name"  # name of the memory
FRAGMENTATION = "fragmentation"  # fragmentation of the memory, 0 to 1

# Stats of the environment's plane
PROFILE_START_TIME = "profile_start_time"  # begin of the capture, ns since 1970
PROFILE_STOP_TIME = "profile_stop_time"  # end of the capture, ns since 1970
PROFILE_OPTIONS = "profile_options"  # options of the profiler, a protobuf message

KNOWN_NAMES = frozenset(value for key, value in dict(globals()).items() if key.isupper() and isinstance(value, str))
"""All names of this module."""
