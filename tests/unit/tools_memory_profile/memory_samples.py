"""Synthetic profiles with memory events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outpace import api
from outpace.testing import SpaceBuilder, StatValue

MS = 1_000_000_000
GIB = 1 << 30
CAPACITY = 1000


@dataclass
class Memory:
    """An allocator that keeps count of what is in use, and the events that it writes."""

    space: SpaceBuilder
    name: str = "GPU_0_bfc"
    capacity: int = CAPACITY
    used: int = 0
    fragmentation: float = 0.0
    thread: int = 0

    def __post_init__(self) -> None:
        self.peak = self.used
        self.threads = [thread for thread in host_plane(self.space)._lines if thread.name != "steps"]

    def write(self, event: str, time: int, address: int, size: int, **stats: StatValue) -> None:
        self.used += size if event == "MemoryAllocation" else -size
        self.peak = max(self.peak, self.used)
        state: dict[str, StatValue] = {
            "allocator_name": self.name,
            "bytes_reserved": 0,
            "bytes_allocated": self.used,
            "bytes_available": self.capacity - self.used,
            "fragmentation": self.fragmentation,
            "peak_bytes_in_use": self.peak,
            "requested_bytes": size,
            "allocation_bytes": size,
            "addr": address,
            "data_type": 0,
        }
        self.threads[self.thread].event(event, time, 0, **{**state, **stats})

    def take(self, time: int, address: int, size: int, **stats: StatValue) -> None:
        self.write("MemoryAllocation", time, address, size, **stats)

    def free(self, time: int, address: int, size: int) -> None:
        self.write("MemoryDeallocation", time, address, size)


def host_plane(space: SpaceBuilder):  # type: ignore[no-untyped-def]
    return space._planes[0]


def host(steps: int = 0, name: str = "vm", length: int = MS, threads: int = 1) -> SpaceBuilder:
    """A host whose steps 0, 1, ... are `length` long and stand side by side; memory events stand on
    the training thread.
    """
    space = SpaceBuilder(name)
    plane = space.plane("/host:CPU")
    line = plane.line("python")
    for number in range(steps):
        line.event("train", number * length, length, step_num=number, _r=1)
    for extra in range(1, threads):
        plane.line(f"thread {extra}")
    return space


def opened(folder: Path, *spaces: SpaceBuilder) -> api.Profile:
    """The profile of these hosts."""
    for space in spaces:
        space.write(folder)
    return api.open(folder)


def leaking(steps: int, per_step: int, noise: Sequence[int] = (0,), capacity: int = 100_000) -> SpaceBuilder:
    """Every step takes 300 bytes and gives them back, and keeps `per_step` bytes; `noise` is what
    is in use besides at step ends, in turn.
    """
    space = host(steps)
    memory = Memory(space, used=2000, capacity=capacity)
    held = 0
    for step in range(steps):
        begin = step * MS
        memory.take(begin + 1, 1, 300, tf_op="model/dense/MatMul", region_type="output", shape="[3]", data_type=1)
        if per_step > 0:
            memory.take(
                begin + 2, 100 + step, per_step, tf_op="model/keep/Identity", region_type="output", shape="[9]", data_type=1
            )
        memory.free(begin + 3, 1, 300)
        if held:
            memory.free(begin + 4, 2, held)
        held = noise[step % len(noise)]
        if held:
            memory.take(begin + 5, 2, held)
    return space
