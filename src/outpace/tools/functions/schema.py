# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about functions."""

from outpace.model import TableType

TRACES = TableType("traces", "Calls that built a graph or a program").columns("""
    * host        | text  | host of the call
    * function    | text  | name of the tf.function, or of the function that JAX compiled
      source      | text  | where the tf.function is defined, or the jitted one is called; needs a capture by 'outpace profile'
      step        | count | step that the call belongs to; missing outside of steps
    * start_ps    | ps    | start of the call, counted from the earliest event of its host | Start
      duration_ps | ps    | length of the call, building the graph included; of JAX, tracing, lowering and compiling | Call
      graphs      | count | graphs that the tf.function had after the call
      cause       | text  | what differs from the graph or program that was built before for this function
      kinds       | text  | first, same arguments or unknown; else python value, shape, dtype and structure, as far as they \
                            apply | What changed
""")

COMPILATIONS = TableType("compilations", "Graph building and compilation").columns("""
    * host        | text  | host that compiled
    * event       | text  | what was done: building a graph, compiling a program, or all that a JAX function needs before it runs
    * function    | text  | function or program that was built, where the profile names it
    * source      | text  | line that called it (from a capture by 'outpace profile'), else where it begins
    + count       | count | times in the capture
    + total_ps    | ps    | time of all of them, those inside others left out
    + in_steps_ps | ps    | of it, within steps | In steps
      longest_ps  | ps    | the longest one | Longest
      steps       | text  | numbers of the steps that they fall in; empty outside of steps
      called      | text  | function of JAX that the line called for most of them, op by op; empty for a compiled function of the \
                            program | Function of JAX
""")

CONTROL_FLOW = TableType("control_flow", "Conditions and loops in graphs").columns("""
    * host     | text  | host that ran the op
    * type     | text  | If, While or Case: what autograph makes of Python's if and while on tensors
    * op       | text  | name of the op
    + count    | count | executions in the capture
      total_ps | ps    | time in the op, the branch or body that it ran included where it ran on the same thread
""")
