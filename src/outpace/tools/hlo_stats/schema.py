# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about XLA programs."""

from outpace.model import TableType

OPS = TableType("hlo_ops", "HLO ops").columns("""
    * rank         | count       | place by self time
      host         | text        | host that ran the program
      device       | text        | device, or CPU
      program      | text        | compiled program (HLO module)
      op           | text        | HLO op as the program names it
      category     | text        | category of the op: the library that it calls and what that computes, else as the device tells \
                                   it, else its opcode; the end of an asynchronous op waits
      framework_op | text        | op of TensorFlow or JAX that it was compiled from; of a fusion, one of them | Framework op
      source       | text        | line of the program's own code that it was compiled from
    + occurrences  | count       | executions in the capture, however many kernels each took | Count
      total_ps     | ps          | time in the op, ops nested in it included
    + self_ps      | ps          | time in the op itself | Self
      mean_ps      | ps          | self time of an execution | Mean
    + fraction     | fraction    | self time as a share of all HLO ops' | Of ops
      cumulative   | fraction    | the same share of this op and those ranked above it
      again        | bool        | whether it computes a part of the forward pass once more (jax.checkpoint) | Again
      description  | text        | what it computes, in words: sizes, groups, lengths; empty where the opcode says it all | What
      flops        | ratio       | floating-point operations of one execution, as the profile counts them, else by its shapes; \
                                   missing where a library's call is not known | FLOPs
      bytes        | bytes       | bytes that one execution reads and writes at least | Bytes
      flops_per_s  | ratio       | floating-point operations per second while it ran | FLOP/s
      bytes_per_s  | bytes_per_s | memory traffic while it ran | Memory
      intensity    | ratio       | arithmetic intensity: operations per byte of memory traffic | FLOP/byte
      bound        | text        | what bounds it: compute, memory, cache (faster than the memory), start (of kernels), transfer, \
                                   neither (less than 30% of both roofs: it could be faster) or unknown
      of_roof      | fraction    | least time that the device needs for its operations and bytes, as a share of its time; missing \
                                   where unknown | Of roof
    + above_ps     | ps          | time above the roof: what it could lose at most | Above roof
""")

TEXTS = TableType("hlo_text", "Instructions of the longest ops").columns("""
    * program    | text | compiled program (HLO module)
    * program_id | text | its id in the capture
    * op         | text | HLO op as the program names it
      self_ps    | ps   | time in the op itself, on all devices | Self
      text       | text | its line of the program's text, without its name, framework op and configuration | Instruction
      operands   | text | instructions whose results it takes
      users      | text | instructions that take its result
      frames     | text | source frames that it was traced in, innermost first | Traced in
""")

PROGRAMS = TableType("programs", "Programs").columns("""
    * host       | text     | host that ran the program
      program    | text     | compiled program (HLO module)
    * program_id | text     | its id in the capture
    + runs       | count    | executions of most of its ops outside of loops; of most of all where the profile does not hold the program \
                            | Runs
      devices    | count    | devices that ran it, or the CPU
    + ops        | count    | distinct HLO ops that ran
    + self_ps    | ps       | time in its ops | Op time
      run_ps     | ps       | the same per run and device | Per run
    + fraction   | fraction | the same as a share of all programs' | Of ops
      flops      | ratio    | floating-point operations of a run on one device, loops as often as they ran; missing where a library's calls of \
                              unknown arithmetic take 3% of the time | FLOPs
      text_flops | ratio    | the same by the program's text, loops as often as it says; missing where it does not | FLOPs, text
      bytes      | bytes    | bytes that a run's ops read and write at least, on one device | Bytes
      flops_per_s | ratio   | floating-point operations per second while its ops ran | FLOP/s
      bytes_per_s | bytes_per_s | memory traffic while its ops ran | Memory
      peak_share | fraction | least time of its matrix products and convolutions at the device's peak, by precision, as a share of \
                              its ops' time; missing where the peak is not known | Of peak
    + above_ps   | ps       | time of its ops above their roofs | Above roof
      inside_ps | ps        | idle time of the device between the first and last op of a run, per run and device | Idle inside
      before_ps | ps        | idle time of the device between the op before a run, of any program, and its first op, per run \
                              and device | Idle before
      wall_flops_per_s | ratio | floating-point operations per second, idle time inside and before its runs included | FLOP/s, wall
      argument_bytes | bytes | size of its arguments | Arguments
      donated_bytes | bytes | of these, arguments whose memory a result takes over (donate_argnums) | Donated
""")

GRAPHS = TableType("graphs", "CUDA graphs").columns("""
    * host      | text     | host that launched it
    * program   | text     | compiled program (HLO module)
    * graph     | text     | the program's command that launches it
    + launches  | count    | launches in the capture
      kernels   | ratio    | kernels of a launch
      device_ps | ps       | time in its kernels, per launch | Device
    + host_ps   | ps       | time of the host's command, per launch, updates included | Host
    + update_ps | ps       | of it, time to write new addresses into the graph | Update
      patched   | fraction | share of launches whose graph was updated before | Updated
      reason    | text     | why addresses change, as far as the program tells; empty where no launch was updated | Why
""")

AUTOTUNING = TableType("tuning", "What the compiler ran").columns("""
    * host        | text  | host that compiled
    * program     | text  | what the compiler ran: an op of a program that it compiled, in one of several forms
    + occurrences | count | executions in the capture | Count
    + self_ps     | ps    | time in them | Op time
""")

CATEGORIES = TableType("hlo_categories", "Time by category").columns("""
    * category    | text  | category of HLO op
    + occurrences | count | executions in the capture | Count
    + self_ps     | ps    | time in these ops themselves | Self
""")
