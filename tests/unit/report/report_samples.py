"""Hand-made reports: a realistic one, and one full of hostile names."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from outpace.model import (
    Category,
    Certainty,
    Chart,
    ChartKind,
    Effort,
    Evidence,
    Field,
    Figure,
    Figures,
    Finding,
    Page,
    Paragraph,
    Report,
    Saving,
    Severity,
    Table,
    TableView,
    Threshold,
    ToolFailure,
    Unavailable,
    Unit,
)

MS = 1_000_000_000
COLORS = {c.label: c.value for c in Category}
MEAN_STEP = {
    Category.COMPILATION: 0.4,
    Category.INPUT: 31.6,
    Category.OUTPUT: 0.9,
    Category.KERNEL_LAUNCH: 3.2,
    Category.HOST_COMPUTE: 2.1,
    Category.DEVICE_TO_DEVICE: 0.0,
    Category.DEVICE_COLLECTIVES: 4.4,
    Category.DEVICE_COMPUTE_16: 9.7,
    Category.DEVICE_COMPUTE_32: 6.3,
    Category.ALL_OTHERS: 2.5,
}


@functools.cache
def average_step() -> Chart:
    fields = (
        Field("category", Unit.TEXT, "category of the guide"),
        Field("time_ps", Unit.PS, "mean time per step"),
        Field("share", Unit.FRACTION, "of the mean step time"),
    )
    total = sum(MEAN_STEP.values())
    rows = [(c.label, int(v * MS), v / total) for c, v in MEAN_STEP.items()]
    table = Table.from_rows("average_step", "The average step", fields, rows)
    return Chart("The average step", ChartKind.STACK_TOTAL, table, "category", ("time_ps",), COLORS, "mean of 120 steps")


def step_graph(steps: int = 120) -> Chart:
    rng = np.random.default_rng(1)
    fields = [Field("step", Unit.COUNT, "step number"), Field("duration_ps", Unit.PS, "whole step")]
    data: dict[str, object] = {"step": np.arange(steps)}
    total = np.zeros(steps, dtype=np.int64)
    for category, mean in MEAN_STEP.items():
        fields.append(Field(f"{category.value}_ps", Unit.PS, category.meaning, category.label))
        column = (rng.gamma(20, mean / 20 + 1e-9, steps) * MS).astype(np.int64)
        if category is Category.COMPILATION and steps:
            column[0] = 900 * MS
        data[f"{category.value}_ps"] = column
        total += column
    data["duration_ps"] = total
    table = Table.build("steps", "Steps", fields, data)
    return Chart("Step graph", ChartKind.STACK_SERIES, table, "step", tuple(f"{c.value}_ps" for c in Category))


def finding_input() -> Finding:
    return Finding(
        id="input-bound",
        severity=Severity.HIGH,
        sentence="The program waits for input for 51.7% of the step time, "
        "because one ParallelMap decodes images on a single thread.",
        action="Give the decoding map num_parallel_calls=tf.data.AUTOTUNE and prefetch its output.",
        evidence=(
            Evidence("mean wait for input per step", 31.6 * MS, Unit.PS, "overview.average_step"),
            Evidence("share of the step time", 0.517, Unit.FRACTION, "overview.average_step"),
        ),
        threshold=Threshold("HIGHLY_INPUT_BOUND", 0.2, Unit.FRACTION, "TensorFlow Profiler guide"),
        counter_evidence=("CPU cores are already 88% busy, so more threads gain less than their number",),
        saving=Saving(
            0.3,
            0.5,
            (Category.INPUT.value, Category.HOST_COMPUTE.value),
            "low end: the cores stay as busy as now; high end: input hides behind compute",
            step=60 * MS,
            base="step without the profiler",
        ),
        location="train.py:41",
        host="worker-0",
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("waits",),
        symptom="51.7% of the step time waits for input.",
    )


def finding_precision() -> Finding:
    return Finding(
        id="mixed-precision",
        severity=Severity.POTENTIAL,
        sentence="39.4% of the device compute time runs in 32-bit numbers.",
        action="Try the mixed_float16 policy.",
        evidence=(Evidence("32-bit compute per step", 6.3 * MS, Unit.PS, "overview.average_step"),),
        saving=None,
    )


def finding_bound() -> Finding:
    return Finding(
        id="late-launches",
        severity=Severity.MODERATE,
        sentence="Launches take 5.2% of the step.",
        action="Fuse the kernels.",
        evidence=(Evidence("launches per step", 3.2 * MS, Unit.PS, "overview.average_step"),),
        saving=Saving(
            0.0, 0.052, (Category.KERNEL_LAUNCH.value,), "if no launch took time", 60 * MS, "step without the profiler"
        ),
    )


def finding_struck() -> Finding:
    return Finding(
        id="thread-mode",
        severity=Severity.POTENTIAL,
        sentence="Launches share their threads with preprocessing.",
        action="Set TF_GPU_THREAD_MODE=gpu_private.",
        evidence=(Evidence("launches per step", 3.2 * MS, Unit.PS, "overview.average_step"),),
        struck="the threads are named tf_gpu_private: the mode is set already",
    )


def finding_info() -> Finding:
    return Finding(
        id="marks",
        severity=Severity.INFO,
        sentence="Steps were found by their marks.",
        action="Nothing to do.",
        evidence=(Evidence("steps", 120, Unit.COUNT, "overview.steps"),),
    )


def op_table(count: int = 34) -> Table:
    rng = np.random.default_rng(2)
    fields = (
        Field("name", Unit.TEXT, "name of the op", "Operation"),
        Field("type", Unit.TEXT, "type of the op"),
        Field("occurrences", Unit.COUNT, "how often it ran"),
        Field("total_ps", Unit.PS, "time in the op and the ops that it calls", "Total time"),
        Field("self_ps", Unit.PS, "time in the op itself", "Total self time"),
        Field("share", Unit.FRACTION, "of the total self time on the device", "Share of self time"),
        Field("bytes", Unit.BYTES, "bytes read and written"),
        Field("intensity", Unit.RATIO, "floating point operations per byte", "Operational intensity"),
        Field("eager", Unit.BOOL, "whether it ran eagerly"),
        Field("node_id", Unit.NONE, "unsigned 64-bit id"),
    )
    kinds = ["MatMul", "Conv2D", "FusedBatchNormV3", "Relu", "ResourceApplyAdam", "Conv2DBackpropFilter"]
    rows = []
    selfs = np.sort(rng.pareto(1.2, count))[::-1]
    for i, share in enumerate((selfs / max(selfs.sum(), 1e-9)).tolist()):
        kind = kinds[i % len(kinds)]
        name = f"gradient_tape/resnet50/conv{i % 5}_block{i}_out/branch_{i % 3}/very_deep_scope/{kind}/{kind}_{i}"
        ratio = float("nan") if i % 7 == 3 else float("inf") if i == 4 else share * 1000
        whole = int(share * 600 * MS)
        rows.append((name, kind, 1 + i * 131, whole + i * 9000, whole, share, i * 77_777_777, ratio, i % 4 == 0, 2**64 - 1 - i))
    return Table.from_rows("ops", "Operations by self time", fields, rows)


def pipeline() -> Chart:
    fields = (
        Field("id", Unit.NONE, "iterator id"),
        Field("parent", Unit.NONE, "id of the iterator that pulls from it"),
        Field("label", Unit.TEXT, "kind of iterator", "Iterator"),
        Field("role", Unit.TEXT, "bottleneck, critical or other"),
        Field("self_ps", Unit.PS, "mean self time per call", "Self time"),
        Field("calls", Unit.COUNT, "calls"),
        Field("busy", Unit.FRACTION, "of the step time", "Busy"),
    )
    top = 2**64 - 10
    rows = [
        (top, None, "Prefetch", "critical", int(0.2 * MS), 120, 0.01),
        (top + 1, top, "BatchV2", "critical", int(1.4 * MS), 120, 0.04),
        (top + 2, top + 1, "ParallelMapV2 (decode_and_augment_with_a_long_name)", "bottleneck", int(29.1 * MS), 3840, 0.49),
        (top + 3, top + 2, "Shuffle", "critical", int(0.05 * MS), 3840, 0.002),
        (top + 4, top + 3, "TFRecord", "other", int(0.4 * MS), 3841, 0.01),
        (top + 5, top + 1, "Range", "other", 900_000, 3841, 0.0001),
    ]
    table = Table.from_rows("pipeline", "Input pipeline", fields, rows)
    return Chart("Critical path of the input pipeline", ChartKind.GRAPH, table, "id", ("parent", "label", "role"))


def shares(kind: ChartKind) -> Chart:
    fields = (Field("kind", Unit.TEXT, "kind of op"), Field("self_ps", Unit.PS, "self time", "Self time"))
    rows = [("Conv2D", 210 * MS), ("MatMul", 95 * MS), ("FusedBatchNormV3", 60 * MS), ("IDLE", 33 * MS), ("Relu", 8 * MS)]
    name = f"by_{kind.value}"
    title = "Device time by kind" if kind is ChartKind.PIE else "Self time by kind"
    return Chart(title, kind, Table.from_rows(name, title, fields, rows), "kind", ("self_ps",))


@functools.cache
def empty_table() -> Table:
    return Table.from_rows(
        "nothing", "Failed transfers", (Field("name", Unit.TEXT, "a name"), Field("n", Unit.COUNT, "a count")), []
    )


def realistic(steps: int = 120, ops: int = 34) -> Report:
    steps_chart = step_graph(steps)
    overview = Page(
        id="overview",
        title="Overview",
        question="What bounds the program, and what should change first?",
        headline="The program is input-bound: 51.7% of the step time is spent waiting for input.",
        sections=(
            Figures(
                "Step time",
                (
                    Figure("Mean step time", np.int64(61 * MS + 123456789), Unit.PS, "± 1.2 ms (95%)"),
                    Figure("Steps", 120, Unit.COUNT, "marked"),
                    Figure("Throughput", 16.4, Unit.RATIO, "steps per second"),
                    Figure("Peak device memory", 13_743_895_347, Unit.BYTES, "of 16.0 GiB"),
                    Figure("Idle device", float("nan"), Unit.FRACTION),
                ),
            ),
            steps_chart,
        ),
        findings=(finding_input(), finding_info()),
        glance=average_step(),
        evidence=("120 steps, marked by the program; the step time varies by 4.1%", "no events were dropped"),
    )
    ops_page = Page(
        id="ops",
        title="Operations",
        question="Which operations take the time?",
        headline="Conv2D takes 52% of the device time.",
        sections=(shares(ChartKind.PIE), shares(ChartKind.BARS), TableView(op_table(ops), remark="self time on the device")),
        findings=(finding_bound(), finding_precision()),
    )
    narrow = ("name", "self_ps", "share")
    data = Page(
        id="tf_data",
        title="tf.data bottleneck",
        question="Which stage of the input pipeline is the bottleneck?",
        headline="ParallelMapV2 on the critical path has the longest self time.",
        sections=(pipeline(), TableView(empty_table()), TableView(op_table(8), narrow, limit=3)),
        hidden_tables=(dataclasses.replace(op_table(2), name="more_ops"),),
    )
    memory = Page(
        id="memory",
        title="Memory profile",
        question="Where does the memory go?",
        unavailable=Unavailable("the profile holds no allocation events", "Capture with host_tracer_level=2 on a GPU or TPU."),
    )
    return Report(
        source="logs/plugins/profile/2026_11_21",
        headline="The program is input-bound: it waits for input for 51.7% of the step time.",
        warnings=(
            "worker-3.xplane.pb ends in the middle of a record: 12,345 events were lost.",
            "Clocks of 2 hosts differ by 3.1 ms.",
        ),
        findings=(finding_input(), finding_bound(), finding_precision(), finding_info()),
        pages=(overview, ops_page, data, memory),
        struck=(finding_struck(),),
    )


HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "</script><!--<script>",
    "\x1b[31mred\x1b]0;title\x07",
    "x" * 1_000_000,
    "bad \ud800 surrogate \udcff",
    "=cmd()",
    "+1", "-1", "@sum", "\tx", "\rx",
    'quote " comma , newline \n end',
    "\u202egnirts\u202c \u200b zero \u2028 line \u2029 end",
    "日本語の名前" * 40,
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }} {% raw %}",
    "$& $1 \\x41",
    "",
    ' =HYPERLINK("http://evil")',
)  # fmt: skip


def hostile() -> Report:
    fields = (
        Field("name", Unit.TEXT, "<b>meaning</b>"),
        Field("maybe", Unit.TEXT, "some are None"),
        Field("value", Unit.RATIO, "NaN, inf"),
        Field("mixed", Unit.COUNT, "numbers and None"),
    )
    values = [float("nan"), float("inf"), float("-inf"), 1.5]
    count = len(HOSTILE_NAMES)
    data = {
        "name": list(HOSTILE_NAMES),
        "maybe": [None if i % 2 else n for i, n in enumerate(HOSTILE_NAMES)],
        "value": [values[i % 4] for i in range(count)],
        "mixed": np.array([None if i % 3 else np.int64(i * 5 - 4) for i in range(count)], dtype=object),
    }
    bad = HOSTILE_NAMES[0] + HOSTILE_NAMES[2] + HOSTILE_NAMES[4] + HOSTILE_NAMES[12]
    table = Table.build("rows", bad, fields, data)
    tree_fields = tuple(Field(n, Unit.TEXT, bad) for n in ("id", "parent", "label", "role"))
    tree_rows = [(str(i), str((i + 1) % count), name, name) for i, name in enumerate(HOSTILE_NAMES)]  # a cycle
    tree = Table.from_rows("tree", bad, tree_fields, tree_rows)
    finding = Finding(
        bad, Severity.MODERATE, bad, bad, (Evidence(bad, float("nan"), Unit.PS, bad),), Threshold(bad, 1.0, Unit.COUNT, bad),
        (bad,), Saving(0.0, 1.0, (bad,), bad, 1e30, bad), bad, bad, explains=(bad,), symptom=bad, struck=bad,
    )  # fmt: skip
    other = (ChartKind.GRAPH, ChartKind.ICICLE, ChartKind.AREA, ChartKind.SCATTER)  # these want columns of their own
    charts = tuple(Chart(bad, kind, table, "name", ("mixed",), {}, bad) for kind in ChartKind if kind not in other)
    area_fields = (
        Field("time_ps", Unit.PS, bad),
        *(Field(n, Unit.NONE, bad) for n in ("free", "step", "broken", "used", "who")),
    )
    area_rows = [(i * 1000, values[i % 4], name, values[-i % 4], 2.0**60 - i, name) for i, name in enumerate(HOSTILE_NAMES)]
    events = Table.from_rows("events", bad, area_fields, area_rows)
    icicle_fields = (*tree_fields[:3], Field("size", Unit.PS, bad))
    icicle_rows = [(str(i), "0" if i % 2 else "", name, 1e9 - i) for i, name in enumerate(HOSTILE_NAMES)]
    nested = Table.from_rows("nested", bad, icicle_fields, icicle_rows)
    plane_fields = (
        *(Field(n, Unit.RATIO, bad) for n in ("x", "y", "size")),
        *(Field(n, Unit.TEXT, bad) for n in ("name", "line")),
    )
    plane_rows = [
        (10.0 ** (i - 3), (1e300, 5.0, float("nan"), -1.0, 1e-300)[i % 5], values[i % 4], name, name if i % 7 == 0 else "")
        for i, name in enumerate(HOSTILE_NAMES)
    ]
    plane = Table.from_rows("plane", bad, plane_fields, plane_rows)
    page = Page(
        id="hostile",
        title=bad,
        question=bad,
        headline=bad,
        sections=(
            *charts,
            Chart(bad, ChartKind.GRAPH, tree, "id", ("parent", "label", "role")),
            Chart(bad, ChartKind.ICICLE, nested, "id", ("parent", "label", "size")),
            Chart(bad, ChartKind.AREA, events, "time_ps", ("free", "step", "broken", "used"), {}, bad, detail="<b>"),
            Chart(bad, ChartKind.AREA, events, "time_ps", ("free", "step", "broken", "used"), {}, bad, "who"),
            Chart(bad, ChartKind.SCATTER, plane, "x", ("y", "size", "name", "line", "size"), {}, bad, state="name"),
            Chart("empty", ChartKind.SCATTER, empty_table(), "n", ("n", "n", "name", "name")),
            Chart("empty", ChartKind.AREA, empty_table(), "n", ("n", "n", "n", "n")),
            Chart("empty", ChartKind.GRAPH, empty_table(), "name", ("name", "name", "name")),
            Chart(bad, ChartKind.STACK_SERIES, table, "name", ("mixed",), {}, bad, select="name"),
            TableView(table, limit=50, remark=bad),
            TableView(empty_table()),
            Paragraph(bad, bad + "\nsecond line"),
            Figures(bad, (Figure(bad, bad, Unit.TEXT, bad), Figure("none", None, Unit.PS))),
            Chart("empty", ChartKind.STACK_SERIES, empty_table(), "name", ("n",)),
            Chart("empty", ChartKind.STACK_TOTAL, empty_table(), "name", ("n",)),
            Chart("empty", ChartKind.PIE, empty_table(), "name", ("n",)),
            Chart("empty", ChartKind.ICICLE, empty_table(), "name", ("name", "name", "n")),
            Chart("empty", ChartKind.STACK_SERIES, empty_table(), "name", ("n",), select="name"),
        ),
        findings=(finding,),
    )
    gone = Page("gone", bad, bad, unavailable=Unavailable(bad, bad))
    failed = Page("failed", bad, bad, failure=ToolFailure(bad, bad), evidence=(bad,), glance=average_step())
    return Report(bad, bad, (bad,), page.findings, (page, gone, failed), page.findings)
