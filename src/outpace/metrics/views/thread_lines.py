# SPDX-License-Identifier: Apache-2.0
"""What Python's other threads computed during the capture, by line: generators that feed the
training, and work in parallel to it.

Outpace's own captures sample the threads' stacks some thirty times a second, with their processor
clocks. A thread's processor time is distributed, by the time used just before each sample, over the
stacks in which it did not wait and was in the user's code: elsewhere a pool's worker waits for its
next task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.source_line import format_source_line
from outpace.model import Row, Table, TableType
from outpace.timeline import Run

# Functions of the standard library in which a thread waits.
_WAITS = frozenset(
    ("wait", "_wait_for_tstate_lock", "get", "put", "select", "poll", "accept", "recv", "recv_bytes", "acquire", "join", "read")
)
NATIVE_THREAD = "native"  # name of threads that a framework created, not Python
_OWN_CODE = ""  # owner of the frames of the user's own code

THREAD_LINES = TableType("thread_lines", "Python lines of other threads").columns("""
    * host     | text  | name of the host
    * thread   | text  | name of the thread; native for one that a framework made
    * file     | text  | source file of the line
    * line     | count | number of the line: the innermost one of your own code | Line
    * function | text  | function that holds the line
      source   | text  | file and line, as findings name them
    + cores    | cores | processor time per second that the thread spent below this line
    + looks    | count | times that the thread was met there | Samples
""")


@memoize
def thread_lines(run: Run) -> Table:
    """Return a table with one row per host, thread and line of the user's own code, the busiest
    first.
    """
    rows = [row for timeline in run.hosts for row in _rows(timeline.host, run.record(timeline.host).get("python_samples"))]
    sums = THREAD_LINES.sum_rows(rows)
    return THREAD_LINES.build({**row, "source": format_source_line(row["file"], row["line"])} for row in sums).sort_by("cores")


def find_busiest_line(run: Run, host: str, *, native: bool) -> tuple[str, str, float, float]:
    """Return (source, function, cores, cores of all lines) of the other threads' busiest line.

    native: consider the threads that a framework created (they run generators and Python functions
        of the input pipeline) instead of the program's own

    Return ("", "", 0, 0) where there is no such line.
    """
    rows = [r for r in thread_lines(run).records() if r["host"] == host and (r["thread"] == NATIVE_THREAD) == native]
    top = max(rows, key=lambda row: row["cores"], default=None)
    return (top["source"], top["function"], top["cores"], sum(row["cores"] for row in rows)) if top else ("", "", 0.0, 0.0)


def find_call_below(run: Run, host: str, source: str) -> tuple[str, str]:
    """Return (library, call) of what other threads mostly run below a line of the user's own code:
    the innermost call, as in ("python", "python: ZipExtFile.read"); ("", "") where the line itself
    ran, or was never met.
    """
    record = run.record(host).get("python_samples") or {}
    met: dict[tuple[str, str], int] = defaultdict(int)
    for thread in record.get("others") or ():
        for stack, count in thread["stacks"]:
            places = [(record["frames"][frame], line) for frame, line in record["stacks"][stack]]
            own = [at for at, (frame, _) in enumerate(places) if frame[3] == _OWN_CODE]
            if own and format_source_line(places[own[-1]][0][0], places[own[-1]][1]) == source:
                _, name, _, library = places[-1][0]
                met[("", "") if own[-1] == len(places) - 1 else (library, f"{library}: {name}")] += count
    return max(met, key=met.__getitem__, default=("", ""))


@dataclass(frozen=True)
class ThreadWork:
    """What threads compute in one of the program's functions.

    function: name of the function
    source: its busiest line (`train.py:40`)
    cores: processor time per second
    """

    function: str
    source: str
    cores: float


def thread_work(run: Run, host: str, *, native: bool | None = False) -> list[ThreadWork]:
    """Return the functions in which Python's other threads compute, the busiest first.

    native: consider the threads that a framework created (True), the program's own (False), or both
        (None)
    """
    functions: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in thread_lines(run).filter_by("host", host).records():
        if native is None or (row["thread"] == NATIVE_THREAD) is native:
            functions[row["file"], row["function"]].append(row)
    works = [
        ThreadWork(function, _busiest(rows), sum(row["cores"] for row in rows)) for (_, function), rows in functions.items()
    ]
    return sorted(works, key=lambda work: -work.cores)


def _busiest(rows: list[dict[str, Any]]) -> str:
    """Return the line at which threads compute most, summed over threads."""
    cores: dict[str, float] = defaultdict(float)
    for row in rows:
        cores[row["source"]] += row["cores"]
    return max(cores, key=cores.__getitem__)


def _rows(host: str, record: Mapping[str, Any] | None) -> Iterator[Row]:
    for (thread, (file, line, function)), (cores, looks) in _places(record):
        place = {"host": host, "thread": thread, "file": file, "line": line, "function": function}
        yield {**place, "cores": cores, "looks": int(looks)}


def _places(record: Mapping[str, Any] | None) -> Iterator[tuple[tuple[str, tuple[str, int, str]], tuple[float, float]]]:
    """Yield ((thread, place), (cores, samples)) of every line at which a thread was sampled
    working.
    """
    threads = (record or {}).get("others") or ()
    # Threads that lived throughout were watched for the whole capture.
    watched = max((thread["watched_ns"] for thread in threads), default=0)
    for thread in threads:
        assert record is not None
        met: dict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0])  # number of samples, processor time in ns
        looks = [count for _, count in thread["stacks"]]
        used_ns = thread.get("used_ns") or ()
        weights = used_ns if len(used_ns) == len(looks) and any(used_ns) else looks
        for (stack, count), used in zip(thread["stacks"], weights, strict=True):
            places = [(record["frames"][frame], line) for frame, line in record["stacks"][stack]]
            if places and not (places[-1][0][3] == "python" and places[-1][0][1].rpartition(".")[2] in _WAITS):
                user_place = next(((frame, line) for frame, line in reversed(places) if frame[3] == _OWN_CODE), None)
                if user_place is not None:
                    sums = met[user_place[0][0], user_place[1], user_place[0][1]]
                    sums[0], sums[1] = sums[0] + count, sums[1] + used
        worked = sum(used for _, used in met.values())
        cores = max(0.0, thread["cpu_ns"] / watched) if watched > 0 else 0.0  # a thread's clock may begin a little late
        for place, (count, used) in met.items():
            yield (thread["name"], place), (cores * used / worked if worked else 0.0, float(count))
