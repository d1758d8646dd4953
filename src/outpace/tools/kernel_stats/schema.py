# SPDX-License-Identifier: Apache-2.0
"""Schemas of the kernel tables."""

from outpace.metrics.call_tree import call_tree_type
from outpace.model import TableType, parse_schema

_WHERE = parse_schema("""
    host   | text | host that recorded it
    device | text | device, as its plane is called
""")

KERNELS = TableType("kernels", "Kernels", shared=_WHERE).columns("""
      rank             | count    | place by total time among all kernel-op pairs
    * kernel           | text     | name of the kernel
      function         | text     | the kernel's own name, without namespaces, types and arguments
    * registers        | count    | registers per thread; missing where the profiler does not record them (AMD)
    * shared_bytes     | bytes    | shared memory per block, static and dynamic (AMD: LDS) | Shared
    * static_bytes     | bytes    | static shared memory per block; missing where only the sum is recorded | Static shared
    * dynamic_bytes    | bytes    | dynamic shared memory per block; missing where only the sum is recorded | Dynamic shared
    * block            | text     | threads per block, x,y,z
    * grid             | text     | blocks per grid, x,y,z
      occupancy        | fraction | theoretical occupancy: resident warps of a multiprocessor of the most that it can hold
      occupancy_source | text     | recorded by the profiler, computed from registers, shared memory, block and device, or \
                                    unknown | Occupancy by
    * eligible         | bool     | whether the op could use tensor cores (AMD: matrix cores), by its name | Op eligible
    * tensor_cores     | bool     | whether the kernel has tensor-core instructions: by its name, of XLA's own kernels by the \
                                    program | Tensor cores
    * op               | text     | op that launched the kernel; empty where the profile names none
      hlo_op           | text     | instruction of the compiled program, the first by time if there are several; empty outside \
                                    XLA | HLO op
    + occurrences      | count    | executions in the capture | Count
    + total_ps         | ps       | time on the device, all executions
      mean_ps          | ps       | time per execution
      min_ps           | ps       | shortest execution
      max_ps           | ps       | longest execution
    + kernel_fraction  | fraction | share of the time of all kernels of all devices | Of kernels
      mean_latency_ps  | ps       | mean time from the start of the host's launch call to the start on the device; missing \
                                    without a known launch | Mean latency
    * device
    * host
""")

COPIES = TableType("copies", "Copies and memory sets", shared=_WHERE).columns("""
    * kind            | text        | HToD, DToH, DToD (within the device), PToP (between devices), HToH, memset, or allocation
    * source          | text        | kind of memory read; empty where not recorded
    * destination     | text        | kind of memory written; empty where not recorded
    + occurrences     | count       | executions in the capture | Count
    + bytes           | bytes       | bytes moved, set or allocated | Size
    + total_ps        | ps          | time on the device
      bandwidth       | bytes_per_s | bytes divided by time, missing where either is 0
      memory_fraction | fraction    | within one device: bytes read and written as a share of its memory bandwidth; missing \
                                      elsewhere | Of memory bandwidth
    * device
    * host
""")

LAUNCHES = TableType("launches", "Kernel launches", shared=_WHERE).columns("""
    + kernels           | count | kernels that ran
    + matched           | count | kernels whose launch call on the host is known, by correlation id
    + unmatched         | count | kernels without a known launch
      median_latency_ps | ps    | time from the start of the launch call to the start on the device, median
      p95_latency_ps    | ps    | the same, 95th percentile | p95 latency
      max_latency_ps    | ps    | the same, longest
      mean_latency_ps   | ps    | the same, mean; missing without a known launch
      mean_queued_ps    | ps    | of that mean, the part in which the kernel's stream was busy with earlier work | Mean queued
    * device
    * host
""")

DEVICES = TableType("devices", "Devices", shared=_WHERE).columns("""
    + kernels        | count    | kernels that ran
    + kernel_ps      | ps       | sum of the kernels' times; streams add up | Kernel time
      mean_kernel_ps | ps       | time per kernel
    + copy_ps        | ps       | sum of the times of copies and memory sets | Copy time
    + tuning_ps      | ps       | sum of the times of what the compiler ran there | For the compiler
    + span_ps        | ps       | from the device's first to its last event
    + busy_ps        | ps       | of the span, some stream was busy
    + idle_ps        | ps       | of the span, no stream was busy
      idle_fraction  | fraction | idle time as a share of the span | Of span
    + unlaunched_ps  | ps       | of the idle time, before the host began to launch the work that ended it; missing if no launch \
                                  is known | Not launched yet
    + judged_ps      | ps       | of the span, in steady steps; all of it if the host has no steps | In steps
    + waited_ps      | ps       | in steps, idle and not launched yet: the host waited for the device, or for other devices | Host waited
    + after_ps       | ps       | the same: it worked, having waited in the same gap | After a wait
    + late_ps        | ps       | the same: it worked, and had not waited | Host late
    + unrecorded_ps  | ps       | of that, in gaps in which the host recorded nothing | Not recorded
    + fed_ps         | ps       | in steps, idle and not launched yet: the host waited for input; in none of these | Host fed
      by_waiting_ps  | ps       | what the waits cost at most: they, and the work after them that the device's own could cover
      by_launching_ps | ps      | what late launches cost at most; 0 where the host runs ahead of the device
      waits          | text     | the event in which the host waited longest
      late_in        | text     | what the host did for most of the time in which it was late; (nothing recorded) in Python
      late_in_ps     | ps       | the gaps in which it did, as far as it was late in them
      late_own       | bool     | whether that is an annotation of the program's own
      wait_line      | text     | your own line on which the training thread was for most of the time in and after waits
      late_line      | text     | the same for the time in which the host was late
    * device
    * host
""")

MAX_GAPS = 50  # maximum number of gaps in the table
GAPS = TableType("idle", f"Longest idle gaps (at most {MAX_GAPS})", shared=_WHERE).columns("""
    * start_ps      | ps    | start, counted from the earliest event of its host
    + length_ps     | ps    | how long no stream of the device was busy
      step          | count | number of the step that the work after the gap belongs to; missing outside steps
      next          | text  | kernel (its own name) or copy that ended the gap
      host_activity | text  | host event that covers most of the gap, the innermost: on the thread that launched what ended it, \
                              else on any
      thread        | text  | thread of that event
    * device
    * host
""")

CAUSES = TableType("idle_causes", "What the host did while the device was idle", shared=_WHERE).columns("""
    * host_activity | text     | what the host did in a gap, see the gaps
    + gaps          | count    | gaps with this activity
    + idle_ps       | ps       | their lengths together
    + idle_fraction | fraction | share of the device's idle time | Of idle
    * device
    * host
""")

LAUNCH_GAPS = TableType("launch_gaps", "Idle time by place, and who was late", shared=_WHERE).columns("""
    * place         | text     | inside a program: between two ops of one run; between programs: before a run; beside programs: \
                                 around copies, or ops of no known program; before a step: before its first work
    * late          | text     | what the host did before it launched what ended the gap; none for the time after the launch | Host
      activity      | text     | host event in the longest of these gaps | Host event
      line          | text     | your own line on which the training thread was most meanwhile, by its samples | Your line
      line_share    | fraction | of the sampled time, what was on that line | On that line
    + gaps          | count    | gaps with such time
    + idle_ps       | ps       | idle time of the device
    + idle_fraction | fraction | share of the device's idle time | Of idle
    * device
    * host
""")

AUTOTUNING = TableType("tuning", "What the compiler ran", shared=_WHERE).columns("""
    * kernel      | text  | kernel, copy or memory set
    + occurrences | count | executions in the capture | Count
    + total_ps    | ps    | time on the device, all executions
    * device
    * host
""")

TREE = call_tree_type(
    "kernel_tree",
    "Kernel time by scope, op and kernel",
    node="name scope, op, or kernel (its own name)",
    total="time of the kernels in it, on all devices",
    own="time of the kernel; 0 of a scope or an op",
    count="executions of these kernels",
)

SHARES = TableType("kernel_slices", "Kernel time").columns("""
    * by       | text | what is summed up: kernels of one name, of one kind of layer, or with one set of types | Kernel time by
    * kernel   | text | kernel or layer; 'all others' sums up the rest
      total_ps | ps   | time on the device, all executions
""")
