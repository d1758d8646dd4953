"""HLO ops of JAX profiles: times against XProf's `hlo_stats`, precision against the expressions
that it prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

import pytest

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.views.model_work import model_work
from outpace.timeline import Timeline
from outpace.timeline.hlo.modules import parse_program_id
from outpace.timeline.work_kinds import WorkKind
from outpace.tools.hlo_stats.compute import collect_totals
from tests.support import beside, opened_beside, reference_beside, reference_table

H200 = ("jax_h200_input_bound", "jax_h200_table", "jax_h200_transformer")
ROCM = beside(("jax_rocm_gemm", "jax_rocm_conv_8gpu", "jax_rocm_attention", "jax_rocm_te_attention"))


@pytest.mark.parametrize("name", [*ROCM, "tpu_v6e_inference"])
def test_op_time_is_the_references(name: str) -> None:
    """A host's call that launches a kernel names the kernel's op and is none: counting it made sums
    18 to 56% too high.
    """
    theirs = sum(row["total_self_time"] for row in reference_table(name, "hlo_stats.xprof"))
    ours = opened_beside(name).hlo_stats().table("hlo_ops")
    assert ours["self_ps"].sum() / 1e6 == pytest.approx(theirs, rel=1e-4)
    if name in ROCM:
        assert "CPU" not in set(ours["device"].tolist())


@pytest.mark.parametrize("name", H200)
def test_kernels_of_command_buffers_have_an_instruction(name: str) -> None:
    """The reference knows the buffer only (`command_buffer_1`), and leaves its kernels out: two
    fifths of `jax_h200_input_bound`, nearly all of the others. What it does list is equal; and here
    every kernel has an instruction of its program.
    """
    rows = list(opened_beside(name).hlo_stats().table("hlo_ops").records())
    ours = {(row["program"], row["op"]): row["self_ps"] / 1e6 for row in rows}
    listed = 0.0
    for row in reference_table(name, "hlo_stats.xprof"):
        same = [time for (_, op), time in ours.items() if op == row["hlo_op_name"]]
        assert any(time == pytest.approx(row["total_self_time"], rel=1e-6) for time in same), row["hlo_op_name"]
        listed += row["total_self_time"]
    assert {"jax_h200_input_bound": 0.6, "jax_h200_table": 0.0, "jax_h200_transformer": 0.0}[name] == pytest.approx(
        listed / sum(ours.values()), abs=0.01
    )
    kernels = list(opened_beside(name).page("kernel_stats").table("kernels").records())
    known = {
        op
        for timeline in opened_beside(name).run.hosts
        for number in _programs(timeline)
        for op in timeline.hlo_modules[number]
    }
    assert {row["hlo_op"] for row in kernels} <= known
    assert sum(ours.values()) >= sum(row["total_ps"] for row in kernels) / 1e6


def _programs(timeline: Timeline) -> list[int]:
    return [parse_program_id(name) for name in timeline.trace.names if name.startswith("jit_") and name.endswith(")")]


def test_a_convolution_multiplies_its_kernel_once_for_each_place_of_its_output() -> None:
    """`jax_h200_input_bound`, 256 images of 64 x 64: the gradient for the first kernel, 3 x 3 x 3
    to 64, and for the second one's input, 64 to 64 with a stride of 2; not where the kernel lies on
    the border of zeros. (The reference has 1,220 and 53,560 GFLOP/s: it takes kernels for
    executions, and other windows.)
    """
    name = "jax_h200_input_bound"
    rows = {row["op"]: row for row in opened_beside(name).hlo_stats().table("hlo_ops").records()}
    first, second = 2 * 256 * (3 * 64 - 2) ** 2 * 3 * 64, 2 * 256 * 32 * 32 * 9 * 64 * 64
    for op, flops in (("cudnn-conv-bw-filter.5", first), ("cudnn-conv-bw-input.5", second)):
        row = rows[op]
        assert row["occurrences"] == 8
        assert row["flops_per_s"] == pytest.approx(flops * 8 / (row["self_ps"] / 1e12), rel=1e-6)


def test_an_attention_that_xla_made_is_one() -> None:
    """`jax_h200_transformer` asks for XLA's own (`implementation='xla'`): line 46 of its script,
    and nothing else.
    """
    rows = [
        row
        for row in model_work(opened_beside("jax_h200_transformer").run).records()
        if row["work"] == WorkKind.ATTENTION.value
    ]
    assert {row["source"].rpartition("/")[2] for row in rows} == {"gpu_capture.py:46"}
    assert sum(row["share"] for row in rows) == pytest.approx(0.48, abs=0.02)
    for other in ("jax_h200_input_bound", "jax_h200_table"):
        assert WorkKind.ATTENTION.value not in set(model_work(opened_beside(other).run)["work"].tolist())


@pytest.mark.parametrize("name", ROCM)
def test_programs_in_16_bits_are_called_so(name: str) -> None:
    """Of the HLO time, the share of ops whose expression (as XProf writes it) takes or gives
    bfloat16.
    """
    rows = reference_table(name, "hlo_stats.xprof")
    half = sum(row["total_self_time"] for row in rows if "bf16[" in row["hlo_op_expression"])
    expected = half / sum(row["total_self_time"] for row in rows)
    assert expected > 0.95
    steps = step_breakdown(opened_beside(name).run).steps
    bits_16, bits_32 = (float(steps[f"device_compute_{bits}_ps"].sum()) for bits in (16, 32))
    assert bits_16 / (bits_16 + bits_32) == pytest.approx(expected, abs=0.02)
    programs = opened_beside(name).run.hosts[0].hlo_modules
    known = [(programs.op(int(row["program_id"]), row["hlo_op_name"]).precision_bits, row["total_self_time"]) for row in rows]
    assert sum(time for bits, time in known if bits == 16) / sum(t for _, t in known) == pytest.approx(expected, abs=0.01)


def test_the_end_of_an_asynchronous_copy_is_a_transfer() -> None:
    """`tpu_v6e_inference` moves its weights between host and device: 96% of its op time waits for
    that, in both directions.
    """
    table = opened_beside("tpu_v6e_inference").hlo_stats().table("hlo_ops")
    waiting = table["category"] == "data transfer (waiting)"
    assert table["self_ps"][waiting].sum() / table["self_ps"].sum() == pytest.approx(0.9648, abs=0.0001)
    steps = step_breakdown(opened_beside("tpu_v6e_inference").run).steps
    share = {c: float(steps[f"{c}_ps"].sum() / steps["duration_ps"].sum()) for c in ("input", "output", "device_compute_32")}
    assert share["input"] > share["output"] > share["device_compute_32"] > 0


def test_rates_come_from_shapes() -> None:
    """Where the profile counts no operations: of matrix products. XProf gives the same 601 TFLOP/s,
    and none for library calls.
    """
    name = "jax_rocm_te_attention"
    if name not in ROCM:
        pytest.skip("the profile lies beside the repository only")
    theirs = {r["hlo_op_name"]: r["model_flop_rate"] for r in reference_table(name, "hlo_stats.xprof")}
    ours = {r["op"]: r["flops_per_s"] for r in opened_beside(name).hlo_stats().table("hlo_ops").records()}
    for op in ("gemm_fusion_dot", "gemm_fusion_dot.3", "gemm_fusion_dot.7"):
        assert ours[op] / 1e9 == pytest.approx(theirs[op], rel=1e-3)
    assert theirs["custom-call.1"] == 0
    assert ours["custom-call.1"] == pytest.approx(8.8e14, rel=0.01)


@pytest.mark.parametrize("name", ROCM)
def test_kernels_have_the_op_that_the_reference_names(name: str) -> None:
    """Equal wherever the reference names an op. It names none of a fusion that says nothing of
    itself: here, what it fused does.
    """
    mine = {
        (row["kernel"], row["grid"], row["block"], row["op"])
        for row in opened_beside(name).page("kernel_stats").table("kernels").records()
    }
    for row in reference_table(name, "kernel_stats.xprof"):
        kernel = (row["kernel_name"], row["grid_dim"], row["block_dim"])
        if row["op_name"]:
            assert (*kernel, row["op_name"]) in mine
        elif kernel[0].startswith("loop_"):
            assert all(op.startswith("jit(") for *launch, op in mine if tuple(launch) == kernel)


@pytest.mark.parametrize("name", ROCM)
def test_ops_are_executions(name: str) -> None:
    """Times of device ops are the reference's, and no program stands in for an op (`XlaModule`).

    Counts differ where several instructions come from one op, or an instruction takes several
    kernels: the reference counts the kernel that appears most often. te_attention's backward op has
    two instructions of five kernels each, two of them equal, in five steps: ten executions, 25 in
    the reference. Times differ by the fusions that the reference calls Unknown.
    """
    ours = {r["name"]: r for r in op_metrics(opened_beside(name).run).records() if r["side"] == "Device" and not r["idle"]}
    theirs = [r for r in reference_table(name, "framework_op_stats.xprof") if r["host_or_device"] == "Device"]
    unknown = sum(r["total_self_time"] for r in theirs if r["type"] == "Unknown")
    assert "XlaModule" not in ours
    for row in theirs:
        if row["type"] not in ("IDLE", "Unknown"):
            own = ours[row["operation"]]["self_ps"] / 1e6
            assert row["total_self_time"] - 0.01 <= own <= row["total_self_time"] + unknown
    named = sum(r["self_ps"] for r in ours.values() if not r["name"].endswith(".kd")) / 1e6
    assert named == pytest.approx(sum(r["total_self_time"] for r in theirs if r["type"] != "IDLE"), rel=0.001)


def test_an_op_of_several_kernels_ran_once() -> None:
    name = "jax_rocm_te_attention"
    if name not in ROCM:
        pytest.skip("the profile lies beside the repository only")
    ours = {r["name"]: r["count"] for r in op_metrics(opened_beside(name).run).records() if r["side"] == "Device"}
    assert ours["jit(loss_fn)/transpose(jvp())/te_fused_attn_backward_ffi"] == 10
    assert ours["jit(loss_fn)/jvp()/te_fused_attn_forward_ffi"] == 10
    hlo = {r["op"]: r["occurrences"] for r in opened_beside(name).hlo_stats().table("hlo_ops").records()}
    assert {hlo[f"te_fused_attn_{op}"] for op in ("backward_ffi.18", "backward_ffi.12", "forward_ffi.10")} == {5}


@pytest.mark.parametrize("profile", ["derived_v100_bert"])
def test_counts_of_tensorflows_ops_are_the_references(profile: str) -> None:
    """All of its rows: kernels without a program of XLA."""
    ours = {r["name"]: r["count"] for r in op_metrics(opened_beside(profile).run).records() if r["side"] == "Device"}
    theirs = reference_table(profile, "framework_op_stats.xprof")
    rows = [r for r in theirs if r["host_or_device"] == "Device" and r["type"] != "IDLE"]
    assert len(rows) > 400
    for row in rows:
        assert ours[row["operation"]] == row["occurrences"]


# What differs from XProf's hlo_stats, op_profile and roofline_model, and why. All else is equal.
GRAPH = "a kernel of a CUDA graph: the reference knows the graph's name only, looks for it in the program and lists nothing"
NO_PROGRAM = "the profile does not hold the program: the reference lists ops of programs that it finds"
KERNELS = "the reference takes each kernel of a call for an execution of it"
TUNING = "XLA's DelayKernel, launched while it chose a form of an op: no op of a program"
TENSORFLOW = "kernels of TensorFlow's ops, which belong to no program of XLA: the reference lists every kernel without one"
Difference = tuple[str, str, str, float, float, str]
DIFFERENCES: tuple[Difference, ...] = (
    ("jax_h100_choice_batch", "*/custom-call.?", "executions", 172, 2_034, KERNELS),
    ("jax_h100_choice_batch", "jit_train_step(*", "ours alone", 92_279_265, 0, GRAPH),
    ("jax_h100_choice_batch", "*", "ours alone", 204_451, 0, NO_PROGRAM),
    ("jax_h100_dwconv1d", "*/cudnn-conv-bw-filter.*", "executions", 204, 1_224, KERNELS),
    ("jax_h100_dwconv1d", "*", "ours alone", 142_480_630, 0, GRAPH),
    ("jax_h100_fft_odd", "*/fft.*", "executions", 534, 3_730, KERNELS),
    ("jax_h100_fft_odd", "*", "ours alone", 82_168_380, 0, GRAPH),
    ("jax_h100_ok_resnet", "*/XlaModule/*", "theirs alone", 0, 8_390_333, TUNING),
    ("jax_h100_ok_resnet", "*", "ours alone", 349_578, 0, NO_PROGRAM),
    ("jax_h100_ok_vae", "jit_train_steps(*", "ours alone", 1_092_410_408, 0, GRAPH),
    ("jax_h100_ok_vae", "*", "ours alone", 49_664, 0, NO_PROGRAM),
    ("jax_h100_sample_often", "*/XlaModule/*", "theirs alone", 0, 731_219, TUNING),
    ("jax_h100_sample_often", "*", "ours alone", 961_008_830, 0, GRAPH),
    ("jax_h200_input_bound", "*/cudnn-conv*", "executions", 64, 152, KERNELS),
    ("jax_h200_input_bound", "*", "ours alone", 6_352_524, 0, GRAPH),
    ("jax_h200_transformer", "*", "ours alone", 140_815_502, 0, GRAPH),
    ("jax_rocm_conv_8gpu", "*/cudnn-conv.1", "executions", 40, 79, KERNELS),
    ("jax_rocm_te_attention", "*/te_fused_attn_*", "executions", 20, 70, KERNELS),
    ("derived_v100_bert", "main/*", "theirs alone", 0, 29_978_490, TENSORFLOW),
)
"""(profile, ops as `program(id)/op`, what, ours, theirs, why): numbers of executions, or ns of ops
that one side lists alone, summed up over all ops that the pattern fits and none above it does.
"""
WITH_OPS = tuple(dict.fromkeys((*ROCM, "tpu_v6e_inference", *(row[0] for row in DIFFERENCES))))
RENAMED = {
    **dict.fromkeys(("loop fusion", "input fusion", "custom fusion"), "fusion"),  # one kind, but on TPUs, which tell theirs
    "data formatting": "copy",  # the opcode says more
    "copy-done": "data transfer (waiting)",  # it waits for what it ends
}
"""The reference's categories, and ours of the same ops; calls of libraries have another name."""
LIBRARIES = "cuBLAS|cuDNN|CUB|hipBLASLt|MIOpen|Transformer Engine"
HLO_STATS = ("hlo_stats.xprof", "program_id", "hlo_op_name")
ROOFLINE = ("roofline_model.xprof", "hlo_module_id", "operation")
Ops = dict[str, tuple[float, float]]


def _category(name: str) -> str:
    return "custom-call" if re.match(LIBRARIES, name) else RENAMED.get(name, name)


@cache
def _our_ops(name: str) -> Ops:
    """Executions and self time in ns by `program(id)/op`, of all devices together."""
    sums: dict[str, tuple[float, float]] = {}
    for (_, _, program, number, op), totals in collect_totals(opened_beside(name).run)[0].items():
        count, time = sums.get(key := f"{program}({number & 2**64 - 1})/{op}", (0.0, 0.0))
        sums[key] = (count + totals.occurrences, time + totals.self_ps / 1e3)
    return sums


def _their_ops(name: str, tool: str, program: str, op: str) -> Ops:
    """The same of a table of the reference, which names programs by number."""
    programs = {key.partition("(")[2].partition(")")[0]: key.partition("/")[0] for key in _our_ops(name)}
    rows = [r for r in reference_table(name, tool) if r[op] != "Program" and r.get("include_infeed_outfeed", True)]
    keys = [f"{programs.get(row[program], 'main')}/{row[op]}" for row in rows]
    assert len(set(keys)) == len(keys)
    return {key: (row["occurrences"], row["total_self_time"] * 1e3) for key, row in zip(keys, rows, strict=True)}


def _differences(ours: Ops, theirs: Ops) -> Iterator[tuple[str, str, float, float]]:
    """Yield (op, what, ours, theirs) of each op that is not equal on both sides."""
    for key in ours.keys() | theirs.keys():
        (count, time), (their_count, their_time) = ours.get(key, (0, 0)), theirs.get(key, (0, 0))
        if key not in ours or key not in theirs:
            yield key, "ours alone" if key in ours else "theirs alone", time, their_time
        elif abs(time - their_time) > 0.5:
            yield key, "time", time, their_time
        elif count != their_count:
            yield key, "executions", count, their_count


@pytest.mark.parametrize(("tool", "program", "op"), [HLO_STATS, ROOFLINE])
@pytest.mark.parametrize("name", WITH_OPS)
def test_every_op_is_the_references(name: str, tool: str, program: str, op: str) -> None:
    """Its executions and its time, but for the rows of `DIFFERENCES`, each of which is met."""
    if reference_beside(name, tool) is None:
        pytest.skip("hlo_stats has the same rows")
    rows = [row for row in DIFFERENCES if row[0] == name]
    sums: dict[tuple[str, str], list[float]] = {}
    for key, what, ours, theirs in _differences(_our_ops(name), _their_ops(name, tool, program, op)):
        pattern = next((row[1] for row in rows if row[2] == what and fnmatchcase(key, row[1])), key)
        total = sums.setdefault((pattern, what), [0.0, 0.0])
        total[0], total[1] = total[0] + ours, total[1] + theirs
    assert {k: [round(v) for v in pair] for k, pair in sums.items()} == {(r[1], r[2]): [r[3], r[4]] for r in rows}


@pytest.mark.parametrize("by", ["Program", "Category"])
@pytest.mark.parametrize("name", [n for n in WITH_OPS if n not in ("jax_h100_ok_resnet", "derived_v100_bert")])
def test_the_op_profile_is_the_references(name: str, by: str) -> None:
    """Each program's time in the tree, and each category's, of the ops that both sides list."""
    theirs: dict[str, float] = {}
    for node in reference_beside(name, f"op_profile_{by.lower()}.xprof")[f"by{by}ExcludeIdle"]["children"]:
        label = node["name"].partition("(")[0] if by == "Program" else _category(node["name"])
        theirs[label] = theirs.get(label, 0) + node["metrics"]["rawTime"]
    theirs.pop("main" if by == "Program" else "XlaModule", None)  # a row of DIFFERENCES
    known = {f"{key.partition('(')[0]}/{key.partition('/')[2]}" for key in _their_ops(name, *HLO_STATS)}
    ours: dict[str, float] = {}
    above: list[str] = []
    for node in opened_beside(name).hlo_stats().table("op_profile").records():
        above[node["depth"] :] = [node["name"]]
        if node["depth"] == 2 and f"{above[0]}/{above[2]}" in known:
            label = above[0] if by == "Program" else _category(above[1].partition(" with a ")[0])
            ours[label] = ours.get(label, 0) + node["self_ps"]
    assert ours == pytest.approx(theirs, rel=0, abs=500)


@pytest.mark.parametrize("name", [n for n in ROCM if n != "jax_rocm_conv_8gpu"])
def test_a_triton_product_reads_its_operands(name: str) -> None:
    """XLA's own count sees no user of an array that a fusion inside hands on as it is, and has a
    third of the bytes.
    """
    theirs = {
        (r["hlo_op_name"], round(r["total_self_time"] * 1e3)): r["measured_memory_bw"] * 2**30
        for r in reference_table(name, "hlo_stats.xprof")
        if r["hlo_op_name"].startswith("gemm_fusion")
    }
    ours = {
        (r["op"], round(r["self_ps"] / 1e3)): r["bytes_per_s"]
        for r in opened_beside(name).hlo_stats().table("hlo_ops").records()
    }
    assert theirs == pytest.approx({key: ours[key] for key in theirs})
