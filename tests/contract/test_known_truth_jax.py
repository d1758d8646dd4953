"""Built trainings of JAX on a GPU whose bottleneck is known: a rule names it, and promises what it
takes at most, and no less than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from outpace import api
from outpace.model import Finding, Report
from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.testing import GpuBuilder, SpaceBuilder
from tests.hlo_proto import F32, S32, instruction, module, numbers, op, shape

US = 1_000_000
STEPS = 12


@dataclass(frozen=True)
class Step:
    """A step of `length` µs. `calls`: (program, from, until) on the host, which launches its
    `kernels`, (instruction, µs) one behind the other; `host`: (event, from, until); `fetched`:
    (from, until) of a copy of 64 MB to the host.
    """

    length: int
    calls: Sequence[tuple[str, int, int]]
    kernels: Mapping[str, Sequence[tuple[str, float]]]
    programs: Mapping[str, bytes]
    host: Sequence[tuple[str, int, int]] = ()
    fetched: tuple[int, int] = (0, 0)


def built(folder: Path, step: Step) -> api.Profile:
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    held = space.plane("/host:metadata")
    ids = {name: 8 + at for at, name in enumerate(step.programs)}
    for name, proto in step.programs.items():
        held.describe(f"jit_{name}({ids[name]})", "", **{"Hlo Proto": proto})
    gpu = GpuBuilder(
        space, host, compute_cap_major=9, compute_cap_minor=0, device_vendor="Nvidia", core_count=132, clock_rate=1_980_000
    )
    for number in range(STEPS):
        begin = number * step.length * US
        host.event("train", begin, step.length * US, step_num=number, _r=1)
        for event, low, high in step.host:
            host.event(event, begin + low * US, (high - low) * US)
        done = 0.0
        for name, low, high in step.calls:
            host.event(f"PjitFunction({name})", begin + low * US, (high - low) * US)
            for at, (hlo, lasts) in enumerate(step.kernels[name]):
                called = low + 1 + at * (high - low - 2) / len(step.kernels[name])
                done = max(done, called + 2)
                gpu.kernel(
                    hlo.replace(".", "_"),
                    begin + round(done * US),
                    round(lasts * US),
                    called=begin + round(called * US),
                    call_ps=US // 10,
                    hlo_op=hlo,
                    hlo_module=f"jit_{name}",
                    program_id=ids[name],
                )
                done += lasts
        if step.fetched[1]:
            low, high = step.fetched
            gpu.copy("D2H", 64_000_000, begin + low * US, (high - low) * US, source="device", destination="pageable")
        assert done <= step.length, "the step is too short for its work"
    space.write(folder)
    return api.open(folder)


def report_of(folder: Path, step: Step) -> Report:
    return built(folder, step).report()


def found(report: Report, rule: str) -> Finding:
    by_id = {finding.id: finding for finding in report.findings}
    assert rule in by_id, list(by_id)
    return by_id[rule]


def at(name: str, opcode: str, number: int, result: bytes, *operands: int, line: int = 0, more: bytes = b"") -> bytes:
    """An instruction of a line of the script."""
    place = encode_bytes(
        7, encode_bytes(2, f"jit(step)/jit(main)/{opcode}") + encode_bytes(3, "/home/me/train.py") + encode_integer(4, line)
    )
    return instruction(name, opcode, number, result, operands, more=(place if line else b"") + more)


def product(name: str, number: int, left: int, right: int, *result: int, line: int = 0, batch: Sequence[int] = ()) -> bytes:
    how = numbers(1, [len(batch) + 1]) + numbers(2, [len(batch)]) + (numbers(3, batch) + numbers(4, batch) if batch else b"")
    return at(name, "dot", number, shape(F32, *result), left, right, line=line, more=encode_bytes(30, how))


SCORES = shape(F32, 16, 1024, 1024)
ATTENTION = module(
    [
        *(instruction(name, "parameter", n, shape(F32, 16, 1024, 64)) for n, name in enumerate("qkv", 1)),
        product("scores", 4, 1, 2, 16, 1024, 1024, line=40, batch=(0,)),
        at("largest", "reduce", 5, shape(F32, 16, 1024), 4, line=41, more=numbers(14, [2])),
        at("below", "subtract", 6, SCORES, 4, 5, line=41),
        at("exp", "exponential", 7, SCORES, 6, line=41),
        at("sum", "reduce", 8, shape(F32, 16, 1024), 7, line=41, more=numbers(14, [2])),
        at("share", "divide", 9, SCORES, 7, 8, line=41),
        product("mixed", 10, 9, 3, 16, 1024, 64, line=42, batch=(0,)),
        product("other", 11, 10, 10, 1024, 1024, line=50),
    ]
)
HOT = shape(F32, 4096, 50_000)
ONE_HOT = module(
    [
        instruction("ids", "parameter", 1, shape(S32, 4096)),
        instruction("table", "parameter", 2, shape(F32, 50_000, 64)),
        instruction(
            "hot",
            "fusion",
            3,
            HOT,
            [1],
            [2],
            more=encode_bytes(7, encode_bytes(3, "/home/me/train.py") + encode_integer(4, 30)),
        ),
        product("rows", 4, 3, 2, 4096, 64, line=30),
        product("other", 5, 4, 4, 4096, 4096, line=50),
    ],
    [
        instruction("given", "parameter", 20, shape(S32, 4096)),
        instruction("count", "iota", 21, HOT),
        instruction("wide", "broadcast", 22, HOT, [20]),
        instruction("is", "compare", 23, shape(1, 4096, 50_000), [22, 21], more=encode_bytes(63, "EQ")),
        instruction("as", "convert", 24, HOT, [23]),
    ],
)
TABLE = shape(F32, 1_000_000, 64)
WRITTEN = encode_bytes(7, encode_bytes(2, "jit(step)/scatter") + encode_bytes(3, "/home/me/train.py") + encode_integer(4, 60))
_UPDATING = (
    op("ids", "parameter", 1, shape(S32, 4096)),
    op("table", "parameter", 2, TABLE, more=encode_bytes(7, encode_bytes(2, "state['table']")) + encode_integer(9, 1)),
    op("copy.1", "copy", 3, TABLE, 2),
    op("rows", "multiply", 4, shape(F32, 4096, 64), 1, 1),
    op("update", "scatter", 5, TABLE, 3, 1, 4, more=WRITTEN),
)
UNDONATED = encode_bytes(
    1,
    encode_bytes(3, b"".join(_UPDATING) + encode_integer(5, 1))
    + encode_bytes(4, encode_bytes(2, TABLE))
    + encode_integer(6, 1),
)
WIDE = shape(F32, 100_000_000)


def elementwise(opcode: str, line: int) -> bytes:
    return module([instruction("x", "parameter", 1, WIDE), at(f"{opcode}.1", opcode, 2, WIDE, 1, line=line)])


LOOP = module(
    [
        instruction("x", "parameter", 1, shape(F32, 64)),
        *(at(f"{opcode}.{n}", opcode, n, shape(F32, 64), 1, line=70) for n, opcode in enumerate(("add", "tanh"), 2)),
        at("mul.9", "multiply", 9, shape(F32, 64), 1, line=80),
    ]
)
APART = ("log", "tanh", "exponential", "sqrt")
KNOWN: dict[str, tuple[Step, str, float, float, str]] = {
    "attention in several kernels": (
        Step(
            1000,
            [("step", 5, 40)],
            {
                "step": [
                    ("scores", 100),
                    ("largest", 50),
                    ("exp", 100),
                    ("sum", 50),
                    ("share", 100),
                    ("mixed", 100),
                    ("other", 350),
                ]
            },
            {"step": ATTENTION},
        ),
        *("unfused_attention", 0.5, 0.5, "train.py:41"),
    ),
    "one-hot product": (
        Step(1000, [("step", 5, 40)], {"step": [("hot", 200), ("rows", 400), ("other", 300)]}, {"step": ONE_HOT}),
        *("one_hot_product", 0.6, 0.6, "train.py:30"),
    ),
    "undonated argument": (
        Step(1000, [("step", 5, 40)], {"step": [("copy.1", 700), ("rows", 50), ("update", 150)]}, {"step": UNDONATED}),
        *("undonated", 0.7, 0.7, "train.py:60"),
    ),
    "programs that one could fuse": (
        Step(
            1000,
            [(name, 5 + 10 * n, 14 + 10 * n) for n, name in enumerate(APART)],
            {name: [(f"{name}.1", 230)] for name in APART},
            {name: elementwise(name, 60 + n) for n, name in enumerate(APART)},
        ),
        # all reads and writes but the first and the last go
        *("slow_kind", 0.92 * 3 / 4, 0.92, ""),
    ),
    "results fetched": (
        Step(
            1000,
            [("step", 5, 40)],
            {"step": [("scores", 200)]},
            {"step": ATTENTION},
            host=[("np.asarray(jax.Array)", 60, 900)],
            fetched=(260, 880),
        ),
        # what is left is the device's work
        *("results_fetched", 0.8, 0.8, ""),
    ),
    "loop of tiny kernels": (
        Step(4000, [("step", 5, 3900)], {"step": [("add.2", 2.0), ("tanh.3", 1.0), ("mul.9", 2.5)] * 600}, {"step": LOOP}),
        *("small_ops", 0.75, 1.0, ""),
    ),
}
"""(the step, the rule that names its fault, what one saves at least, and at most, of the step, the
line).
"""


@pytest.mark.parametrize("name", KNOWN)
def test_the_fault_is_named_and_its_promise_holds(name: str, tmp_path: Path) -> None:
    step, rule, least, most, line = KNOWN[name]
    finding = found(report_of(tmp_path, step), rule)
    assert finding.saving is not None
    assert least - 0.02 <= finding.saving.high <= most + 0.02
    assert not line or finding.location == line


DONATED = encode_bytes(
    1,
    encode_bytes(3, b"".join(_UPDATING) + encode_integer(5, 1))
    + encode_bytes(4, encode_bytes(2, TABLE))
    + encode_integer(6, 1)
    + encode_bytes(8, encode_bytes(1, encode_integer(2, 1) + encode_integer(4, 1))),
)
COUNTED = module(
    [
        instruction("table", "parameter", 2, shape(F32, 4096, 64)),
        instruction("hot", "fusion", 3, shape(F32, 4096, 4096), [], [2]),
        product("rows", 4, 3, 2, 4096, 64, line=30),
    ],
    [
        instruction("count", "iota", 21, shape(F32, 4096, 4096)),
        instruction("other", "iota", 22, shape(F32, 4096, 4096)),
        instruction("is", "compare", 23, shape(1, 4096, 4096), [22, 21], more=encode_bytes(63, "EQ")),
        instruction("as", "convert", 24, shape(F32, 4096, 4096), [23]),
    ],
)
HEALTHY: dict[str, tuple[Step, str]] = {
    "a donated argument": (replace(KNOWN["undonated argument"][0], programs={"step": DONATED}), "undonated"),
    "an identity matrix": (
        Step(1000, [("step", 5, 40)], {"step": [("hot", 400), ("rows", 500)]}, {"step": COUNTED}),
        "one_hot_product",
    ),
    "a small part in attention": (
        Step(
            1000,
            [("step", 5, 40)],
            {"step": [("scores", 30), ("exp", 30), ("mixed", 30), ("other", 800)]},
            {"step": ATTENTION},
        ),
        "unfused_attention",
    ),
    "a fetch that waits for the device": (
        Step(
            1000,
            [("step", 5, 40)],
            {"step": [("scores", 800)]},
            {"step": ATTENTION},
            host=[("np.asarray(jax.Array)", 60, 890)],
            fetched=(820, 880),
        ),
        "results_fetched",
    ),
    "few short kernels": (
        Step(1000, [("step", 5, 900)], {"step": [("add.2", 2.0), ("tanh.3", 1.0), ("mul.9", 2.5)] * 150}, {"step": LOOP}),
        "small_ops",
    ),
}
"""(the step, the rule that must not speak)."""


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_not_named(name: str, tmp_path: Path) -> None:
    step, rule = HEALTHY[name]
    assert rule not in {finding.id for finding in report_of(tmp_path, step).findings}


@pytest.mark.parametrize("first, promises", [(230, True), (900, False)], ids=["four alike", "one that makes nearly all"])
def test_one_program_is_not_to_be_fused_with_others(first: int, promises: bool, tmp_path: Path) -> None:
    step, *_ = KNOWN["programs that one could fuse"]
    rest = {name: [(f"{name}.1", 230 if promises else 10)] for name in APART[1:]}
    finding = report_of(tmp_path, replace(step, kernels={APART[0]: [(f"{APART[0]}.1", first)], **rest})).findings[0]
    assert ("call such functions in one under jax.jit" in finding.action.lower()) is promises
