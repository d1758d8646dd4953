# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about XLA programs."""

from outpace.model import TableType

OPS = TableType("hlo_ops", "HLO ops").columns("""
    * rank         | count       | place by self time
      host         | text        | host that ran the program
      device       | text        | device, or CPU
      program      | text        | compiled program (HLO module)
      op           | text        | HLO op as the program names it
      category     | text        | category of the op as the device tells it, else its opcode; the end of an asynchronous op waits
      framework_op | text        | op of TensorFlow or JAX that it was compiled from; of a fusion, one of them | Framework op
      source       | text        | line of the program's own code that it was compiled from
    + occurrences  | count       | executions in the capture, however many kernels each took | Count
      total_ps     | ps          | time in the op, ops nested in it included
    + self_ps      | ps          | time in the op itself | Self
    + fraction     | fraction    | self time as a share of all HLO ops' | Of ops
      cumulative   | fraction    | the same share of this op and those ranked above it
      flops_per_s  | ratio       | floating-point operations per second while it ran, as the profile counts them, else of its \
                                   matrix products; missing for others | FLOP/s
      bytes_per_s  | bytes_per_s | memory traffic while it ran, as the profile counts it, else operands and result; missing for \
                                   parts of arrays | Memory
      intensity    | ratio       | arithmetic intensity: operations per byte of memory traffic | FLOP/byte
""")

PROGRAMS = TableType("programs", "Programs").columns("""
    * host       | text     | host that ran the program
      program    | text     | compiled program (HLO module)
    * program_id | text     | its id in the capture
    + runs       | count    | executions of most of its ops outside of loops; of most of all where the profile does not hold the program \
                            | Runs
    + ops        | count    | distinct HLO ops that ran
    + self_ps    | ps       | time in its ops | Op time
    + fraction   | fraction | the same as a share of all programs' | Of ops
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
