"""Columns of the tf.data tables."""

from outpace.model import Field, Unit

PIPELINES = (
    Field("host", Unit.TEXT, "host that ran the pipeline"),
    Field("pipeline", Unit.TEXT, "Host:n for a pipeline on the host, Device:n for one that feeds a device from it"),
    Field("id", Unit.TEXT, "id of the root iterator (unsigned 64-bit)"),
    Field("calls", Unit.COUNT, "calls of the root iterator"),
    Field("slow_calls", Unit.COUNT, "calls that took longer than 50 µs, the guide's limit"),
    Field("mean_ps", Unit.PS, "mean time of a call", "Mean"),
    Field("min_ps", Unit.PS, "shortest call", "Min"),
    Field("max_ps", Unit.PS, "longest call", "Max"),
    Field(
        "guide_bottleneck",
        Unit.TEXT,
        "stage with the longest self time on the critical path of the slowest call (the guide's verdict)",
    ),
    Field("bottleneck", Unit.TEXT, "stage with most work in the slowest segment (Outpace's verdict)"),
)

STAGES = (
    Field("stage", Unit.TEXT, "what TensorFlow executed, which may differ from what was written"),
    Field("source", Unit.TEXT, "source line that built the stage, or the name that the user gave it; empty when unknown"),
    Field("depth", Unit.COUNT, "how far below the root"),
    Field("calls", Unit.COUNT, "all executions in the capture, also those whose result no recorded root call took"),
    Field(
        "busy_per_batch_ps",
        Unit.PS,
        "time that one thread of its segment works for it per call of the root iterator, which delivers a batch: the sum over a segment's "
        "stages is the segment's; of a stage with work in two segments, the longer",
        "Busy per batch",
    ),
    Field(
        "work_ps", Unit.PS, "time in which threads worked for the stage: its own code, and its function on pool threads", "Work"
    ),
    Field(
        "work_per_batch_ps",
        Unit.PS,
        "its work, divided by the calls of the root iterator, on however many threads",
        "Work per batch",
    ),
    Field("threads", Unit.COUNT, "threads of its segment, which share that work"),
    Field("total_ps", Unit.PS, "sum of all its executions (waiting included)", "Total"),
    Field("self_ps", Unit.PS, "of it, not overlapped by the stages that it called (waiting included)", "Self"),
    Field("start_ps", Unit.PS, "start of its first execution", "Start"),
    Field("asynchronous", Unit.BOOL, "whether other threads produce its elements while the caller waits", "Async"),
    Field("critical", Unit.BOOL, "whether it was on the critical path of a root call"),
    Field("segment", Unit.COUNT, "segment that its work belongs to, slowest first"),
    Field("role", Unit.TEXT, "bottleneck (most work in the slowest segment), critical (on the critical path) or other"),
    Field(
        "guide_bottleneck",
        Unit.BOOL,
        "whether the guide's rule names it: longest self time on the critical path of the slowest call",
    ),
    Field("python", Unit.BOOL, "whether its function runs Python"),
    Field("top_op", Unit.TEXT, "op that took most time in its function"),
    Field("node", Unit.TEXT, "the stage's own key within this table"),
    Field("parent", Unit.TEXT, "key of the stage that calls it; empty for the root"),
    Field("host", Unit.TEXT, "host that ran the pipeline"),
    Field("pipeline", Unit.TEXT, "pipeline that the stage belongs to"),
    Field("long_name", Unit.TEXT, "TensorFlow's full name of the iterator"),
)

GRAPH = (
    Field("stage", Unit.TEXT, "what TensorFlow executed"),
    Field("source", Unit.TEXT, "source line that built the stage, or the name that the user gave it; empty when unknown"),
    Field(
        "role",
        Unit.TEXT,
        "bottleneck, critical (on the critical path) or other; the bottleneck of all calls is the stage with most work in the slowest "
        "segment, that of a single call the stage with the longest self time on its critical path (the guide's rule)",
    ),
    Field("asynchronous", Unit.BOOL, "whether other threads produce its elements while the caller waits", "Async"),
    Field(
        "busy_per_batch_ps",
        Unit.PS,
        "time that one thread of its segment works for it per call of the root iterator; not known of a single call",
        "Busy per batch",
    ),
    Field(
        "self_ps",
        Unit.PS,
        "per call of the root: its time, not overlapped by the stages that it called (waiting included)",
        "Self",
    ),
    Field("total_ps", Unit.PS, "per call of the root: sum of its executions (waiting included)", "Total"),
    Field("calls", Unit.COUNT, "its executions per call of the root"),
    Field("start_ps", Unit.PS, "start of its first execution", "Start"),
    Field("node", Unit.TEXT, "the stage's key, as in the table of stages"),
    Field("parent", Unit.TEXT, "key of the stage that calls it; empty for the root"),
    Field("host", Unit.TEXT, "host that ran the pipeline"),
    Field("pipeline", Unit.TEXT, "pipeline that the stage belongs to", "Input pipeline"),
    Field("call", Unit.TEXT, "all calls of the root iterator together, or one of them, by how long it took", "Rank"),
    Field("rank", Unit.COUNT, "rank of the single call, slowest first; missing for all calls", "Rank of call"),
)

SEGMENTS = (
    Field("host", Unit.TEXT, "host that ran the pipeline"),
    Field("pipeline", Unit.TEXT, "pipeline that the segment belongs to"),
    Field("segment", Unit.COUNT, "rank, slowest first"),
    Field("kind", Unit.TEXT, "chain: stages run one after the other; function: what a parallel stage runs in the thread pool"),
    Field("stages", Unit.TEXT, "stages in it, from the consumer down"),
    Field("work_ps", Unit.PS, "work in the capture", "Work"),
    Field("threads", Unit.COUNT, "threads that did it"),
    Field(
        "busy_per_batch_ps",
        Unit.PS,
        "work, divided by the threads and by the calls of the root iterator: the time in which it can deliver a batch",
        "Busy per batch",
    ),
    Field("dominant", Unit.TEXT, "stage with most work in it", "Dominant stage"),
)

EXECUTIONS = (
    Field("host", Unit.TEXT, "host that ran the pipeline"),
    Field("pipeline", Unit.TEXT, "pipeline that was called"),
    Field("rank", Unit.COUNT, "rank of the call among the pipeline's calls, slowest first"),
    Field("stage", Unit.TEXT, "stage that was executed"),
    Field("id", Unit.TEXT, "id of the iterator (unsigned 64-bit)"),
    Field("start_ps", Unit.PS, "start of the first execution", "Start"),
    Field(
        "total_ps",
        Unit.PS,
        "sum of the executions that this root call led to, and no others (as TensorFlow 2.15 counts)",
        "Total",
    ),
    Field("self_ps", Unit.PS, "of it, not overlapped by the stages that it called", "Self"),
    Field("calls", Unit.COUNT, "executions that this root call led to"),
    Field("critical", Unit.BOOL, "whether it was on this call's critical path"),
    Field("bottleneck", Unit.BOOL, "whether the guide's rule names it for this call"),
)
