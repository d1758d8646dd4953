# SPDX-License-Identifier: Apache-2.0
"""Schemas of the memory tables."""

from outpace.model import TableType, parse_schema

_SHARED = parse_schema("""
    host      | text | host that recorded the memory events
    memory    | text | name of the allocator (GPU_0_bfc, gpu_host_bfc, mklcpu), or number of the device on its host (TPU)
    op        | text | op that asked for the memory; empty where the framework does not say
    region    | text | temp: temporaries; output: activations and gradients; persist/dynamic: weights and constants
    data_type | text | type of the tensor's elements; empty where the framework does not say | Type
    shape     | text | shape of the tensor
""")

MEMORIES = TableType("memories", "Memories", shared=_SHARED).columns("""
    * host
    * memory
    + allocations        | count    | allocations in the capture
    + deallocations      | count    | deallocations in the capture
      capacity_bytes     | bytes    | stack, heap and free memory at the peak; missing where the allocator knows no limit \
                                      | Capacity
      peak_heap_bytes    | bytes    | most memory in use since the program started, as its allocator reports it | Peak heap
      peak_bytes         | bytes    | most memory in use in the capture: stack and heap | Peak
      peak_share         | fraction | peak in the capture as a share of the capacity | Of capacity
      peak_time_ps       | ps       | time of the peak, counted from the host's first event (the latest of equal peaks) | Peak at
      peak_step          | count    | number of the step at the peak; missing without steps
      stack_bytes        | bytes    | memory reserved on the stack at the peak | Stack
      heap_bytes         | bytes    | memory allocated on the heap at the peak | Heap
      free_bytes         | bytes    | free memory at the peak | Free
      fragmentation      | fraction | 1 - largest free chunk / free memory that the allocator holds, at the peak
      headroom_bytes     | bytes    | capacity less the peak | Headroom
      step_bytes         | bytes    | of the heap at the peak: allocated in the peak's step | This step
      earlier_bytes      | bytes    | of the heap at the peak: allocated in the capture, before the peak's step | Earlier steps
      before_bytes       | bytes    | of the heap at the peak: held since before the capture | Before capture
    + freed_before_bytes | bytes    | freed in the capture though allocated before it | Freed of before
    + unfreed            | count    | allocations of the capture that were not freed in it
    + missing            | count    | allocations at an address that was still taken: a deallocation was not recorded
""")

TIMELINE = TableType("timeline", "Memory over time", shared=_SHARED).columns("""
      host
      memory
      time_ps         | ps       | time of the event, counted from the host's first event | Time
      event           | text     | allocation or deallocation
    + requested_bytes | bytes    | memory asked for; negative for a deallocation | Requested
    + allocated_bytes | bytes    | memory allocated; negative for a deallocation | Allocated
      op
      step            | count    | number of the step that caused the event; missing for none
      region
      data_type
      shape
      in_use_bytes    | bytes    | stack and heap after the event | In use
      stack_bytes     | bytes    | memory reserved on the stack after the event | Stack
      heap_bytes      | bytes    | memory allocated on the heap after the event | Heap
      free_bytes      | bytes    | free memory after the event | Free
      fragmentation   | fraction | 1 - largest free chunk / free memory that the allocator holds, after the event
""")

BREAKDOWN = TableType("breakdown", "Memory breakdown at the peak", shared=_SHARED).columns("""
    * host
    * memory
    * op
    * allocated_bytes | bytes    | memory of one of the allocations | Allocated
    * requested_bytes | bytes    | memory that was asked for by one of them | Requested
    + occurrences     | count    | equal allocations that are live at the peak | Count
    * region
    * data_type
    * shape
    + total_bytes     | bytes    | memory of all of them | Total
    + share           | fraction | memory of all of them as a share of what is in use at the peak; missing where that is less | Of peak
""")

GROWTH = TableType("growth", "Growth from step to step", shared=_SHARED).columns("""
    * host
    * memory
      steps          | count    | whole steps that were looked at
      rising         | fraction | share of the steps that end with more memory in use than the step before
      first_bytes    | bytes    | in use at the end of the first of them | First
      last_bytes     | bytes    | in use at the end of the last of them | Last
    + grown_bytes    | bytes    | last less first | Grown
    + per_step_bytes | bytes    | slope of a straight line through the memory in use at step ends | Per step
      leak           | bool     | whether it rises in most steps, is not given back, and sums up to something material
""")

STEP_ENDS = TableType("step_ends", "Memory in use at step ends", shared=_SHARED).columns("""
      host
      memory
      step         | count | number of the step
      in_use_bytes | bytes | stack and heap when the step ends | In use at end
      low_bytes    | bytes | least memory in use since the end of the step before | Low
      high_bytes   | bytes | most memory in use since the end of the step before | High
""")

UNFREED = TableType("unfreed", "Allocated in a step and not freed in the capture", shared=_SHARED).columns("""
    * host
    * memory
    * op
    * region
    * data_type
    * shape
    + occurrences    | count | allocations that were made in a whole step before the last one, and not freed in the capture \
                               | Count
    + total_bytes    | bytes | memory of all of them | Total
      steps          | count | steps that left at least one of them behind
    + per_step_bytes | bytes | memory left behind per whole step before the last one | Per step
""")

HEADROOM = TableType("headroom", "Room for a larger batch (estimate)", shared=_SHARED).columns("""
    * host
    * memory
      capacity_bytes | bytes | capacity of the memory | Capacity
      peak_bytes     | bytes | most memory in use in the capture | Peak
      scaling_bytes  | bytes | live at the peak as temp or output: assumed to scale with the batch size | Scales
      unknown_bytes  | bytes | live at the peak without a region type: scales or not | Unknown
      fixed_bytes    | bytes | the rest of the peak, assumed not to scale with the batch size | Fixed
      factor_low     | ratio | how many times the batch size should fit, if what is unknown scales too | Batch size × at least
      factor_high    | ratio | how many times the batch size should fit, if what is unknown does not scale | Batch size × at most
      estimate       | text  | how many times the batch size should fit, or why that cannot be measured | Batch size
""")
