"""HLO ops of CPU, GPU and TPU programs, with what they were compiled from."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.facts.device_event_kinds import parse_transfer_direction
from outpace.metrics.facts.roofs import host_roofs
from outpace.model.protobuf_wire import encode_bytes, encode_integer, encode_varint
from outpace.timeline.hlo.cost import Cost
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.modules import HloModules
from outpace.timeline.hlo.ops import HloOp
from outpace.tools.hlo_stats.roofline import iter_roof_places
from tests.hlo_proto import F32, op, shape
from tests.support import PROFILES, opened

DOT = (
    encode_bytes(1, "dot.1")
    + encode_bytes(2, "dot")
    + encode_bytes(7, encode_bytes(2, "jit(f)/dot_general") + encode_bytes(3, "train.py") + encode_integer(4, 12))
)
FUSION = encode_bytes(1, "fusion.7") + encode_bytes(2, "fusion") + encode_bytes(38, encode_varint(300))
INNER = encode_bytes(1, "inner") + encode_bytes(2, "add") + encode_bytes(7, encode_bytes(2, "jit(f)/add"))
MODULE = (
    encode_bytes(1, "jit_f")
    + encode_bytes(3, encode_bytes(2, DOT) + encode_bytes(2, FUSION) + encode_integer(5, 1))
    + encode_bytes(3, encode_bytes(2, INNER) + encode_integer(5, 300))
)  # fmt: skip
PROTO = encode_bytes(1, MODULE)
EXPECTED = {
    "dot.1": HloOp("dot", "jit(f)/dot_general", "train.py:12"),
    "fusion.7": HloOp("fusion", "jit(f)/add", "", cost=Cost(1.0)),
    "inner": HloOp("add", "jit(f)/add", "", cost=Cost(1.0)),
}
F16, BF16, TUPLE, HOST = 10, 16, 13, 5


def every(proto: bytes) -> dict[str, HloOp]:
    program = HloModule(proto)
    return {name: program[name] for name in program}


def computing(*instructions: bytes, inside: bytes = b"") -> HloModule:
    fused = encode_bytes(3, inside + encode_integer(5, 2)) if inside else b""
    return HloModule(encode_bytes(1, encode_bytes(3, b"".join(instructions) + encode_integer(5, 1)) + fused))


def test_ops_of_a_program() -> None:
    assert every(PROTO) == EXPECTED
    assert HloModule(PROTO)["no such op"] == HloOp("")


def test_a_damaged_program_never_fails() -> None:
    for cut in range(len(PROTO)):
        assert set(every(PROTO[:cut])) <= {*EXPECTED, ""}
        every(PROTO[:cut] + b"\xff" * 12)


def test_a_product_is_as_wide_as_what_it_takes_in() -> None:
    """bfloat16 times bfloat16, summed up in float32, is a 16-bit product; alone, as a library call,
    and inside a fusion.
    """
    takes = (op("a", "parameter", 1, shape(BF16, 64, 32)), op("b", "parameter", 2, shape(BF16, 32, 16)))
    contracting = encode_bytes(30, encode_bytes(1, encode_varint(1)) + encode_bytes(2, encode_varint(0)))
    dot = op("dot", "dot", 3, shape(F32, 64, 16), 1, 2, more=contracting)
    assert computing(*takes, dot)["dot"].precision_bits == 16
    assert computing(*takes, op("call", "custom-call", 3, shape(F32, 64, 16), 1, 2))["call"].precision_bits == 16
    fusion = op("fusion", "fusion", 4, shape(F32, 64, 16), 5, more=encode_bytes(38, encode_varint(2)))
    program = computing(fusion, op("p", "parameter", 5, shape(F32, 64, 32)), inside=takes[0] + takes[1] + dot)
    assert program["fusion"].precision_bits == 16
    assert program["fusion"].cost.product_flops == 2 * 64 * 16 * 32


def test_other_ops_are_as_wide_as_their_result() -> None:
    program = computing(
        op("wide", "add", 1, shape(F32, 8)), op("half", "add", 2, shape(F16, 8)), op("index", "iota", 3, shape(4, 8))
    )
    assert [program[name].precision_bits for name in ("wide", "half", "index")] == [32, 16, 0]
    assert program["wide"].cost.product_flops == 0
    assert program["half"].cost.bytes == 16


def test_the_end_of_a_copy_waits_for_a_transfer() -> None:
    """Memory space 5 is the host's; the start's result is (destination, source, context)."""

    def copy(to: int, origin: int) -> HloModule:
        both = (
            encode_integer(2, TUPLE) + encode_bytes(4, shape(F32, 8, space=to)) + encode_bytes(4, shape(F32, 8, space=origin))
        )
        return computing(op("start", "copy-start", 1, both), op("done", "copy-done", 2, shape(F32, 8, space=to), 1))

    assert copy(0, HOST)["done"].transfer == "host_to_device"
    assert copy(HOST, 0)["done"].transfer == "device_to_host"
    assert copy(0, 1)["done"].transfer == "device_to_device"
    assert copy(0, HOST)["start"].transfer == ""
    assert computing(op("d", "all-reduce-done", 1, shape(F32, 8)))["d"].transfer == "collective"
    sent = computing(op("s", "send-done", 1, shape(F32, 8), more=encode_integer(47, 1)), op("r", "recv-done", 2, shape(F32, 8)))
    assert [sent[n].transfer for n in ("s", "r")] == ["device_to_host", "device_to_device"]


def updating(
    copy: bytes = b"",
    *,
    update: str = "scatter",
    donated: int = 0,
    returned: bytes = shape(F32, 8, 4),
    inside: bytes = b"",
    between: tuple[bytes, ...] = (),
    behind: tuple[bytes, ...] = (),
) -> HloModule:
    """A program that copies its argument, the second, of 8 times 4 numbers, and returns what
    `update` makes of the copy; `donated`: the number of an argument, counted from 0 (the first is
    none).
    """
    named = encode_bytes(7, encode_bytes(2, "state[0]")) + encode_integer(9, 1)
    written = encode_bytes(7, encode_bytes(2, "jit(f)/scatter") + encode_bytes(3, "train.py") + encode_integer(4, 20))
    called = encode_bytes(38, encode_varint(2)) if inside else b""
    instructions = (
        op("ids", "parameter", 1, shape(4, 3)),
        op("table", "parameter", 2, shape(F32, 8, 4), more=named),
        copy or op("copy", "copy", 3, shape(F32, 8, 4), 2),
        *between,
        op(
            "read",
            "gather",
            8,
            shape(F32, 3, 4),
            3,
            1,
            more=encode_bytes(7, encode_bytes(3, "train.py") + encode_integer(4, 10)),
        ),
        op("update", update, 9, shape(F32, 8, 4), 7 if between else 3, 1, 8, more=written + called),
        *behind,
    )
    result = encode_bytes(
        4, encode_bytes(2, encode_integer(2, TUPLE) + encode_bytes(4, shape(F32)) + encode_bytes(4, returned))
    )
    aliases = encode_bytes(8, encode_bytes(1, encode_integer(2, donated) + encode_integer(4, 1))) if donated else b""
    fused = encode_bytes(3, inside + encode_integer(5, 2)) if inside else b""
    return HloModule(
        encode_bytes(
            1, encode_bytes(3, b"".join(instructions) + encode_integer(5, 1)) + fused + result + encode_integer(6, 1) + aliases
        )
    )


WRITES = op("written", "dynamic-update-slice", 20, shape(F32, 8, 4))
OLD = op("old", "parameter", 5, shape(F32, 8, 4), more=encode_integer(9, 2))
PASSED = op("passed", "bitcast", 7, shape(F32, 32), 3)


@pytest.mark.parametrize(
    "program",
    [
        updating(),
        updating(update="while"),
        updating(update="fusion", inside=WRITES),
        updating(between=(PASSED,)),
        updating(between=(PASSED, OLD)),
        updating(behind=(op("before", "multiply", 10, shape(F32, 8, 4), 2, 2),)),
        updating(
            op("copy", "fusion", 3, shape(F32, 8, 4), 2, more=encode_bytes(38, encode_varint(2))),
            inside=op("c", "copy", 21, shape(F32)),
        ),
    ],
)
def test_a_copy_of_what_is_updated_and_returned_could_be_donated(program: HloModule) -> None:
    """It is of the line that updates, though another one takes the copy first."""
    assert (program["copy"].undonated_argument, program["copy"].source) == ("state[0]", "train.py:20")
    assert {program[name].undonated_argument for name in program if name != "copy"} == {""}


@pytest.mark.parametrize(
    "program",
    [
        updating(donated=1),
        updating(donated=2, between=(PASSED, OLD)),
        updating(behind=(op("both", "multiply", 10, shape(F32, 8, 4), 9, 2),)),
        updating(behind=(op("root", "tuple", 10, shape(F32, 8, 4), 9, 2),)),
        updating(update="add"),
        updating(update="fusion", inside=op("sum", "add", 20, shape(F32, 8, 4))),
        updating(returned=shape(F32, 8, 5)),
        updating(op("copy", "copy", 3, shape(F32, 8, 4, order=(0, 1)), 2)),
        updating(op("copy", "copy", 3, shape(F32, 8, 4, space=1), 2)),
        updating(op("copy", "add", 3, shape(F32, 8, 4), 2)),
        updating(op("copy", "copy", 3, shape(F32, 8, 4), 1)),
    ],
    ids=[
        *(
            "donated",
            "another is donated for the only output",
            "old and new are needed",
            "both are returned",
            "no update",
            "nor in a fusion",
            "another output",
        ),
        *("transposed", "moved", "no copy", "of another argument"),
    ],
)
def test_other_copies_are_no_matter_of_donating(program: HloModule) -> None:
    assert {program[name].undonated_argument for name in program} == {""}


def test_both_ends_of_an_asynchronous_copy_are_of_the_argument() -> None:
    both = encode_integer(2, TUPLE) + encode_bytes(4, shape(F32, 8, 4)) + encode_bytes(4, shape(F32, 8, 4))
    ends = op("copy", "copy-start", 3, both, 2), op("done", "copy-done", 7, shape(F32, 8, 4), 3)
    program = updating(ends[0], between=ends[1:])
    assert [program[name].undonated_argument for name in ("copy", "done")] == ["state[0]"] * 2


def test_a_written_out_copy_tells_its_direction() -> None:
    """TPU profiles without the program still have the instruction as the event's name."""
    array = "f32[5,4]{1,0:T(8,128)}"
    host = "f32[5,4]{1,0:T(8,128)S(5)}"
    assert parse_transfer_direction(f"%copy-done = {array} copy-done(({array}, {host}, u32[]{{:S(2)}}) %s)") == "host_to_device"
    assert parse_transfer_direction(f"%copy-done = {host} copy-done(({host}, {array}, u32[]{{:S(2)}}) %s)") == "device_to_host"
    assert parse_transfer_direction("%slice-done = f32[2] slice-done(%s)") == "device_to_device"


def test_the_source_is_the_programs_own_line() -> None:
    """Frames count from 1, innermost first: a library's line is passed over."""
    location = [encode_bytes(3, encode_integer(1, f) + encode_integer(3, line)) for f, line in ((1, 12), (2, 99))]
    stack = encode_bytes(4, encode_integer(1, 1)) + encode_bytes(4, encode_integer(1, 2) + encode_integer(2, 1))
    frames = encode_bytes(
        17,
        encode_bytes(1, "/home/me/train.py")
        + encode_bytes(1, "/v/lib/python3.12/site-packages/flax/nn.py")
        + b"".join(location)
        + stack,
    )
    described = encode_bytes(
        2,
        encode_bytes(1, "dot")
        + encode_bytes(2, "dot")
        + encode_bytes(7, encode_bytes(2, "jit(f)/dot") + encode_integer(15, 2)),
    )
    assert HloModule(encode_bytes(1, frames + encode_bytes(3, described)))["dot"].source == "/home/me/train.py:12"


def test_a_jax_step_is_traced_back_to_its_operations() -> None:
    trace = opened("jax_loop").run.hosts[0].trace
    assert HloModules(trace)[8]["dot.1"].opcode == "dot"
    rows = {row["op"]: row for row in opened("jax_loop").hlo_stats().table("hlo_ops").records()}
    assert rows["dot.1"]["program"] == "jit_step"
    assert rows["dot.1"]["framework_op"].startswith("jit(step)/")
    assert rows["dot.1"]["source"] == "/home/dev/fx/jaxprof.py:7"
    assert rows["dot.1"]["occurrences"] == int((np.array(trace.stat("hlo_op").texts()) == "dot.1").sum())


def test_gpu_ops_name_the_line_and_count_every_execution_once() -> None:
    run = opened("jax_rocm_gemm").run
    rows = list(opened("jax_rocm_gemm").hlo_stats().table("hlo_ops").records())
    trace = run.hosts[0].trace
    events = trace.stat("hlo_op").rows
    kernels = events[[trace.planes[p].name.startswith("/device:") for p in trace.lines.plane[trace.line[events]]]]
    assert len(kernels) * 2 == len(events), "each launch call names the op too, and is none"
    assert sum(row["occurrences"] for row in rows) == len(kernels), "one kernel each"
    assert sum(row["total_ps"] for row in rows) == trace.duration[kernels].sum()
    assert {row["source"].rpartition(":")[2] for row in rows if row["framework_op"] == "jit(dot)/dot_general"} == {"37"}


def test_tpu_ops_have_rates() -> None:
    page = opened("tpu_v6e_inference").hlo_stats()
    row = next(r for r in page.table("hlo_ops").records() if r["category"] == "loop fusion")
    seconds = row["self_ps"] / 1e12
    assert row["flops_per_s"] == pytest.approx(1342177280 * row["occurrences"] / seconds)
    assert row["bytes_per_s"] == pytest.approx(10737418240 * row["occurrences"] / seconds)
    assert row["intensity"] == pytest.approx(0.125)
    assert row["source"].endswith(":29")
    assert next(page.table("programs").records())["program"] == "jit_f"


@pytest.mark.parametrize("name", [n for n in PROFILES if n not in ("idle_empty",)])
def test_shares_add_up(name: str) -> None:
    page = opened(name).hlo_stats()
    if page.unavailable is None:
        assert sum(row["fraction"] for row in page.table("hlo_ops").records()) == pytest.approx(1)
        assert sum(row["fraction"] for row in page.table("programs").records()) == pytest.approx(1)


def test_a_loop_has_no_rate_of_its_own() -> None:
    """Its body runs more often than once: counting the body's product for the loop would give any
    rate.
    """
    takes = (op("a", "parameter", 1, shape(F32, 8, 8)), op("b", "parameter", 2, shape(F32, 8, 8)))
    dot = op("dot", "dot", 3, shape(F32, 8, 8), 1, 2, more=encode_bytes(30, encode_bytes(1, encode_varint(1))))
    program = computing(
        op("w", "while", 4, shape(F32, 8, 8), more=encode_bytes(38, encode_varint(2))), inside=takes[0] + takes[1] + dot
    )
    assert program["dot"].cost.flops == 2 * 8 * 8 * 8
    assert program["w"].cost == Cost()


def test_damaged_shapes_count_nothing() -> None:
    huge = shape(F32, *[2**63] * 30)
    nested = huge
    for _ in range(500):
        nested = encode_integer(2, TUPLE) + encode_bytes(4, nested)
    program = computing(op("huge", "add", 1, huge), op("deep", "add", 2, nested))
    assert program["huge"].cost.bytes == 0
    assert program["deep"].precision_bits == 0


def test_a_function_begins_at_its_first_line_that_made_an_op() -> None:
    """Qualified names end in the function's own; `jit_step(8)` holds `step`."""
    functions = encode_bytes(2, "main") + encode_bytes(2, "main.<locals>.step")
    places = b"".join(
        encode_bytes(3, encode_integer(1, 1) + encode_integer(2, f) + encode_integer(3, line))
        for f, line in ((1, 40), (2, 14), (2, 12))
    )
    program = HloModule(encode_bytes(1, encode_bytes(17, encode_bytes(1, "/home/me/train.py") + functions + places)))
    assert program.find_source_line("step") == "/home/me/train.py:12"
    assert program.find_source_line("other") == ""


def test_the_roofs_of_a_processor_are_called_after_what_was_measured() -> None:
    """float32 stands in for 16 bits, which no roof is called after then."""
    roofs = host_roofs({"cpu_peaks": {"float32": 2e11, "float64": 1e11, "copy": 3e10}})
    assert roofs is not None
    names = {row["roof"].partition(":")[0] for row in iter_roof_places(roofs, 0.1, 100.0)}
    assert names == {"32 bits", "64 bits"}


def test_what_waits_has_a_colour_of_its_own() -> None:
    """The TPU's ops wait for copies between host and device; that was the green of what is fast."""
    page = opened("tpu_v6e_inference").page("hlo_stats")
    tree = {
        (row["name"], row["depth"]): row["heat"] for row in next(t for t in page.tables() if t.name == "op_profile").records()
    }
    assert tree["jit_f", 0] == "waiting" and tree["data transfer (waiting)", 1] == "waiting"
    assert "97% waits for transfers" in page.headline


def test_fusions_of_products_are_told_from_others() -> None:
    ops = next(t for t in opened("jax_h100_ok_vae").page("hlo_stats").tables() if t.name == "hlo_ops")
    shares = {"fusion with a matrix product": 0.0, "fusion": 0.0}
    for row in ops.records():
        if row["category"] in shares:
            shares[row["category"]] += row["fraction"]
    assert shares["fusion with a matrix product"] == pytest.approx(0.25, abs=0.01)
    assert shares["fusion"] == pytest.approx(0.31, abs=0.01)


def test_what_starts_a_transfer_moves_nothing_itself() -> None:
    tables = {table.name: table for table in opened("tpu_v6e_inference").page("hlo_stats").tables()}
    starts = [row for row in tables["hlo_ops"].records() if row["op"].startswith("copy-start")]
    assert starts and all(row["bytes"] is None and row["bytes_per_s"] is None for row in starts)
    program = next(tables["programs"].records())
    assert program["bytes"] / 2**30 == pytest.approx(60, rel=0.01), "30 GiB to the host and as much back"
