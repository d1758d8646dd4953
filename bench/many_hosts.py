"""One run of 1,000 hosts over 30 folders, made of a real profile: python bench/many_hosts.py
[--hosts N] [--folders N] [--keep DIR]

Each host is the profile of a worker of a two-worker training
(`tests/data/profiles/multi_worker_strategy`), with times of its own: what precedes a collective
varies from host to host, and collectives last until the slowest host has come. One host computes
for longer, one waits for its input for longer, the clock of one is 3 s ahead, the file of one is
cut, and one is missing. Prints what the report says of each of them, how long it took, and the most
memory of all its processes together.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from results import Figure, add_record, record

sys.path.insert(0, str(Path(__file__).parents[1]))
from outpace.metrics.cluster.workers import workers
from outpace.model.protobuf_wire import encode_bytes, encode_integer, iter_fields
from outpace.timeline import Run, Timeline
from outpace.trace import read_trace

BASE = Path(__file__).parents[1] / "tests/data/profiles/multi_worker_strategy/worker0.xplane.pb.gz"
SLOW, INPUT, AHEAD, CUT, MISSING = 0.417, 0.613, 0.274, 0.791, 0.555  # which host, as a share of all
SLOWER, LATER = 3.0, 2.0  # ms more before a collective, for the slow one and for the one whose input is
JITTER = 0.15  # ms that hosts differ by from step to step
SECOND = 10**9  # ns
SAYS = {
    "slow": "Worker {} is a straggler",
    "input": "Worker {} is a straggler",
    "ahead": "The clock of {} is",
    "cut": "{}: ",
    "missing": "{} is missing",
}
MS = 10**9  # ps


class Warp:
    """A profile whose steps are stretched: a map of its times that bends where a step begins, its
    wait for input begins and ends, its first collective begins, and its last one ends.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        timeline = Timeline(read_trace(data))
        run = Run("", (timeline,))
        before = workers(run)[0].lead_times
        assert before is not None
        steps, trace = timeline.steps, timeline.trace
        waits = trace.find_rows_by_name(lambda name: "IteratorGetNext" in name)
        waits = waits[timeline.step_index[waits] >= 0]
        began, done = steps.end.copy(), steps.start.copy()
        np.minimum.at(began, timeline.step_index[waits], trace.start[waits])
        np.maximum.at(done, timeline.step_index[waits], trace.end[waits])
        self.bends = np.stack((steps.start, began, done, steps.start + before.lead_ps, before.collectives_end_ps), axis=1)
        self.origin = 1000 * trace.origin_ns

    def made(self, more_input: np.ndarray, more_work: np.ndarray, latest: np.ndarray, ahead_ns: int) -> bytes:
        """The profile of a host that takes so much more (ps per step) before the first collective,
        which ends `latest` later than it did.
        """
        late = np.concatenate(((0,), np.cumsum(latest)[:-1]))  # what precedes a step
        more = np.stack((late, late, late + more_input, late + more_input + more_work, late + latest), axis=1)
        return b"".join(self._space(self.bends.ravel(), (self.bends + more).ravel(), ahead_ns))

    def _space(self, old: np.ndarray, new: np.ndarray, ahead_ns: int) -> Iterator[bytes]:
        self.old, self.new, self.ahead = old, new, ahead_ns
        for number, value in iter_fields(self.data):
            yield encode_bytes(1, self._plane(value)) if number == 1 else _again(number, value)

    def _plane(self, plane: bytes) -> bytes:
        names = {1: ""}
        for number, value in iter_fields(plane):
            if number == 5:
                entry = dict(iter_fields(dict(iter_fields(value))[2]))
                names[entry.get(1, 0)] = entry.get(2, b"").decode()
        moved = {key for key, name in names.items() if name in ("profile_start_time", "profile_stop_time")}
        return b"".join(
            encode_bytes(3, self._line(value))
            if number == 3
            else encode_bytes(6, self._stat(value, moved))
            if number == 6
            else _again(number, value)
            for number, value in iter_fields(plane)
        )

    def _stat(self, stat: bytes, moved: set[int]) -> bytes:
        parts = list(iter_fields(stat))
        if dict(parts).get(1) not in moved:
            return stat
        return b"".join(encode_integer(n, v + self.ahead if n in (3, 4) else v) for n, v in parts)

    def _line(self, line: bytes) -> bytes:
        parts = list(iter_fields(line))
        zero = 1000 * dict(parts).get(3, 0) - self.origin
        events = [list(iter_fields(value)) for number, value in parts if number == 4]
        known = [dict(event) for event in events]
        start = np.array([zero + event.get(2, 0) for event in known], np.float64)
        end = start + [event.get(3, 0) for event in known]
        start_, end_ = self._at(start), self._at(end)
        out = [
            _again(number, value) if number != 3 else encode_integer(3, value + self.ahead)
            for number, value in parts
            if number != 4
        ]
        for event, begin, length in zip(events, (start_ - zero).tolist(), (end_ - start_).tolist(), strict=True):
            times = encode_integer(2, max(begin, 0)) + encode_integer(3, max(length, 0))
            out.append(encode_bytes(4, times + b"".join(_again(n, v) for n, v in event if n not in (2, 3))))
        return b"".join(out)

    def _at(self, times: np.ndarray) -> np.ndarray:
        moved = np.interp(times, self.old, self.new - self.old)
        return np.rint(times + moved).astype(np.int64)


def _again(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return encode_integer(number, value)
    return encode_bytes(number, value)


def write(folder: Path, hosts: int, folders: int) -> dict[str, str]:
    """Write the run; returns the name of the host that each thing is wrong with."""
    data = gzip.decompress(BASE.read_bytes())
    warp = Warp(data)
    odd = {
        int(share * hosts): what
        for what, share in (("slow", SLOW), ("input", INPUT), ("ahead", AHEAD), ("cut", CUT), ("missing", MISSING))
    }
    random, steps = np.random.default_rng(0), len(warp.bends)
    work = (random.random((hosts, steps)) * JITTER * MS).astype(np.int64)
    given = np.zeros((hosts, steps), np.int64)
    work[int(SLOW * hosts)] += int(SLOWER * MS)
    given[int(INPUT * hosts)] += int(LATER * MS)
    latest = (work + given).max(axis=0)
    for host in range(hosts):
        if odd.get(host) == "missing":
            continue
        place = folder / f"plugins/profile/2026_01_01_00_00_{host * folders // hosts:02d}"
        place.mkdir(parents=True, exist_ok=True)
        ahead = 3 * SECOND if odd.get(host) == "ahead" else int(random.integers(-50_000, 50_000))
        made = warp.made(given[host], work[host], latest, ahead)
        packed = gzip.compress(made, 1)
        (place / f"node{host:04d}.xplane.pb.gz").write_bytes(packed[: len(packed) // 2] if odd.get(host) == "cut" else packed)
    return {what: f"node{host:04d}" for host, what in odd.items()}


def measured(command: list[str]) -> tuple[str, float, float]:
    """What a command prints, its seconds, and the most memory (MB, shared pages in parts) that it
    and its children had at one moment.
    """
    began, most = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    done = threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(0.2):
            most = max(most, sum(map(_memory, _family(process.pid))))

    watching = threading.Thread(target=look)
    watching.start()
    out = process.communicate()[0]
    done.set()
    watching.join()
    return out, time.perf_counter() - began, most


def _family(pid: int) -> set[int]:
    """A process and all below it."""
    parents = {int(each.parent.name): _text(each).rpartition(")")[2].split() for each in Path("/proc").glob("[0-9]*/stat")}
    found = {pid}
    while more := {child for child, rest in parents.items() if rest and int(rest[1]) in found} - found:
        found |= more
    return found


def _memory(pid: int) -> float:
    lines = _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _text(path: Path) -> str:
    """What a file of /proc says, "" where the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def main() -> int:
    """Make the run, report on it, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--folders", type=int, default=30)
    parser.add_argument("--keep", type=Path, help="write the run here, and leave it there")
    add_record(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        odd = write(folder, asked.hosts, asked.folders)
        size = sum(file.stat().st_size for file in folder.rglob("*.gz"))
        print(f"{asked.hosts} hosts in {asked.folders} folders, {size / 1e6:.0f} MB; cores: {len(os.sched_getaffinity(0))}")
        out, seconds, memory = measured([sys.executable, "-m", "outpace", "report", str(folder), "--json"])
    report = json.loads(out)
    sentences = list(_texts((report["warnings"], report["findings"], report["tools"])))
    said = {what: next((text for text in sentences if SAYS[what].format(odd[what]) in text), "") for what in odd}
    for what, host in odd.items():
        print(f"{what:8} {host}: {said[what] or 'NOT NAMED'}")
    print(f"{seconds:.0f} s, {memory:.0f} MB")
    name = f"report of {asked.hosts:,} hosts in {asked.folders} folders"
    record(asked, "many_hosts", [Figure(name, f"{seconds:.0f} s, {memory:.0f} MB")])
    return 0 if all(said.values()) else 1


def _texts(part: Any) -> Iterator[str]:
    """The sentences of a report in JSON, but for its tables' cells."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from _texts(value) if key != "tables" else ()
    elif isinstance(part, (list, tuple)):
        for value in part:
            yield from _texts(value)


if __name__ == "__main__":
    sys.exit(main())
