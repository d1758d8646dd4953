"""The model's own computation: its parts, odd ops, short ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from outpace.metrics.facts import graph_costs, hlo_instructions, model_ops
from outpace.metrics.facts.graph_costs import GraphCosts
from outpace.metrics.facts.op_locations import LAYER, LINE, OpLocation
from outpace.metrics.facts.roofs import Bound, Roof, device_roofs, op_roof
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings import best_case
from outpace.metrics.views import float64_ops, host_copies, host_time, misplaced_ops, model_parts, model_work, small_ops
from outpace.model import Category, Severity
from outpace.testing import GpuBuilder, SpaceBuilder, training_run
from outpace.timeline.hlo.cost import product_cost
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.hlo.slow_cases import SlowCase
from outpace.timeline.work_kinds import WorkKind, classify_work
from outpace.tools.model_time import findings as rules
from outpace.trace import Trace, read_trace
from tests.advice_cases.build import HOST, MS, STEP, STEPS, budget, computes, device_trace, run, table
from tests.advice_cases.case import JAX, KERAS, KERAS_JAX, TENSORFLOW, Case, Find, about, fires, silent, worded

_US = 1_000_000
Rows = list[dict[str, Any]]


_LAYER = {
    "name": "encoder",
    "kind": "layer",
    "type": "Dense",
    "file": "/home/me/model.py",
    "line": 5,
    "text": "",
    "inner": False,
    "call_file": "",
    "call_line": 0,
}
_NO_ROOF = {"above_ps": float("nan")}  # of rows of parts and kinds of work whose roofs are not known


def _line_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a compiled line whose roof is not known, unless it says so."""
    return {"bound": "unknown", "loop_ps": row["time_ps"] if "/while/" in row.get("op", "") else 0, **row}


def _find(
    parts: Rows | None = None,
    odd: Rows | None = None,
    small: Rows | None = None,
    lines: Rows | None = None,
    shares: Mapping[Category, float] | None = None,
    program: Workload = TENSORFLOW,
    profiling: float = 0.0,
    record: Mapping[str, Any] | None = None,
    copied: float = 0.0,
    work: Rows | None = None,
    traces: tuple[Trace, ...] = (),
    between: float = 0.0,
    ran: tuple[hlo_instructions.InstructionStats, ...] = (),
    best: Rows | None = None,
    double: Rows | None = None,
    half: Rows | None = None,
    located: tuple[model_parts.LocatedOp, ...] = (),
    executed: tuple[tuple[str, str, str], ...] = (),
    costs: GraphCosts | None = None,
) -> Find:
    """A model of which nothing is said but this."""
    of = run(
        {
            model_parts.located_ops: tuple((ops, located) for ops in computes(0.5)),
            model_ops.model_ops: tuple(replace(ops, ops=executed) for ops in computes(0.5)),
            host_time.host_time: table("host_time", host_time.HOST_TIME, {"part": host_time.DISPATCH, "share": between}),
            host_copies.host_copies: table("host_copies", host_copies.HOST_COPIES, {"share": copied}),
            float64_ops.float64_ops: table("double_ops", float64_ops.DOUBLE_OPS, *(double or [])),
            float64_ops.emulated_half_ops: table("half_ops", float64_ops.HALF_OPS, *(half or [])),
            best_case.best_case_ops: table("own_best", best_case.OWN_BEST, *(best or [])),
            model_parts.model_parts: table(
                "model_parts", model_parts.MODEL_PARTS, *(_NO_ROOF | {"far_ps": float("nan")} | row for row in parts or [])
            ),
            misplaced_ops.misplaced_ops: table("odd_ops", misplaced_ops.ODD_OPS, *(odd or [])),
            small_ops.small_ops: table("small_ops", small_ops.SMALL_OPS, *(small or [])),
            hlo_instructions.instruction_stats: {HOST: ran},
            graph_costs.graph_costs: {HOST: costs} if costs is not None else {},
            hlo_instructions.hlo_source_lines: table("hlo_lines", hlo_instructions.HLO_LINES, *map(_line_row, lines or [])),
            model_work.model_work: table("model_work", model_work.MODEL_WORK, *(_NO_ROOF | row for row in work or [])),
        },
        record,
        *traces,
    )
    known = {host: replace(one, profiling_share=profiling) for host, one in budget(shares or {Category.INPUT: 0.3}).items()}
    return lambda: rules.iter_findings(of, known, program)


def _part(share: float, op: str = "TopKV2", name: str = "dense", mean: float = 1000.0) -> dict[str, Any]:
    """A part of the model whose ops take `mean` us each."""
    count = share * STEP / (mean * _US)
    return {
        "part": name,
        "source": "/home/me/model.py:5",
        "share": share,
        "self_ps": round(share * STEP),
        "work": classify_work(op).value,
        "top_op": op,
        "top_op_ps": round(share * STEP),
        "count": count,
    }


def _layers(*shares: float, line: int = 5, of: str = "Sorter") -> Rows:
    """Layers of one class that one line made."""
    rows = [_part(share, name=f"sorter_{n}") for n, share in enumerate(shares)]
    return [{**row, "layer_type": of, "source": f"/home/me/model.py:{line}"} for row in rows]


def _lines_in_loop(
    *shares: float, text: str = "for i in tf.range(n):", feeds: bool = False, op: str = "Tanh", draws: float = 0.0
) -> Find:
    """Lines of short ops in the body of a loop (model.py:4), which takes elements of a data set or
    does not; the first of them draws random numbers for this share of the step.
    """
    record = {
        "op_sources": {
            "lines": [["/home/me/model.py", 4, text]],
            "by_function": {"__inference_step_1": {"scope/while": 0}},
        }
    }
    lines = [{**_part(share, op, f"/home/me/model.py:{5 + n}"), "kind": "line"} for n, share in enumerate(shares)]
    rows = [
        {
            **row,
            "source": row["part"],
            "self_ps": row["self_ps"] / 4,
            "top_op_ps": row["top_op_ps"] / 4,
            "overhead_ps": row["self_ps"] * 3 / 4,
            "count": 100.0,
            "top_op_name": f"scope/while/body/_1/scope/while/{op}",
        }
        for row in lines
    ]
    feed = ("scope/while/body/_1/scope/while/IteratorGetNext", "IteratorGetNext", "")
    odd = {"kind": misplaced_ops.RANDOM, "type": "RandomUniform", "part": "model.py:5", "source": "model.py:5", "share": draws}
    drawn: Rows = [{**odd, "self_ps": round(draws * STEP)}] if draws else []
    return _find(rows, record=record, executed=(feed,) * feeds, odd=drawn)


def _recurrent(dropout: float) -> Find:
    """A recurrent layer of Keras that takes half of the step."""
    made = {"file": "/home/me/model.py", "line": 5, "text": "", "inner": False, "call_file": "", "call_line": 0}
    layer = {"name": "lstm", "kind": "layer", "type": "LSTM", **made, "recurrent_dropout": dropout}
    row = {**_part(0.5, "Mul", "lstm"), "work": WorkKind.RECURRENT.value, "layer_type": "LSTM", "count": 400.0}
    return _find([row], record={"layers": {"lstm": layer}}, program=KERAS)


def _works(*shares: float, kind: WorkKind = WorkKind.CONVOLUTION, op: str = "_MklNativeConv2D", side: str = "Host") -> Rows:
    """A kind of work in so many layers."""
    named = {"work": kind.value, "top_op": op, "side": side}
    times = [{"share": share, "self_ps": round(share * STEP), "top_op_ps": round(share * STEP)} for share in shares]
    return [{**named, "part": f"layer_{n}", **time} for n, time in enumerate(times)]


def _loop(share: float, starts: float, count: float = 200.0, beside: float = 0.0) -> Rows:
    """A layer of `count` short ops per step, of whose time the executor takes `starts`; beside it
    another one, with `beside` of the step around its ops.
    """
    time = share * STEP
    whole = {"self_ps": round(time * (1 - starts)), "overhead_ps": round(time * starts), "count": count}
    return [{**_part(share, "Mul", "smoother"), **whole}, {**_part(0.1, name="out"), "overhead_ps": round(beside * STEP)}]


def _slow(share: float, op: str = "TopKV2", program: Workload = TENSORFLOW, **more: Any) -> Find:
    return _find([_part(share, op), _part(0.1, name="out")], program=program, **more)


def _double(share: float, program: Workload = TENSORFLOW) -> Find:
    row = {"part": "dense", "source": "/home/me/model.py:5", "op": "MatMul", "share": share / 2, "product": True}
    other = {**row, "op": "Tanh", "share": 0.05, "product": False}
    return _find([_part(0.35, "MatMul")], double=[row, {**row, "part": "out"}, other], program=program)


def _emulated(share: float, program: Workload = TENSORFLOW) -> Find:
    """A layer of which half of the time allocates arrays of 16 bits."""
    row = {"part": "dense", "source": "/home/me/model.py:5", "op": "MatMul", "share": share / 2, "product": True}
    return _find([_part(share, "MatMul")], half=[row], program=program)


@cache
def _tpu(peak: float) -> Trace:
    """Steps on a device whose plane tells its peak."""
    space = training_run(steps=STEPS, step_ps=STEP, hostname=HOST)
    line = space.plane("/device:TPU:0").stat("peak_teraflops_per_second", peak).line("XLA Ops")
    for number in range(STEPS):
        line.event("dot.1", number * STEP, STEP // 2)
    return read_trace(space.to_bytes(), HOST)


def _rated(rate: float, peak: float) -> Find:
    """A line of a program whose product runs at `rate` TFLOP/s on a device that reaches `peak`."""
    row = {"source": "/home/me/model.py:5", "count": 100, "op": "jit(step)/dot_general", "opcode": "dot", "side": "device"}
    row |= {"share": 0.4, "time_ps": round(0.4 * STEP), "flops_per_s": rate * 1e12}
    return _find(lines=[row], program=JAX, traces=(_tpu(peak),))


def _paced(median: float, *equal: float, beside: float = 0.0) -> Find:
    """A layer whose product of 10 MFLOP takes `median` us, 100 at its best, beside others of as
    many FLOPs.
    """
    rows = [
        {
            "name": f"jit(step)/dense_{n}/dot_general",
            "type": "dot",
            "median_ps": round(us * _US),
            "best_ps": min(round(us * _US), 100 * _US),
            "flops": 1e7,
            "wall_ps": 9 - n,
            "at_best": beside,
        }
        for n, us in enumerate((median, *equal))
    ]
    line = {"source": "/home/me/model.py:5", "count": 100, "op": "jit(step)/dense_0/dot_general", "opcode": "dot"}
    return _find(lines=[{**line, "share": 0.4, "time_ps": round(0.4 * STEP)}], best=rows, program=JAX)


def _said(op: str, beside: tuple[float, ...] = (), **told: Any) -> Find:
    """A line that takes 40% of the steps of a device whose memory moves 1 TB/s: one op of 4 ms per
    step, of which its program says this. `beside`: FLOPs of others, which are aligned where this
    one is not.
    """
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        line.event("train", number * STEP, STEP, step_num=number, _r=1)
    GpuBuilder(space, line, memory_bandwidth=10**12, peak_teraflops_per_second=100.0).kernel(
        "gemm", 5 * MS, MS, op="dense/MatMul:MatMul", called=4 * MS
    )
    row = {"side": "device", "op": f"jit(step)/{op}", "opcode": "custom-call", "source": "/home/me/model.py:5", "share": 0.4}
    lines = [{**row, "time_ps": 4 * MS, "count": STEPS}]
    called, trace = HloOp("custom-call", source="/home/me/model.py:5", **told), read_trace(space.to_bytes(), HOST)
    roof = op_roof(called, STEPS, 4.0 * MS * STEPS, device_roofs(trace.planes[-1]))
    ran = hlo_instructions.InstructionStats("device", called, 4.0 * MS, 0.4, STEPS, STEPS, roof=roof)
    others = [replace(ran, op=replace(ran.op, cost=product_cost(flops), is_aligned=not ran.op.is_aligned)) for flops in beside]
    shares = {Category.DEVICE_COMPUTE_16: 0.6, Category.HOST_COMPUTE: 0.4}
    return _find(lines=lines, shares=shares, program=JAX, traces=(trace,), ran=(ran, *others))


def _slow_op(above: float, share: float, case: SlowCase | None = None) -> hlo_instructions.InstructionStats:
    """An op of the line with `share` of the step, `above` of the step of it above the roof."""
    took = round(share * STEP)
    roof = Roof(Bound.NEITHER, 1 - above / share, above / share * took * STEPS)
    op = HloOp("fft", source="/home/me/model.py:5", description="FFT of 1,021", slow_case=case)
    return hlo_instructions.InstructionStats("device", op, float(took), share, STEPS, STEPS, roof=roof)


def _above(
    above: float, case: SlowCase | None = None, beside: SlowCase | None = None, part: float = 0.0, opcode: str = "fft"
) -> Find:
    """A line of a device with 20% of the step, `above` of the step of it above the roof, `part` of
    that in a second op, which is another slow case.
    """
    share, took = 0.2, round(0.2 * STEP)
    row = {"side": "device", "op": f"jit(step)/{opcode}", "opcode": opcode, "source": "/home/me/model.py:5", "share": share}
    line = {**row, "time_ps": took, "count": STEPS, "bound": "neither", "above_ps": above / share * took}
    shares = {Category.DEVICE_COMPUTE_32: 0.6, Category.HOST_COMPUTE: 0.4}
    ops = [_slow_op(above * (1 - part), share * (1 - part), case)]
    ops += [_slow_op(above * part, share * part, beside)] if part else []
    return _find(lines=[line], shares=shares, program=JAX, traces=(_gpu(),), ran=tuple(ops))


def _function_above(*above: float) -> Find:
    """Lines 5, 6, ... of one function on a device, each a transposition with so much of the step
    above its roof, and 0.05 more in all.
    """
    lines, ran = [], []
    for number, part in enumerate(above, 5):
        source, took = f"/home/me/model.py:{number}", round((part + 0.05) * STEP)
        row = {
            "side": "device",
            "op": f"jit(step)/transpose_{number}",
            "opcode": "transpose",
            "source": source,
            "share": part + 0.05,
        }
        lines.append({**row, "time_ps": took, "count": STEPS, "bound": "neither", "above_ps": part / (part + 0.05) * took})
        op = _slow_op(part, part + 0.05)
        ran.append(replace(op, op=replace(op.op, source=source, function="Net.loss")))
    shares = {Category.DEVICE_COMPUTE_32: 0.8, Category.HOST_COMPUTE: 0.2}
    return _find(lines=lines, shares=shares, program=JAX, traces=(_gpu(),), ran=tuple(ran))


def _layer_above(above: float, far: float) -> Find:
    """A layer with 40% of the step, `above` of its time above the roofs of its compiled ops, `far`
    of that in ops far below them.
    """
    row = {**_part(0.4, "Fft"), "above_ps": above * 0.4 * STEP, "far_ps": far * 0.4 * STEP}
    return _find([row, _part(0.1, name="out")], ran=(_slow_op(above * 0.4, 0.4),))


def _frozen(frozen: float, back: float = 0.0, head: float = 0.1, is_frozen: bool = True) -> Find:
    """A layer that does not train, with so much of the step forward and in gradients, and one that
    does.
    """
    places = {
        "encoder": OpLocation("encoder", LAYER, "/home/me/model.py:5", is_frozen=is_frozen),
        "encoder_back": OpLocation("encoder", LAYER, "/home/me/model.py:5", is_frozen=is_frozen, is_backward=True),
        "head": OpLocation("head", LAYER, "/home/me/model.py:6", is_backward=True),
    }
    times = {"encoder": frozen, "encoder_back": back, "head": head}
    # The ops of `computes` are ten steps of 10 ms.
    ops = (
        model_parts.LocatedOp(places[name], name, "MatMul", STEPS, share * STEP * STEPS, 0.0, 0.0, float("nan"))
        for name, share in times.items()
        if share
    )
    return _find(located=tuple(ops), record={"layers": {"encoder": {"is_frozen": True, **_LAYER}}}, program=KERAS)


def _partly_read(share: float, needed: float) -> Find:
    """A product of a graph with so much of the step, half of it in its gradient, of whose result a
    slice reads this part.
    """
    place = OpLocation("dense", LAYER, "/home/me/model.py:5")
    names = ("dense/MatMul", "gradient_tape/dense/MatMul/MatMul_1")
    ops = (
        model_parts.LocatedOp(place, name, "MatMul", STEPS, share / 2 * STEP * STEPS, 0.0, 0.0, float("nan")) for name in names
    )
    function = "__inference_train_1"
    parts = {function: {"dense/MatMul": (needed, "strided_slice")}}
    record = {
        "graph_shapes": {"texts": [], "by_function": {}, "needed": parts},
        "op_sources": {"lines": [("/home/me/model.py", 9, "y = y[:, -1]")], "by_function": {function: {"strided_slice": 0}}},
    }
    costs = GraphCosts({function: {"dense/MatMul": "MatMul f32[8,4] f32[4,2] -> f32[8,2]"}}, parts)
    return _find(located=tuple(ops), record=record, costs=costs)


def _backward(share: float, times: int) -> Find:
    """Gradients that take so much of the step, in a function that computes them several times."""
    place = OpLocation("dense", LAYER, "/home/me/model.py:9", is_backward=True)
    op = model_parts.LocatedOp(place, "back", "MatMul", STEPS, share * STEP * STEPS, 0.0, 0.0, float("nan"))
    again = {"times": times, "file": "/home/me/model.py", "line": 5}
    record = {
        "graph_shapes": {"texts": ["x"], "by_function": {}},
        "op_sources": {"lines": [], "by_function": {}, "repeated": {"__inference_train_1": again}},
    }
    return _find(located=(op,), record=record, traces=(_calling(),))


def _calling() -> Trace:
    """A training whose steps call a function."""
    space = SpaceBuilder(hostname=HOST)
    python = space.plane("/host:CPU").line("python")
    for step in range(STEPS):
        python.event("train", step * STEP, STEP, step_num=step)
        python.event("EagerExecute", step * STEP + 1, STEP // 2, eager_op="__inference_train_1", is_func=1)
    return read_trace(space.to_bytes(), HOST)


def _pairs(share: float, op: str = "Sub", of: str = "8,1,4", is_summed: bool = True, then: str = "") -> Find:
    """A layer that combines the rows of two arrays, and adds up what it has made of them, for so
    much of the step.
    """
    texts = {"pair": f"{op} f32[{of}] f32[16,4] -> f32[8,16,4]", "next": "Square f32[8,16,4] -> f32[8,16,4]"}
    texts["next"] = {"Mul": "Sum f32[8,16,4] s32[] -> f32[8,16]", "L1": "Abs f32[8,16,4] -> f32[8,16,4]"}.get(
        then or op, texts["next"]
    )
    texts["sum"] = "Sum f32[8,16,4] s32[] -> f32[8,16]" if is_summed else "Exp f32[8,16,4] -> f32[8,16,4]"
    place = OpLocation("distances", LAYER, "/home/me/model.py:5")
    ops = (model_parts.LocatedOp(place, name, op, STEPS, share / 3 * STEP * STEPS, 0.0, 0.0, float("nan")) for name in texts)
    record = {"graph_shapes": {"texts": ["x"], "by_function": {}}}
    return _find(located=tuple(ops), record=record, costs=GraphCosts({"__inference_train_1": texts}))


def _table(share: float, looked_up: int, reader: str = "") -> Find:
    """Ops on all rows of a table of 1,000, with so much of the step, and a look-up of some rows."""
    function = "__inference_train_1"
    texts = {
        "look": f"ResourceGather resource[] s32[{looked_up}] -> f32[{looked_up},8]",
        "norm": "L2Loss f32[1000,8] -> f32[]",
        "adam/mul": "Mul f32[1000,8] f32[] -> f32[1000,8]",
    }
    tables = {function: (("f32[1000,8]", "look", reader),)}
    places = {"look": 5, "norm": 6, "adam/mul": 7}
    ops = (
        model_parts.LocatedOp(
            OpLocation(f"model.py:{line}", LINE, f"/home/me/model.py:{line}"),
            name,
            "Mul",
            STEPS,
            time * STEP * STEPS,
            0.0,
            0.0,
            float("nan"),
        )
        for (name, line), time in zip(places.items(), (0.05, share / 4, share * 3 / 4), strict=True)
    )
    lines = [("/home/me/model.py", line, "") for line in places.values()]
    record = {
        "graph_shapes": {"texts": ["x"], "by_function": {}, "tables": tables},
        "op_sources": {"lines": lines, "by_function": {function: {name: at for at, name in enumerate(places)}}},
    }
    return _find(located=tuple(ops), record=record, costs=GraphCosts({function: texts}, {}, tables))


def _graph_op_above(above: float, beside: bool = False) -> Find:
    """A part with 40% of the step, `above` of the step of it above the roof of its cumulative sum;
    of a layer, `beside` which the same line made another one.
    """
    row = {**_part(0.4, "Transpose"), "above_ps": above * STEP, "far_ps": above * STEP, "layer_type": "Dense" * beside}
    if beside:
        other = {**row, **_part(0.01, "Transpose", "dense_1"), "above_ps": 0.0, "far_ps": 0.0}
        return _find([row, other, _part(0.1, name="out")], located=_graph_ops(above))
    return _find([row, _part(0.1, name="out")], located=_graph_ops(above))


def _graph_ops(above: float) -> tuple[model_parts.LocatedOp, ...]:
    """The ops of that part."""
    place = OpLocation("dense", LINE, "/home/me/model.py:5")
    times = {"Cumsum": (above + 0.01, 0.01), "MatMul": (0.4 - above - 0.01, 0.3 - above)}
    return tuple(
        model_parts.LocatedOp(place, kind, kind, STEPS, wall * STEP * STEPS, 0.0, 0.0, least * STEP * STEPS)
        for kind, (wall, least) in times.items()
    )


def _partly_known(known: float) -> Find:
    """A line with 40% of the step, `known` of that in transpositions with a known roof, 30% of
    their time above it, and the rest in ops without one.
    """
    row = {"source": "/home/me/model.py:5", "count": 100, "op": "jit(step)/transpose", "opcode": "transpose"}
    parts = {"memory": 0.4 * known, "unknown": 0.4 * (1 - known)}
    rows = [
        {**row, "bound": bound, "share": share, "time_ps": round(share * STEP), "above_ps": 0.3 * share * STEP}
        for bound, share in parts.items()
    ]
    return _find(lines=rows, program=JAX)


def _attends(share: float, softmax: float = 0.5) -> Find:
    """A device's attention in several kernels, for `share` of the step, of which the softmax takes
    a part.
    """
    op = HloOp("fusion", source="/home/me/model.py:5", is_attention=True)
    parts = [
        hlo_instructions.InstructionStats(
            "device", replace(op, cost=product_cost(flops)), part * share * STEP, part * share, STEPS, STEPS
        )
        for flops, part in ((0.0, softmax), (1e9, 1 - softmax))
    ]
    return _find(shares={Category.DEVICE_COMPUTE_16: 0.9}, program=JAX, traces=(_gpu(),), ran=tuple(parts))


@cache
def _gpu() -> Trace:
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        line.event("train", number * STEP, STEP, step_num=number, _r=1)
    GpuBuilder(space, line).kernel("gemm", 5 * MS, MS, called=4 * MS)
    return read_trace(space.to_bytes(), HOST)


def _of_one_kind(share: float, **told: Any) -> Find:
    """Two ops of a device that together take `share` of the step, of which the program
    says this.
    """
    ops = [HloOp("fusion", source=f"/home/me/model.py:{line}", **told) for line in (5, 6)]
    ran = tuple(
        hlo_instructions.InstructionStats("device", op, part * share * STEP, part * share, STEPS, STEPS)
        for op, part in zip(ops, (0.7, 0.3), strict=True)
    )
    return _find(shares={Category.DEVICE_COMPUTE_16: 0.9}, program=JAX, traces=(_gpu(),), ran=ran)


def _scan(first: float) -> Find:
    """2,000 ops of 2 us in a loop, of which one line makes a part and others the rest."""
    rows: Rows = [
        {
            "op": f"jit(step)/while/body/mul_{n}",
            "opcode": "fusion",
            "source": f"/home/me/model.py:{5 + n}",
            "share": 0.4 * part,
            "time_ps": round(0.4 * part * STEP),
            "count": round(part * 2000) * STEPS,
        }
        for n, part in enumerate((first, *([(1 - first) / 4] * 4)))
    ]
    return _find(lines=rows, program=JAX)


def undonated(
    share: float, line: float = 0.0, moved: float = 0.0, largest: float = 0.0, names: int = 1, program: Workload = JAX
) -> Find:
    """Copies of undonated arguments on a device, for a `share` of the step; the line that they are
    of takes `line` of it, copies of two lines `moved`, and products `largest`.
    """
    named = [f"state[{n}]" for n in range(names)]
    copies = (HloOp("copy", source="/home/me/model.py:5", undonated_argument=name) for name in named)
    ran = tuple(
        hlo_instructions.InstructionStats("device", op, share * STEP / names, share / names, STEPS, STEPS) for op in copies
    )
    row = {"side": "device", "op": "(copy)", "opcode": "copy", "source": "/home/me/model.py:5", "time_ps": MS, "count": STEPS}
    kinds = [
        {
            "work": WorkKind.MOVEMENT.value,
            "top_op": "(copy)",
            "side": "Device",
            "part": f"model.py:{n}",
            "source": f"/home/me/model.py:{n}",
        }
        | {"share": moved / 2}
        for n in (5, 6)
    ]
    products = [
        {"work": WorkKind.MATMUL.value, "top_op": "dot_general", "side": "Device", "part": "model.py:7", "share": largest}
    ]
    return _find(
        lines=[{**row, "share": line}] if line else [],
        work=(kinds if moved else []) + (products if largest else []),
        shares={Category.DEVICE_COMPUTE_32: 0.7, Category.DEVICE_TO_DEVICE: 0.3},
        program=program,
        traces=(device_trace(),),
        ran=ran,
    )


def _odd(
    share: float,
    kind: str = misplaced_ops.RANDOM,
    op: str = "RandomUniform",
    program: Workload = TENSORFLOW,
    record: Mapping[str, Any] | None = None,
    apart: bool = False,
    whole: float = 0.0,
) -> Find:
    row = {
        "kind": kind,
        "apart": apart,
        "type": op,
        "part": "noise",
        "source": "/home/me/model.py:9",
        "share": share,
        "self_ps": round(share * STEP),
    }
    line = [{**_part(whole, "Mul", "noise"), "source": "/home/me/model.py:9"}] * bool(whole)
    return _find(line, odd=[row], program=program, record=record)


def _called_back(others: bool) -> dict[str, Any]:
    """A record whose samples met Python that a program calls back, and the loop around it; on the
    training thread or on others.
    """
    by = "/x/tensorflow/python/ops/script_ops.py" if others else "/x/jax/_src/callback.py"
    samples = {
        "frames": [
            ["/home/me/train.py", "<module>", 1, ""],
            [by, "__call__", 9, "jax"],
            ["/home/me/board.py", "best_move", 30, ""],
        ],
        "stacks": [[[0, 83], [1, 71], [2, 37]], [[0, 83], [1, 71], [2, 38]], [[0, 83]]],
        "samples": [[0, 900, 2]] if others else [[0, 30, 0], [1, 20, 1], [2, 900, 2]],
        "others": [{"name": "native", "cpu_ns": 9, "watched_ns": 9, "stacks": [[0, 3], [1, 2]]}] if others else [],
    }
    return {"cpu_count": 8, "window": {"seconds": 1.0, "cpu_seconds": 0.5}, "python_samples": samples}


def _made_in_a_loop(share: float) -> Find:
    row = {"kind": misplaced_ops.RANDOM, "type": "RandomUniform", "source": "/home/me/model.py:9", "share": share}
    return _find(odd=[{**row, "part": f"noise_{n}", "self_ps": round(share * STEP)} for n in range(2)])


def _short(
    elementwise: float,
    overhead: float,
    rounds: int,
    program: Workload = TENSORFLOW,
    parts: Rows | None = None,
    profiling: float = 0.0,
    work: Rows | None = None,
) -> Find:
    row = {"elementwise_share": elementwise, "overhead_share": overhead, "dispatches": rounds, "half_ps": 5 * _US}
    return _find(parts, small=[row], program=program, profiling=profiling, work=work)


def _made_at(*shares: float, kind: WorkKind = WorkKind.ELEMENTWISE, mean: float = 100.0) -> Rows:
    """A kind of op with a mean time of `mean` us, made at lines 5, 6, 7, ..., each with its share
    of the step.
    """
    rows = [{"work": kind.value, "part": f"part_{n}", "source": f"/home/me/model.py:{5 + n}"} for n in range(len(shares))]
    times = [{"share": share, "self_ps": round(share * STEP), "count": share * STEP / (mean * _US)} for share in shares]
    tops = [{"top_op": "Transpose", "top_op_ps": time["self_ps"]} for time in times]
    return [{**row, **time, **top} for row, time, top in zip(rows, times, tops, strict=True)]


def _looped(inside: float, count: int = 400, mean: float = 10.0) -> Find:
    """A line of a compiled program, 40% of the step: `count` ops per step that take `mean` us each,
    of which loops hold a part.
    """
    parts = {"jit(step)/while/body/mul": inside, "jit(step)/add": 1 - inside}
    rows: Rows = [
        {
            "op": op,
            "opcode": "fusion",
            "source": "/home/me/model.py:5",
            "share": 0.4 * part,
            "time_ps": round(part * count * mean * _US),
            "count": part * count * STEPS,
        }
        for op, part in parts.items()
    ]
    return _find(lines=rows, program=JAX)


def _compiled_layer(share: float) -> Find:
    """A layer of Keras on JAX, whose ops all come from the line that calls `fit`, beside others."""
    rows = [
        {
            "op": f"jit(train_step)/{layer}/mul",
            "opcode": "fusion",
            "source": "/home/me/model.py:57",
            "share": part,
            "time_ps": round(part * STEP),
        }
        for layer, part in (("smoother", share / 2), ("smoother", share / 2), ("adam", 0.2))
    ]
    layer = {
        "name": "smoother",
        "kind": "layer",
        "type": "Smoother",
        "file": "/home/me/model.py",
        "line": 5,
        "text": "",
        "inner": False,
    }
    record = {"layers": {"smoother": {**layer, "call_file": "", "call_line": 0}}}
    return _find(lines=rows, program=KERAS_JAX, record=record)


def _compiled(count: int, mean: float, share: float) -> Find:
    """A compiled program of `count` ops per step that take `mean` us each."""
    row = {
        "op": "jit(step)/while/add",
        "opcode": "add",
        "time_ps": round(count * mean * _US),
        "share": share,
        "count": count * STEPS,
    }
    return _find(lines=[row], program=JAX)


def _line(sorts: float) -> Find:
    """A line of a compiled program, 40% of the step, of which `sorts` sorts and the rest
    multiplies.
    """
    usual = {"source": "/home/me/model.py:5", "count": 100, "op": "jit(step)/top"}
    parts = {"sort": 0.4 * sorts, "dot": 0.4 * (1 - sorts)}
    rows = [{**usual, "opcode": code, "share": share, "time_ps": round(share * STEP)} for code, share in parts.items()]
    return _find(lines=rows, program=JAX)


def _bound(share: float, parts: Rows | None = None, program: Workload = TENSORFLOW, copied: float = 0.0) -> Find:
    return _find(parts, shares={Category.HOST_COMPUTE: share, Category.INPUT: 1 - share}, program=program, copied=copied)


def _no_steps() -> Find:
    of = run({})
    return lambda: rules.iter_findings(of, {}, TENSORFLOW)


_HALF: dict[str, Any] = {"cpu_flags": ["amx_bf16"]}
_COMPUTE: dict[str, Any] = {"takes_from": ("host_compute", "device_compute_16", "device_compute_32")}
_AT: dict[str, Any] = {"location": "model.py:5"}
_NOISE: dict[str, Any] = {"location": "model.py:9", **_COMPUTE}
_EIGHT = [_part(0.08, "MatMul", f"dense_{n}") for n in range(8)]
CASES: list[Case] = [
    *worded(
        "slow_part",
        lambda program: _slow(0.35, program=program)(),
        Severity.HIGH,
        keras="once per epoch",
        tensorflow="one op instead of a loop, or outside the step",
        jax="lax.scan",
        saves=about(0.35),
        **_AT,
        **_COMPUTE,
    ),
    *worded(
        "slow_part",
        lambda program: _slow(0.35, "_MklNativeConv2D", program, record=_HALF)(),
        Severity.HIGH,
        name="of dense arithmetic",
        keras="set_global_policy('mixed_bfloat16')",
        tensorflow="with variables in float32",
        jax="with parameters in float32",
        **_AT,
    ),
    *worded(
        "float64",
        lambda program: _double(0.3, program)(),
        Severity.HIGH,
        keras="set_floatx",
        tensorflow="tf.Variable",
        jax="jax_enable_x64",
        saves=about(0.35),
        **_AT,
        **_COMPUTE,
    ),
    fires(
        "float64",
        "in 15% of the step",
        _double(0.15),
        Severity.HIGH,
        saves=about(0.2),
        says=("MatMul in dense (model.py:5)",),
        **_AT,
    ),
    silent("float64", "in 7% of the step", _double(0.07)),
    *worded(
        "emulated_half",
        lambda program: _emulated(0.3, program)(),
        Severity.HIGH,
        keras="leave the policy 'mixed_float16'",
        tensorflow="leave casts to 16 bits",
        jax="leave casts to 16 bits",
        saves=about(0.3),
        **_AT,
        **_COMPUTE,
    ),
    fires(
        "emulated_half", "15% of the step", _emulated(0.15), Severity.HIGH, saves=about(0.15), says=("15% of the step",), **_AT
    ),
    silent("emulated_half", "7% of the step", _emulated(0.07)),
    fires(
        "undonated",
        "one of 60% of the step",
        undonated(0.6, 0.65),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.6),
        takes_from=(*_COMPUTE["takes_from"], "device_to_device"),
        says=("60% of the step copies arguments", "must not overwrite: state[0], at model.py:5.", "donate_argnums"),
    ),
    fires(
        "undonated",
        "five of 8% of the step",
        undonated(0.08, names=5),
        Severity.MODERATE,
        location="model.py:5",
        saves=about(0.08),
        says=("state[0], state[1], state[2] and 2 more",),
    ),
    fires("undonated", "15% of the step", undonated(0.15, 0.4), Severity.MODERATE, location="model.py:5", saves=about(0.15)),
    fires("undonated", "30% of the step", undonated(0.3, 0.4), Severity.HIGH, location="model.py:5", saves=about(0.3)),
    silent("undonated", "4% of the step", undonated(0.04)),
    silent("undonated", "in Keras, which donates itself", undonated(0.6, program=KERAS_JAX)),
    silent("undonated", "in TensorFlow, which updates variables", undonated(0.6, program=TENSORFLOW)),
    fires(
        "slow_part",
        "in the metrics",
        _find([{**_part(0.4, "Greater", "metrics"), "work": "element-wise ops"}, _part(0.1, name="out")], program=KERAS),
        Severity.HIGH,
        saves=about(0.4),
        says=("metrics (model.py:5) take 40% of the step", "in the evaluation alone"),
        never=("Replace",),
        **_AT,
    ),
    fires("slow_part", "in few metrics", _find([_part(0.2, "Greater", "metrics")]), Severity.HIGH, saves=about(0.2), **_AT),
    silent("slow_part", "in hardly any metrics", _find([_part(0.1, "Greater", "metrics")])),
    fires(
        "slow_part",
        "an attention that is causal, without padding, and drops out",
        _said("fused_attn_ffi", backend_config="{dropout_probability = 1.000000e-01 : f64, mask_type = 2 : i64}"),
        Severity.HIGH,
        location="model.py:5",
        says=("leave attention's dropout of 0.1 out", "another fused implementation"),
        never=("causal", "pack short"),
    ),
    fires(
        "slow_part",
        "an attention with padding, in the words of cuDNN",
        _said("fused_attn_ffi", backend_config='{"dropout_rate":0,"mask_type":"PADDING"}'),
        Severity.HIGH,
        location="model.py:5",
        says=("pack short sequences", "say where a mask is causal"),
        never=("dropout",),
    ),
    fires(
        "slow_part",
        "products whose sizes are no multiples of 8",
        _said("dot_general", cost=product_cost(1e9)),
        Severity.HIGH,
        location="model.py:5",
        says=("multiples of 8", "larger batch"),
        never=("limits it",),
    ),
    fires(
        "slow_part",
        "products whose sizes are multiples of 8",
        _said("dot_general", cost=product_cost(1e9), is_aligned=True),
        Severity.HIGH,
        location="model.py:5",
        says=("larger batch",),
        never=("multiples of 8",),
    ),
    fires(
        "slow_part",
        "products of which a third has no such sizes",
        _said("dot_general", (5e8,), cost=product_cost(1e9), is_aligned=True),
        Severity.HIGH,
        location="model.py:5",
        says=("multiples of 8",),
    ),
    fires(
        "slow_part",
        "products beside which one of an image's three channels is nothing",
        _said("dot_general", (5e7,), cost=product_cost(1e9), is_aligned=True),
        Severity.HIGH,
        location="model.py:5",
        says=("larger batch",),
        never=("multiples of 8",),
    ),
    fires(
        "slow_part",
        "an op above its roof that nothing listed brings nearer",
        _above(0.13),
        Severity.HIGH,
        location="model.py:5",
        saves=None,
        says=("in FFT of 1,021", "1.30 ms per step more than the device needs"),
    ),
    fires(
        "slow_part",
        "an op above its roof",
        _above(0.13, opcode="transpose"),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.13),
        takes_from=("host_compute", "device_compute_16", "device_compute_32"),
        says=("in FFT of 1,021", "1.30 ms per step more than the device needs"),
    ),
    fires(
        "slow_part",
        "a slow case",
        _above(0.19, SlowCase("fft_length", "an FFT of 1,021 numbers, a prime", "pad the FFT to 1,024")),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.19),
        says=("in an FFT of 1,021 numbers, a prime", "Pad the FFT to 1,024."),
    ),
    silent("slow_part", "an op a little above its roof", _above(0.08)),
    fires(
        "slow_part",
        "two lines of a function",
        _function_above(0.13, 0.05),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.18),
        says=("model.py:5 and 6 (in loss()) take 28% of the step", "1.80 ms per step more"),
    ),
    fires(
        "slow_part",
        "two lines of a function, one of them hardly above its roof",
        _function_above(0.13, 0.02),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.13),
        says=("model.py:5 takes 18% of the step",),
    ),
    fires(
        "slow_part",
        "five lines of a function",
        _function_above(0.13, 0.06, 0.05, 0.04, 0.03),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.31),
        says=("model.py:5, 6, 7 and 2 more lines (in loss()) take",),
    ),
    *(
        fires(
            "slow_part",
            f"a slow case in {part:.0%} of the time above the roof",
            _above(0.13, beside=SlowCase("fft_length", "an FFT of 1,021 numbers, a prime", "pad the FFT to 1,024"), part=part),
            Severity.HIGH,
            location="model.py:5",
            saves=saving,
            says=(f"in {said}",),
        )
        for part, said, saving in ((0.08, "FFT of 1,021:", None), (0.15, "an FFT of 1,021 numbers, a prime:", about(0.13)))
    ),
    fires(
        "slow_part",
        "a layer far above its roofs",
        _layer_above(0.8, 0.7),
        Severity.HIGH,
        location="model.py:5",
        saves=None,  # nobody knows another way
        says=("than the processor needs",),
    ),
    fires(
        "slow_part",
        "a layer a little above its roofs",
        _layer_above(0.5, 0.1),
        Severity.HIGH,
        location="model.py:5",
        saves=None,
        never=("than the processor needs",),
    ),
    fires(
        "slow_part",
        "an op of TensorFlow far above its roof",
        _graph_op_above(0.13),
        Severity.HIGH,
        location="model.py:5",
        saves=None,
        says=("takes 40% of the step, 14% in Cumsum: 1.30 ms per step more than the processor needs",),
    ),
    fires(
        "slow_part",
        "an op of TensorFlow far above its roof, of a layer beside one of its line",
        _graph_op_above(0.13, beside=True),
        Severity.HIGH,
        location="model.py:5",
        saves=None,
        says=("dense and dense_1 (model.py:5) take 41% of the step, 14% in Cumsum: 1.30 ms per step more",),
    ),
    fires(
        "slow_part",
        "an op of TensorFlow a little above its roof",
        _graph_op_above(0.08),
        Severity.HIGH,
        location="model.py:5",
        saves=about(0.08),
        never=("than the processor needs",),
    ),
    fires("slow_part", "a line of known roofs", _partly_known(0.95), Severity.HIGH, location="model.py:5", saves=about(0.114)),
    fires(
        "slow_part",
        "a line of which a fifth has no known roof",
        _partly_known(0.8),
        Severity.HIGH,
        location="model.py:5",
        saves=None,
    ),
    fires(
        "slow_part",
        "products at 70% of the peak",
        _said("dot_general", cost=product_cost(2.8e11), is_aligned=True),
        Severity.HIGH,
        location="model.py:5",
        says=("near what the device can do", "multiply less"),
        never=("larger batch", "join"),
    ),
    fires(
        "slow_part",
        "products at 40% of the peak",
        _said("dot_general", cost=product_cost(1.6e11), is_aligned=True),
        Severity.HIGH,
        location="model.py:5",
        says=("larger batch",),
        never=("near what", "multiply less"),
    ),
    fires(
        "slow_part",
        "at 60% of the memory's speed",
        _said("dot_general", cost=product_cost(1e9, 2.4e9)),
        Severity.HIGH,
        location="model.py:5",
        says=("at 60% of the memory's speed, which limits it",),
        never=("larger batch",),
    ),
    fires(
        "slow_part",
        "at 30% of the memory's speed",
        _said("dot_general", cost=product_cost(1e9, 1.2e9)),
        Severity.HIGH,
        location="model.py:5",
        says=("larger batch",),
        never=("limits it",),
    ),
    fires(
        "unfused_attention",
        "half of the step",
        _attends(0.5),
        Severity.HIGH,
        saves=about(0.5),
        says=("50% of the step", "25% to the softmax", "at model.py:5", "implementation='cudnn'"),
        **_AT,
        **_COMPUTE,
    ),
    fires("unfused_attention", "20% of the step", _attends(0.2), Severity.HIGH, saves=about(0.2), **_AT),
    silent("unfused_attention", "12% of the step", _attends(0.12)),
    fires(
        "one_hot_product",
        "a third of the step",
        _of_one_kind(0.3, is_one_hot=True),
        Severity.HIGH,
        saves=about(0.3),
        says=("30% of the step", "at model.py:5 and model.py:6", "table[ids]"),
        **_AT,
        **_COMPUTE,
    ),
    fires("one_hot_product", "15% of the step", _of_one_kind(0.15, is_one_hot=True), Severity.HIGH, saves=about(0.15), **_AT),
    silent("one_hot_product", "7% of the step", _of_one_kind(0.07, is_one_hot=True)),
    fires(
        "loop_repeats",
        "a third of the step",
        _of_one_kind(0.3, is_hoistable=True),
        Severity.HIGH,
        saves=about(0.3),
        says=("30% of the step", "at model.py:5 and model.py:6", "before the loop"),
        **_AT,
        **_COMPUTE,
    ),
    fires("loop_repeats", "15% of the step", _of_one_kind(0.15, is_hoistable=True), Severity.HIGH, saves=about(0.15), **_AT),
    silent("loop_repeats", "7% of the step", _of_one_kind(0.07, is_hoistable=True)),
    fires(
        "unused_results",
        "nearly a third of the step",
        _of_one_kind(0.32, needed_share=1 / 64, needed_at="/home/me/model.py:9"),
        Severity.HIGH,
        saves=about(0.315),
        says=("31% of the step", "at model.py:5 and model.py:6", "1.6% of the results", "where model.py:9 takes a part"),
        **_AT,
        **_COMPUTE,
    ),
    fires(
        "unused_results",
        "half of a quarter",
        _of_one_kind(0.25, needed_share=0.5),
        Severity.HIGH,
        saves=about(0.125),
        never=("where",),
        **_AT,
    ),
    fires(
        "unused_results",
        "of all directions of a derivative",
        _of_one_kind(0.5, needed_share=0.2, framework_op="jit(step)/vmap(jvp(vmap(transpose(jvp()))))/dot_general"),
        Severity.HIGH,
        saves=about(0.4),
        says=("jax.jvp along one direction",),
        **_AT,
    ),
    fires(
        "unused_results",
        "for what is weighted with 0",
        _of_one_kind(0.3, needed_share=0.0),
        Severity.HIGH,
        saves=about(0.3),
        says=("30% of the step computes with zeros alone, in model.py:5 and model.py:6", "Leave out what is weighted with 0"),
        **_AT,
        **_COMPUTE,
    ),
    fires(
        "repeated_backward",
        "for each of three losses",
        _backward(0.6, 3),
        Severity.HIGH,
        saves=about(0.4),
        says=(
            "runs 3 times in each step, the last one at model.py:5",
            "60% of the step",
            "Ask once, for the summed loss's gradient",
        ),
        **_AT,
    ),
    fires("repeated_backward", "of a quarter", _backward(0.24, 2), Severity.HIGH, saves=about(0.12), **_AT),
    silent("repeated_backward", "of little", _backward(0.16, 2)),
    fires(
        "all_pairs",
        "of differences",
        _pairs(0.4),
        Severity.HIGH,
        saves=about(0.4),
        says=("40% of the step", "(at model.py:5), 8 x 16 x 4 numbers that are added up again", "|x|^2 - 2 x c + |c|^2"),
        **_AT,
    ),
    fires("all_pairs", "of products", _pairs(0.16, "Mul"), Severity.HIGH, saves=about(0.16), says=("is one product",), **_AT),
    silent("all_pairs", "in 10% of the step", _pairs(0.1)),
    silent("all_pairs", "of which the absolute values are added up", _pairs(0.4, then="L1")),
    silent("all_pairs", "of which the squares are not all", _pairs(0.4, then="Mul")),
    silent("all_pairs", "that are not added up", _pairs(0.4, is_summed=False)),
    silent("all_pairs", "of an array that is as large", _pairs(0.4, of="8,16,4")),
    silent("all_pairs", "of what no product combines", _pairs(0.4, "Maximum")),
    fires(
        "idle_updates",
        "of a table in a graph",
        _table(0.4, 10),
        Severity.HIGH,
        saves=about(0.396),
        says=("40% of the step goes over all rows", "looks up 1.0% at most (at model.py:5)", "Adam goes over the whole table"),
        never=("takes all of them",),
        **_AT,
    ),
    fires(
        "idle_updates",
        "of a table that the loss takes",
        _table(0.4, 200, "norm"),
        Severity.HIGH,
        saves=about(0.32),
        location="model.py:6",
        says=("model.py:6 takes all of them", "Take only the rows that are looked up"),
    ),
    fires("idle_updates", "in 16% of the step", _table(0.16, 10), Severity.HIGH, saves=about(0.158), **_AT),
    silent("idle_updates", "of a table in 10% of the step", _table(0.1, 10)),
    silent("idle_updates", "of a table of which a third is looked up", _table(0.4, 333)),
    fires(
        "unused_results",
        "in a graph of TensorFlow",
        _partly_read(0.4, 1 / 64),
        Severity.HIGH,
        saves=about(0.394),
        says=("39% of the step", "at model.py:5", "1.6% of the results", "where model.py:9 takes a part"),
        **_AT,
    ),
    silent("unused_results", "in a graph, most of it needed", _partly_read(0.4, 0.6)),
    silent("unused_results", "a third of the step, most of it needed", _of_one_kind(0.3, needed_share=0.6)),
    silent("unused_results", "half of 16% of the step", _of_one_kind(0.16, needed_share=0.5)),
    silent("unused_results", "waiting for other devices", _of_one_kind(0.4, needed_share=0.1, transfer="collective")),
    fires(
        "frozen_layers",
        "40% of the step",
        _frozen(0.4),
        Severity.HIGH,
        saves=about(0.4),
        says=(
            "40% of the step computes layers that do not train, at model.py:5: encoder.",
            "Compute frozen layers once per example",
        ),
        **_AT,
    ),
    fires("frozen_layers", "a quarter of the step", _frozen(0.25), Severity.HIGH, saves=about(0.25), **_AT),
    silent("frozen_layers", "15% of the step", _frozen(0.15)),
    silent("frozen_layers", "through which gradients go", _frozen(0.3, 0.05)),
    fires("frozen_layers", "through which hardly any go", _frozen(0.3, 0.02), Severity.HIGH, saves=about(0.32), **_AT),
    silent("frozen_layers", "where nothing trains", _frozen(0.4, head=0.0)),
    silent("frozen_layers", "that train", _frozen(0.4, is_frozen=False)),
    fires(
        "idle_updates",
        "a third of the step",
        _of_one_kind(0.3, filled_share=0.01),
        Severity.HIGH,
        saves=about(0.297),
        says=("30% of the step", "at model.py:5 and model.py:6", "1.0% of them at most", "it changes the training"),
        **_AT,
        **_COMPUTE,
    ),
    fires("idle_updates", "12% of the step", _of_one_kind(0.12, filled_share=0.1), Severity.HIGH, saves=about(0.108), **_AT),
    silent("idle_updates", "10% of the step", _of_one_kind(0.1, filled_share=0.1)),
    fires(
        "recomputed",
        "a third of the step",
        _of_one_kind(0.3, is_repeat=True),
        Severity.MODERATE,
        saves=about(0.3),
        says=("30% of the step", "jax.checkpoint"),
        **_COMPUTE,
    ),
    fires("recomputed", "15% of the step", _of_one_kind(0.15, is_repeat=True), Severity.MODERATE, saves=about(0.15)),
    silent("recomputed", "7% of the step", _of_one_kind(0.07, is_repeat=True)),
    fires(
        "small_ops",
        "of a loop whose ops several lines make",
        _scan(0.4),
        Severity.HIGH,
        saves=about(0.4),
        says=("2,000 compiled ops", "model.py:5 16%", "model.py:6 6%"),
        **_AT,
    ),
    silent("small_ops", "of a loop, most of it made by one line", _scan(0.7)),
    fires(
        "slow_kind",
        "three layers together",
        _find(work=_works(0.12, 0.1, 0.1), record=_HALF),
        Severity.HIGH,
        says=(
            "32% of the step goes to convolutions",
            "in 3 parts of the model: layer_0 12%",
            "this CPU has instructions for it",
        ),
        never=("jit_compile", "ONEDNN", "smaller", "larger batch"),
    ),
    fires(
        "slow_kind",
        "on a CPU of which nobody said that it computes in 16 bits",
        _find(work=_works(0.12, 0.1, 0.1)),
        Severity.HIGH,
        says=("Train on a GPU",),
        never=("bfloat16", "larger batch"),
    ),
    fires(
        "slow_kind",
        "on a CPU without oneDNN",
        _find(work=_works(0.12, 0.1, 0.1, op="Conv2DBackpropFilter")),
        Severity.HIGH,
        says=("use oneDNN", "tensorflow-metal"),
        never=("AMX", "bfloat16"),
    ),
    fires(
        "slow_kind",
        "of ops that are not oneDNN's",
        _find(work=_works(0.32, op="_FusedConv2D"), record=_HALF),
        Severity.HIGH,
        says=("ONEDNN",),
        never=("bfloat16",),
    ),
    fires(
        "slow_kind",
        "with 25% of the step around ops",
        _find(work=_works(0.32), shares={Category.ALL_OTHERS: 0.25}),
        Severity.HIGH,
        says=("a larger batch",),
    ),
    fires(
        "slow_kind",
        "with 15% of the step around ops",
        _find(work=_works(0.32), shares={Category.ALL_OTHERS: 0.15}),
        Severity.HIGH,
        never=("a larger batch",),
    ),
    fires(
        "slow_part",
        "far from its best",
        _paced(200),
        Severity.HIGH,
        says=("(200 µs a run, 100 µs at best: 50 and 100 GFLOP/s)",),
        **_AT,
    ),
    fires("slow_part", "on a device", _rated(459, 918.0), Severity.HIGH, says=("(459 TFLOP/s, 50% of the peak)",), **_AT),
    fires("slow_part", "on a device that tells no peak", _rated(459, 0.0), Severity.HIGH, says=("(459 TFLOP/s)",), **_AT),
    fires("slow_part", "at 1.2 times its best", _paced(120), Severity.HIGH, says=("120 µs a run, 100 µs at best",), **_AT),
    fires(
        "slow_part", "near its best", _paced(110), Severity.HIGH, says=("(110 µs a run, near its best: 90.9 GFLOP/s)",), **_AT
    ),
    fires(
        "slow_part",
        "near a best that was hardly disturbed",
        _paced(110, beside=0.07),
        Severity.HIGH,
        says=("near its best",),
        **_AT,
    ),
    fires(
        "slow_part", "near a best that was disturbed", _paced(110, beside=0.15), Severity.HIGH, never=("near its best",), **_AT
    ),
    fires(
        "slow_part",
        "beside ops of its size",
        _paced(200, 120),
        Severity.HIGH,
        says=("equal ones take 120 µs to 200 µs",),
        **_AT,
    ),
    fires("slow_part", "beside ops as fast as it", _paced(200, 160), Severity.HIGH, never=("equal ones",), **_AT),
    fires(
        "slow_kind",
        "on a GPU",
        _find(work=_works(0.12, 0.1, 0.1, side="Device"), traces=(device_trace(),)),
        Severity.HIGH,
        says=("bfloat16",),
        never=("AMX", "ONEDNN"),
    ),
    fires(
        "slow_kind",
        "in many layers of one name, on a GPU",
        _find(
            work=[
                {**row, "part": f"bert/{n}/dropout"}
                for n, row in enumerate(_works(*[0.03] * 12, kind=WorkKind.CAST, op="Cast"))
            ]
        ),
        Severity.HIGH,
        says=("36% of the step goes to casts", "12 x dropout 36%", "one dtype"),
    ),
    fires(
        "slow_kind",
        "of a program that XLA compiled on a CPU",
        _find(work=_works(0.3, kind=WorkKind.POOLING, op="reduce-window"), small=[{"xla": True}]),
        Severity.HIGH,
        says=("most of it in reduce-window", "Compare with jit_compile=False"),
        never=("jit_compile=True",),
    ),
    fires(
        "slow_kind",
        "of which 60% computes in 16 bits",
        _find(work=[{**_works(0.3)[0], "half": True}, *_works(0.2)], record=_HALF),
        Severity.HIGH,
        never=("16 bits", "bfloat16"),
    ),
    fires(
        "slow_kind",
        "of which 30% computes in 16 bits",
        _find(work=[{**_works(0.15)[0], "half": True}, *_works(0.35)], record=_HALF),
        Severity.HIGH,
        says=("bfloat16",),
    ),
    fires(
        "slow_kind",
        "of four layers",
        _find(work=_works(0.1, 0.1, 0.1, 0.1)),
        Severity.HIGH,
        says=("layer_2",),
        never=("layer_3",),
    ),
    fires(
        "slow_kind",
        "of small parts",
        _find(work=_works(0.3, 0.015, 0.007)),
        Severity.HIGH,
        says=("layer_1",),
        never=("layer_2",),
    ),
    fires(
        "slow_kind",
        "copies of the user's lines, beside more convolutions",
        _find(work=[*_works(0.2, 0.12), *_made_at(0.1, 0.16, kind=WorkKind.MOVEMENT)]),
        Severity.HIGH,
        says=(
            "26% of the step goes to copies and reshapes",
            "at model.py:6 16%, model.py:5 10%; next convolutions 32%",
            "one layout",
        ),
        location="model.py:6",
    ),
    fires(
        "slow_kind",
        "of which one line makes 60%",
        _find(work=_made_at(0.12, 0.18)),
        Severity.HIGH,
        location="model.py:6",
    ),
    fires("slow_kind", "of which no line makes half", _find(work=_made_at(0.1, 0.12, 0.08)), Severity.HIGH),
    fires(
        "slow_kind",
        "fewer copies than that",
        _find(work=[*_works(0.2, 0.12), *_made_at(0.1, 0.08, kind=WorkKind.MOVEMENT)]),
        Severity.HIGH,
        says=("32% of the step goes to convolutions",),
    ),
    fires(
        "slow_kind",
        "copies of no known line",
        _find(work=[*_works(0.2, 0.12), *_works(0.3, kind=WorkKind.MOVEMENT, op="Tile")]),
        Severity.HIGH,
        says=("32% of the step goes to convolutions",),
    ),
    silent("slow_kind", "15% of the step", _find(work=_works(0.1, 0.05))),
    silent("slow_kind", "beside a part that is slow", _find([_part(0.35)], work=_works(0.2, 0.2))),
    silent("slow_kind", "ops of no known kind", _find(work=_works(0.4, kind=WorkKind.OTHER))),
    fires(
        "small_ops",
        "beside convolutions on a CPU",
        _find(small=[{"elementwise_share": 0.6, "half_ps": 5 * _US}], work=_works(0.015)),
        Severity.HIGH,
        saves=about(0.6),
        never=("jit_compile",),
        takes_from=("host_compute", "device_compute_16", "device_compute_32"),
    ),
    fires(
        "small_ops",
        "half of it in updates of variables, which stay",
        _find(small=[{"elementwise_share": 0.6, "written_share": 0.2, "half_ps": 5000 * _US}]),
        Severity.HIGH,
        saves=about(0.4),
        says=("60% of the step goes to element-wise ops: half of the ops' time in ops of 5.00 ms or more",),
        never=("rounds", "executor"),
        takes_from=("host_compute", "device_compute_16", "device_compute_32"),
    ),
    fires(
        "slow_part",
        "an embedding whose updates are most of the element-wise ops",
        _find(
            [{**_part(0.5, "Mul", "table", 5000.0), "work": WorkKind.EMBEDDING.value}],
            small=[{"elementwise_share": 0.6, "half_ps": 5000 * _US}],
        ),
        Severity.HIGH,
        says=("only the rows that a batch reads",),
        **_AT,
    ),
    fires(
        "small_ops",
        "beside hardly any convolution",
        _find(small=[{"elementwise_share": 0.6, "half_ps": 5 * _US}], work=_works(0.006)),
        Severity.HIGH,
        saves=about(0.6),
        says=("jit_compile=True",),
        takes_from=("host_compute", "device_compute_16", "device_compute_32"),
    ),
    fires(
        "slow_part",
        "layers that one line made",
        _find(_layers(0.21, 0.2)),
        Severity.HIGH,
        saves=about(0.41),
        says=("sorter_0 and sorter_1 (model.py:5) take 41% of the step",),
        **_AT,
    ),
    fires(
        "slow_part",
        "layers that two lines made",
        _find([*_layers(0.35), *_layers(0.3, line=6)]),
        Severity.HIGH,
        saves=about(0.35),
        says=("sorter_0 (model.py:5) takes 35% of the step",),
        **_AT,
    ),
    fires(
        "slow_part",
        "many layers that one line made",
        _find(_layers(0.12, 0.11, 0.1, 0.09, 0.08)),
        Severity.HIGH,
        saves=about(0.5),
        says=("sorter_0, sorter_1, sorter_2 and 2 more (model.py:5) take 50% of the step",),
        **_AT,
    ),
    silent("slow_part", "layers of two classes that one line made", _find([*_layers(0.2), *_layers(0.2, of="Mapper")])),
    fires(
        "slow_part",
        "lines in the body of a loop",
        _lines_in_loop(0.25, 0.2),
        Severity.HIGH,
        saves=about(0.45),
        location="model.py:4",
        says=("model.py:4 takes 45% of the step, in many short ops, in the loop", "as far as none needs the one before"),
    ),
    fires(
        "slow_part",
        "lines in what tf.map_fn calls",
        _lines_in_loop(0.25, 0.2, text="return tf.map_fn(one, x)"),
        Severity.HIGH,
        saves=about(0.45),
        location="model.py:4",
        says=("Compute the whole batch at once", "tf.vectorized_map"),
    ),
    silent("odd_ops", "in the body of a loop", _lines_in_loop(0.25, 0.2, draws=0.2)),
    silent("slow_part", "lines in the body of the loop that trains", _lines_in_loop(0.2, 0.15, feeds=True)),
    fires(
        "slow_part",
        "a recurrent layer that drops its state",
        _recurrent(0.2),
        Severity.HIGH,
        saves=about(0.5),
        says=("Leave recurrent_dropout=0.2 out", "it changes the training"),
        **_AT,
    ),
    fires(
        "slow_part",
        "a recurrent layer",
        _recurrent(0.0),
        Severity.HIGH,
        saves=about(0.5),
        never=("recurrent_dropout=",),
        **_AT,
    ),
    fires("slow_part", "a line that mostly sorts", _line(0.7), Severity.HIGH, saves=about(0.4), **_AT),
    fires("slow_part", "a line that mostly multiplies", _line(0.35), Severity.HIGH, **_AT),
    fires("slow_part", "a layer of Keras on JAX", _compiled_layer(0.4), Severity.HIGH, says=("smoother (model.py:5)",), **_AT),
    fires("slow_part", "UnsortedSegmentSum does not sort", _slow(0.35, "UnsortedSegmentSum"), Severity.HIGH, **_AT),
    silent("slow_part", "15% of the step", _slow(0.15)),
    fires(
        "slow_part",
        "of long ops, beside many short ones",
        _short(0.6, 0, 0, parts=[_part(0.4, mean=70)]),
        Severity.HIGH,
        saves=about(0.4),
        **_AT,
    ),
    fires(
        "slow_part",
        "a loop of short ops takes most of the step",
        _short(0.1, 0.5, 200, parts=_loop(0.6, 0.8)),
        Severity.HIGH,
        saves=about(0.6),
        says=("in many short ops", "all iterations at once"),
        **_AT,
    ),
    silent("small_ops", "where one loop makes them", _short(0.1, 0.5, 400, parts=_loop(0.6, 0.8))),
    fires(
        "small_ops",
        "beside a layer of 100 ops",
        _short(0.1, 0.5, 200, parts=_loop(0.6, 0.8, 100.0, beside=0.3)),
        Severity.HIGH,
        saves=about(0.5),
        **_COMPUTE,
    ),
    fires(
        "small_ops",
        "beside a layer of 160 ops of 56 us",
        _short(0.1, 0.3, 200, parts=_loop(0.9, 0.3, 160.0)),
        Severity.HIGH,
        saves=about(0.4),
        **_COMPUTE,
    ),
    fires(
        "small_ops",
        "whose lines are known",
        _short(0.6, 0.0, 10, work=_made_at(0.1, 0.3, 0.05, 0.06, 0.04)),
        Severity.HIGH,
        saves=about(0.6),
        says=("most of it made at model.py:5, model.py:6, model.py:8 and 2 more lines",),
        location="model.py:6",
        **_COMPUTE,
    ),
    fires(
        "small_ops",
        "of which 40% have a line",
        _short(0.6, 0.0, 10, work=_made_at(0.2, 0.04)),
        Severity.HIGH,
        saves=about(0.6),
        never=("most of it made at",),
        **_COMPUTE,
    ),
    fires(
        "small_ops",
        "of other kinds, and short",
        _short(0.6, 0.0, 10, work=_made_at(0.4, kind=WorkKind.MOVEMENT, mean=40.0)),
        Severity.HIGH,
        saves=about(0.6),
        says=("made at model.py:5",),
        location="model.py:5",
        **_COMPUTE,
    ),
    fires(
        "small_ops",
        "of other kinds, and longer",
        _short(0.6, 0.0, 10, work=_made_at(0.4, kind=WorkKind.MOVEMENT, mean=60.0)),
        Severity.HIGH,
        saves=about(0.6),
        never=("made at",),
        **_COMPUTE,
    ),
    fires(
        "slow_part", "60% of it in a loop", _looped(0.6), Severity.HIGH, says=("as in a loop", "Vectorise model.py:5"), **_AT
    ),
    fires("slow_part", "40% of it in a loop", _looped(0.4), Severity.HIGH, never=("as in a loop",), **_AT),
    fires("slow_part", "a loop of 100 ops", _looped(0.9, 100), Severity.HIGH, never=("as in a loop",), **_AT),
    fires("slow_part", "a loop of 200 ops", _looped(0.9, 200), Severity.HIGH, says=("as in a loop",), **_AT),
    fires("slow_part", "a loop of ops of 60 us", _looped(0.9, 200, 60.0), Severity.HIGH, never=("as in a loop",), **_AT),
    fires(
        "slow_part",
        "of 400 short ops, whose starts take 30% of it",
        _short(0.1, 0.3, 400, parts=_loop(0.9, 0.3, 400.0)),
        Severity.HIGH,
        saves=about(0.9),
        says=("in many short ops",),
        **_AT,
    ),
    silent("slow_part", "a loop beside other short ops", _short(0.1, 0.5, 400, parts=_loop(0.4, 0.8))),
    silent("slow_part", "of many short ops", _short(0.6, 0, 0, parts=[_part(0.4, mean=35)])),
    *worded(
        "odd_ops",
        lambda program: _odd(0.3, program=program)(),
        Severity.HIGH,
        keras="out of the model",
        tensorflow="cheaper random numbers",
        jax="jax_default_prng_impl",
        saves=about(0.3),
        **_NOISE,
    ),
    fires(
        "odd_ops",
        "in a program of its own",
        _odd(0.3, program=JAX, apart=True),
        Severity.HIGH,
        saves=about(0.3),
        says=("beside the model's step, in programs of its own", "into the input thread"),
        never=("out of the jitted step", "inside"),
        **_NOISE,
    ),
    fires("odd_ops", "on a line that takes 22%", _odd(0.15, whole=0.22), Severity.MODERATE, saves=about(0.22), **_NOISE),
    fires("odd_ops", "15% of the step", _odd(0.15), Severity.MODERATE, saves=about(0.15), **_NOISE),
    fires(
        "odd_ops", "8% of the step", _odd(0.08), Severity.MODERATE, saves=about(0.08), says=("draws random numbers",), **_NOISE
    ),
    fires(
        "odd_ops",
        "two layers made at one line",
        _made_in_a_loop(0.15),
        Severity.HIGH,
        saves=about(0.3),
        says=("noise_0 (and 1 more)", "3.00 ms per step"),
        **_NOISE,
    ),
    fires(
        "odd_ops",
        "no more than idle cores take",
        _odd(0.3, record={"cpu_count": 2, "window": {"seconds": 1.0, "cpu_seconds": 1.64}}),
        Severity.HIGH,
        saves=about(0.18),
        says=("dataset.map",),
        **_NOISE,
    ),
    fires(
        "odd_ops",
        "busy cores take a third of it",
        _odd(0.3, record={"cpu_count": 2, "window": {"seconds": 1.0, "cpu_seconds": 1.8}}),
        Severity.HIGH,
        saves=about(0.3),
        says=("The cores are busy",),
        never=("dataset.map",),
        **_NOISE,
    ),
    silent("odd_ops", "3% of the step", _odd(0.03)),
    fires(
        "python_in_model",
        "8% of the step",
        _odd(0.08, misplaced_ops.PYTHON, "PyFunc"),
        Severity.MODERATE,
        saves=about(0.08),
        **_NOISE,
    ),
    fires(
        "python_in_model",
        "a callback of JAX",
        _odd(0.08, misplaced_ops.PYTHON, "custom-call", JAX),
        Severity.MODERATE,
        saves=about(0.08),
        says=("jax.numpy",),
        never=("TensorFlow",),
        **_NOISE,
    ),
    fires(
        "python_in_model",
        "a callback that was sampled on the training thread",
        _odd(0.08, misplaced_ops.PYTHON, "custom-call", JAX, record=_called_back(others=False)),
        Severity.MODERATE,
        saves=about(0.08),
        says=("most of it in best_move() (board.py:37).",),
        never=("TensorFlow", "queue"),
        **(_NOISE | {"location": "board.py:37"}),
    ),
    fires(
        "python_in_model",
        "a callback that was sampled on another thread",
        _odd(0.08, misplaced_ops.PYTHON, "PyFunc", record=_called_back(others=True)),
        Severity.MODERATE,
        saves=about(0.08),
        says=("most of it in best_move() (board.py:37).",),
        **(_NOISE | {"location": "board.py:37"}),
    ),
    silent("python_in_model", "3% of the step", _odd(0.03, misplaced_ops.PYTHON, "PyFunc")),
    fires(
        "small_ops",
        "many short ops in Keras",
        _short(0.2, 0.2, 200),
        Severity.HIGH,
        saves=about(0.4),
        says=("200 rounds per step", "@tf.function(jit_compile=True)"),
        **_COMPUTE,
    ),
    fires("small_ops", "a few long element-wise ones", _short(0.6, 0.0, 10), Severity.HIGH, saves=about(0.6), **_COMPUTE),
    fires(
        "small_ops",
        "a tenth of the recorded step is the profiler's",
        _short(0.3, 0.3, 200, profiling=0.1),
        Severity.HIGH,
        saves=about(0.5 / 0.9),
        **_COMPUTE,
    ),
    fires(
        "small_ops", "rounds that wait for a core", _short(0.1, 0.6, 160), Severity.HIGH, saves=about(0.1 + 0.32), **_COMPUTE
    ),
    silent("small_ops", "long ops, half of the step the profiler's", _short(0.6, 0.0, 10, profiling=0.4)),
    silent("small_ops", "30% element-wise", _short(0.3, 0.05, 10)),
    silent("small_ops", "the executor takes 15%", _short(0.2, 0.15, 200)),
    silent("small_ops", "100 rounds", _short(0.2, 0.2, 100)),
    silent("small_ops", "20% of the step", _short(0.1, 0.1, 200)),
    fires(
        "small_ops",
        "a scan of tiny ops",
        _compiled(1500, 7, 0.45),
        Severity.HIGH,
        saves=about(0.45),
        says=("1,500 compiled ops", "jax.lax.scan"),
        never=("tf.function",),
        **_COMPUTE,
    ),
    silent("small_ops", "compiled ops of 15 us", _compiled(1500, 15, 0.45)),
    silent("small_ops", "700 compiled ops", _compiled(700, 7, 0.45)),
    silent("small_ops", "compiled ops, 20% of the step", _compiled(1500, 7, 0.2)),
    *worded(
        "model_bound",
        lambda program: _find(work=_works(0.2), shares={Category.INPUT: 0.3}, program=program, record=_HALF)(),
        Severity.MODERATE,
        keras="set_global_policy('mixed_bfloat16')",
        tensorflow="with variables in float32",
        jax="with parameters in float32",
    ),
    fires("model_bound", "of no known kind", _bound(0.7), Severity.MODERATE, says=("Train on a GPU",)),
    fires("model_bound", "of no known kind, in JAX", _bound(0.7, program=JAX), Severity.MODERATE, says=("donate_argnums",)),
    fires(
        "model_bound",
        "of many small parts",
        _find([_part(0.08)], work=_works(0.08, 0.08), shares={Category.HOST_COMPUTE: 0.7, Category.INPUT: 0.3}),
        Severity.MODERATE,
        says=("70% of the step: convolutions 16%",),
    ),
    fires(
        "model_bound",
        "of a part that stands out",
        _find([_part(0.15)], work=_works(0.08, 0.08), shares={Category.HOST_COMPUTE: 0.7, Category.INPUT: 0.3}),
        Severity.MODERATE,
        says=("70% of the step: dense (model.py:5) 15%",),
        location="model.py:5",
    ),
    fires("model_bound", "40% of the step", _bound(0.4), Severity.INFO, says=("40% of the step", "waiting for input 60.0%")),
    fires(
        "model_bound",
        "most of it copies arguments",
        _bound(0.9, program=JAX, copied=0.6),
        Severity.INFO,
        says=("takes 30% of the step", "copying arguments 60.0%"),
    ),
    fires(
        "model_bound",
        "some of it copies arguments",
        _bound(0.9, program=JAX, copied=0.016),
        Severity.MODERATE,
        says=("copying arguments 1.6%",),
    ),
    fires(
        "model_bound",
        "hardly any of it copies arguments",
        _bound(0.9, program=JAX, copied=0.008),
        Severity.MODERATE,
        never=("copying",),
    ),
    fires(
        "model_bound",
        "of which 20% is no op",
        _find(work=_works(0.2), shares={Category.INPUT: 0.1}, between=0.2),
        Severity.MODERATE,
        says=("takes 70% of the step", "calls and waiting between ops 20.0%"),
    ),
    fires(
        "model_bound",
        "of which half is no op",
        _find(work=_works(0.2), shares={Category.INPUT: 0.1}, between=0.5),
        Severity.INFO,
        says=("takes 40% of the step",),
    ),
    fires(
        "model_bound",
        "of eight parts",
        _bound(0.9, _EIGHT),
        Severity.MODERATE,
        location="model.py:5",
        says=("dense_0",),
        never=("dense_3",),
    ),
    silent("model_bound", "no steps", _no_steps()),
]
