"""Synthetic hosts of one training, whose times are known."""

from __future__ import annotations

from pathlib import Path

from outpace.testing import SpaceBuilder, Unsigned

MS = 1_000_000_000
START = 1_795_000_000 * 10**9  # ns since 1970
COLLECTIVE = "CollectiveReduceV2:CollectiveReduceV2"


def host(
    name: str,
    *,
    steps: int = 10,
    first: int = 0,
    work: float = 6.0,
    wait: float = 1.0,
    length: float = 10.0,
    later_ns: int = 0,
    ahead_ns: int = 0,
    collectives: bool = True,
    marked: bool = True,
) -> SpaceBuilder:
    """A host whose steps of `length` ms wait `wait` ms for input, compute for `work` ms and spend
    the rest in a collective.

    `later_ns`: how much later it began to record than START, true time; `ahead_ns`: what its clock
    shows too much; `first`: number of its first step.
    """
    origin = START + later_ns + ahead_ns
    space = SpaceBuilder(name)
    line = space.plane("/host:CPU").line("python", timestamp_ns=origin)
    for at in range(steps):
        begin = round(at * length * MS)
        if marked:
            line.event("train", begin, round(length * MS), step_num=first + at, _r=1)
        line.event("IteratorGetNextOp::DoCompute", begin, round(wait * MS))
        line.event("net/dense/MatMul:_MklMatMul", begin + round(wait * MS), round(work * MS))
        met = begin + round((wait + work) * MS)
        line.event(COLLECTIVE if collectives else "net/dense_1/MatMul:_MklMatMul", met, round(length * MS) - (met - begin))
    environment = space.plane("Task Environment").stat("profile_start_time", Unsigned(origin))
    environment.stat("profile_stop_time", Unsigned(origin + round(steps * length * 10**6)))
    return space


def put(space: SpaceBuilder, folder: Path, file: str = "") -> Path:
    """Write a host into a folder; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    return space.write(folder / f"{file or space.hostname}.xplane.pb")


def session(logdir: Path, second: int) -> Path:
    """A folder called after a time."""
    return logdir / "plugins/profile" / f"2026_01_01_00_00_{second:02d}"
