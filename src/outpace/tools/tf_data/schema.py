# SPDX-License-Identifier: Apache-2.0
"""Columns of the tf.data tables."""

from outpace.model import TableType

PIPELINES = TableType("pipelines", "Input pipelines").columns("""
    * host             | text  | host that ran the pipeline
    * pipeline         | text  | Host:n for a pipeline on the host, Device:n for one that feeds a device from it
      id               | text  | id of the root iterator (unsigned 64-bit)
    + calls            | count | calls of the root iterator
    + steady_calls     | count | of these, in the time of steady steps: costs per batch and per element are of that time
    + slow_calls       | count | calls that took longer than 50 µs, the guide's limit
      mean_ps          | ps    | mean time of a call | Mean
      min_ps           | ps    | shortest call | Min
      max_ps           | ps    | longest call | Max
      guide_bottleneck | text  | stage with the longest self time on the critical path of the slowest call (the guide's verdict)
      bottleneck       | text  | stage with most work in the slowest segment (Outpace's verdict)
""")

STAGES = TableType("stages", "Stages").columns("""
      stage             | text  | what TensorFlow executed, which may differ from what was written
      source            | text  | source line that built the stage, or the name that the user gave it; empty when unknown
      depth             | count | how far below the root
    + calls             | count | all executions in the capture, also those whose result no recorded root call took
      busy_per_batch_ps | ps    | time that one thread of its segment works for it per call of the root iterator, which delivers \
                                  a batch: the sum over a segment's stages is the segment's; of a stage with work in two \
                                  segments, the longer | Busy per batch
    + work_ps           | ps    | time in which threads worked for the stage, in that of steady steps: its own code, and its \
                                  function on pool threads \
                                  | Work
      work_per_batch_ps | ps    | its work, divided by the steady calls of the root iterator, on however many threads | Work per batch
      threads           | count | threads of its segment, which share that work
      total_ps          | ps    | sum of all its executions (waiting included) | Total
    + self_ps           | ps    | of it, not overlapped by the stages that it called (waiting included) | Self
      start_ps          | ps    | start of its first execution | Start
      asynchronous      | bool  | whether other threads produce its elements while the caller waits | Async
      critical          | bool  | whether it was on the critical path of a root call
      segment           | count | segment that its work belongs to, slowest first
      role              | text  | bottleneck (most work in the slowest segment), critical (on the critical path) or other
      guide_bottleneck  | bool  | whether the guide's rule names it: longest self time on the critical path of the slowest call
      python            | bool  | whether its function runs Python
      top_op            | text  | op that took most time in its function
    * node              | text  | the stage's own key within this table
      parent            | text  | key of the stage that calls it; empty for the root
    * host              | text  | host that ran the pipeline
    * pipeline          | text  | pipeline that the stage belongs to
      long_name         | text  | TensorFlow's full name of the iterator
""")

GRAPH = TableType("graph", "Graph of the input pipelines").columns("""
      stage             | text  | what TensorFlow executed
      source            | text  | source line that built the stage, or the name that the user gave it; empty when unknown
      role              | text  | bottleneck, critical (on the critical path) or other; the bottleneck of all calls is the stage \
                                  with most work in the slowest segment, that of a single call the stage with the longest self \
                                  time on its critical path (the guide's rule)
      asynchronous      | bool  | whether other threads produce its elements while the caller waits | Async
      busy_per_batch_ps | ps    | time that one thread of its segment works for it per call of the root iterator; not known of a \
                                  single call | Busy per batch
      self_ps           | ps    | per call of the root: its time, not overlapped by the stages that it called (waiting included) \
                                  | Self
      total_ps          | ps    | per call of the root: sum of its executions (waiting included) | Total
      calls             | count | its executions per call of the root
      start_ps          | ps    | start of its first execution | Start
      long_name         | text  | TensorFlow's full name of the iterator: the way to it from the Root
    * node              | text  | the stage's key, as in the table of stages
      parent            | text  | key of the stage that calls it; empty for the root
    * host              | text  | host that ran the pipeline
    * pipeline          | text  | pipeline that the stage belongs to | Input pipeline
    * call              | text  | all calls of the root iterator together, or one of them, by how long it took | Rank
      rank              | count | rank of the single call, slowest first; missing for all calls | Rank of call
""")

SEGMENTS = TableType("segments", "Segments").columns("""
    * host              | text  | host that ran the pipeline
    * pipeline          | text  | pipeline that the segment belongs to
    * segment           | count | rank, slowest first
      kind              | text  | chain: stages run one after the other; function: what a parallel stage runs in the thread pool
      stages            | text  | stages in it, from the consumer down
    + work_ps           | ps    | work in the capture | Work
      threads           | count | threads that did it
      busy_per_batch_ps | ps    | work, divided by the threads and by the calls of the root iterator: the time in which it can \
                                  deliver a batch | Busy per batch
      dominant          | text  | stage with most work in it | Dominant stage
""")

EXECUTIONS = TableType("executions", "Executions").columns("""
    * host       | text  | host that ran the pipeline
    * pipeline   | text  | pipeline that was called
    * rank       | count | rank of the call among the pipeline's calls, slowest first
      stage      | text  | stage that was executed
    * id         | text  | id of the iterator (unsigned 64-bit)
      start_ps   | ps    | start of the first execution | Start
      total_ps   | ps    | sum of the executions that this root call led to, and no others (as TensorFlow 2.15 counts) | Total
    + self_ps    | ps    | of it, not overlapped by the stages that it called | Self
    + calls      | count | executions that this root call led to
      critical   | bool  | whether it was on this call's critical path
      bottleneck | bool  | whether the guide's rule names it for this call
""")
