"""The memory of a program: by hand, and damaged."""

from __future__ import annotations

import random

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.memory import BufferKind, MemoryPlan, read_memory_plan
from outpace.timeline.hlo.reader import read_graph, read_module
from tests.hlo_proto import F32, instruction, module, numbers, shape

ALLOCATES, FREES, SHARES = 0, 1, 2
SIZES = {1: 400, 2: 80, 3: 80, 4: 40, 5: 120}  # of buffers, each of the instruction with its number


def buffer(number: int, size: int) -> bytes:
    place = encode_integer(4, number) + numbers(3, [])
    return encode_bytes(1, encode_integer(1, number) + encode_integer(2, size) + encode_bytes(3, place))


def allocation(number: int, size: int, *buffers: int, **flags: int) -> bytes:
    fields = {"local": 3, "parameter": 5, "result": 7, "space": 8, "constant": 12}
    content = encode_integer(1, number) + encode_integer(2, size)
    content += b"".join(encode_integer(fields[name], value) for name, value in flags.items())
    content += b"".join(encode_bytes(9, encode_integer(1, each)) for each in buffers)
    return encode_bytes(3, content)


def event(kind: int, number: int, shared: int = 0) -> bytes:
    content = (encode_integer(1, kind) if kind else b"") + encode_integer(2, number) + encode_bytes(4, f"i{number}")
    return encode_bytes(1, content + (encode_integer(5, shared) if shared else b""))


def proto(*events: bytes, number: int = 77) -> bytes:
    """A program with an argument of 400 bytes, a result of 40, and temporaries of which 200 bytes
    are reserved. `number`: of the allocation, as the trace states it; the compiler has changed it.
    """
    given = [instruction(f"i{at}", "parameter" if at == 1 else "add", at, shape(F32, size // 4)) for at, size in SIZES.items()]
    assignment = b"".join(buffer(*each) for each in SIZES.items())
    assignment += allocation(3, 400, 1, parameter=1)
    assignment += allocation(5, 40, 4, result=1)
    assignment += allocation(8, 200, 2, 3, 5)
    assignment += allocation(9, 1000, local=1) + allocation(10, 500, space=1)
    if events:
        assignment += encode_bytes(4, b"".join(events) + encode_integer(2, 1) + encode_integer(3, number))
    return encode_bytes(1, read_module(module(given))) + encode_bytes(3, assignment)


def plan(*events: bytes) -> MemoryPlan:
    data = proto(*events)
    found = read_memory_plan(data, read_graph(read_module(data)))
    assert found is not None
    return found


def test_what_is_live_follows_the_schedule() -> None:
    found = plan(
        event(ALLOCATES, 2), event(ALLOCATES, 5), event(FREES, 2), event(ALLOCATES, 3), event(FREES, 5), event(FREES, 3)
    )
    assert found.sizes == {
        BufferKind.ARGUMENT: 400,
        BufferKind.DONATED: 0,
        BufferKind.RESULT: 40,
        BufferKind.CONSTANT: 0,
        BufferKind.TEMPORARY: 200,
    }
    assert found.curve == [("i2", 520), ("i5", 640), ("i2", 560), ("i3", 640), ("i5", 520), ("i3", 440)]
    assert (found.peak_bytes, found.peak, found.total_bytes) == (640, 1, 640)
    assert [(each.size, each.kind.value) for each in found.peak_buffers] == [
        (400, "argument"), (120, "temporary"), (80, "temporary"), (40, "result"),
    ]  # fmt: skip
    assert [str(each.shape) for each in found.peak_buffers][:2] == ["f32[100]", "f32[30]"]


@pytest.mark.parametrize(
    ("events", "curve"),
    [
        # The shared memory lives as long as the last buffer in it.
        ([event(ALLOCATES, 2), event(SHARES, 3, 2), event(FREES, 2), event(FREES, 3)], [520, 520, 520, 440]),
        # One that comes back into memory that was free takes it up again.
        ([event(ALLOCATES, 2), event(FREES, 2), event(SHARES, 3, 2), event(FREES, 3)], [520, 440, 520, 440]),
        # What is never freed ends with the run.
        ([event(ALLOCATES, 2)], [520, 520]),
        # Frees of what nobody knows are damage.
        ([event(FREES, 2), event(FREES, 99)], [440, 440]),
    ],
    ids=["shared", "shared again", "never freed", "damaged"],
)
def test_memory_that_buffers_share(events: list[bytes], curve: list[int]) -> None:
    found = plan(*events)
    assert [live for _, live in found.curve] == curve
    assert sum(each.size for each in found.peak_buffers) == found.peak_bytes == max(curve)


def test_without_a_trace_the_peak_is_what_is_reserved() -> None:
    found = plan()
    assert (found.peak_bytes, found.peak, found.curve) == (640, -1, [])
    assert sum(each.size for each in found.peak_buffers) == 640


def test_a_program_without_an_assignment_has_no_plan() -> None:
    data = module([instruction("i1", "parameter", 1, shape(F32, 4))])
    assert read_memory_plan(data, read_graph(read_module(data))) is None


@pytest.mark.parametrize("seed", range(200))
def test_damage_is_survived(seed: int) -> None:
    chance, data = random.Random(seed), bytearray(proto(event(ALLOCATES, 2), event(SHARES, 3, 2), event(FREES, 2)))
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    damaged = bytes(data[: chance.randrange(len(data) // 2, len(data) + 1)])
    found = read_memory_plan(damaged, read_graph(read_module(damaged)))
    assert found is None or len(found.peak_buffers) <= len(found.buffers)
