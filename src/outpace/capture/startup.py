# SPDX-License-Identifier: Apache-2.0
"""Records what the script's main thread does from the start of its process until the training is
steady. Standard library only.

Imports, graphs and compilations are measured; what is left is the script's own code, which samples
of its stack divide among its lines.
"""

from __future__ import annotations

import bisect
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import FrameType
from typing import NamedTuple

from outpace.capture import ticks
from outpace.capture.compilations import COMPILE_EVENT, LOWERING_EVENT
from outpace.capture.faults import suppress_faults
from outpace.capture.imports import ImportTimes
from outpace.capture.sampler import read_line
from outpace.capture.stacks import OWN, PYTHON, Frame, StackKey, StackTable, owner_of
from outpace.frameworks.jax import CACHE_MISS, TRACEBACK_FILE
from outpace.frameworks.keras import TRACEBACK_FILE as KERAS_TRACEBACK_FILE
from outpace.frameworks.tensorflow import READ_NEXT
from outpace.store.record import Compilation, FunctionTrace
from outpace.store.startup import Startup, StartupKind, StartupPart

MAX_SAMPLES = 60_000
MAX_PARTS, LEAST_SHARE = 60, 0.003  # parts that are stored, and their minimum share; the rest is added up by kind
OTHERS = "others"
STEADY = 1.5  # factor on the median of later steps, up to which a step is a steady one
_WRAPPERS = (TRACEBACK_FILE, KERAS_TRACEBACK_FILE)  # files of functions that only pass calls on
_PUT = "device_put"  # JAX's function that copies to a device
_STAT_START = 22  # number of the field of /proc/PID/stat with the start of the process


class PartKey(NamedTuple):
    """What makes a part of the start-up one: see `StartupPart`."""

    kind: StartupKind
    name: str
    file: str = ""
    line: int = 0
    library: str = ""


class Span(NamedTuple):
    """Time that is known to be of a part, ns since the start of the process."""

    start_ns: int
    end_ns: int
    key: PartKey


class StartupRecorder:
    """Records the start-up of the script of this process.

    imports: measures imports.
    """

    def __init__(self, launched_ns: int) -> None:
        """Create a recorder in a process whose first line ran at `launched_ns`, Unix time."""
        self._launched_ns = launched_ns
        self._began_ns = min(_find_process_start() or launched_ns, launched_ns)
        self._script_ns = self._opened_ns = 0
        self._ticks = ticks.ThreadTicks(threading.main_thread().ident or 0)
        self._stacks = StackTable()
        self._rows: list[tuple[int, int, int]] = []
        self.imports = ImportTimes()

    def begin(self) -> None:
        """The script begins."""
        with suppress_faults():
            self.imports.install()
            self._ticks.start(self._add_sample)
        self._script_ns = time.time_ns()

    def end(self) -> None:
        """The window opens, or the script ends without one."""
        if not self._opened_ns:
            self._opened_ns = time.time_ns()
            with suppress_faults():
                self._ticks.stop()
                self.imports.uninstall()

    def _add_sample(self, frame: FrameType | None, points: list[ticks.SamplePoint]) -> None:
        """Store the stack whose innermost frame is `frame`, for each of `points`."""
        with suppress_faults():  # one stack that cannot be read is no reason to read no other
            index = self._stacks.index(frame)
            if index is not None and len(self._rows) < MAX_SAMPLES:
                self._rows += [(moment, weight, index) for moment, weight in points]

    def build(
        self,
        steps: Sequence[tuple[int, int]],
        traces: Sequence[FunctionTrace],
        compilations: Sequence[Compilation],
        cache: tuple[str, float],
    ) -> Startup:
        """Return the record.

        steps: start and end of the first steps, ns of `time.perf_counter_ns`.
        traces: graphs that `tf.function` built.
        compilations: events of JAX's compilations.
        cache: folder of JAX's persistent cache, and the shortest compilation that it stores, s.
        """
        offset_ns = time.time_ns() - time.perf_counter_ns() - self._began_ns
        whole = [(start + offset_ns, end + offset_ns) for start, end in steps]
        spans = [*self._iter_spans(traces, compilations)]
        opened_ns = (self._opened_ns or time.time_ns()) - self._began_ns
        first = find_first_steady([end - start for start, end in whole])
        if whole:
            end_ns = whole[first][0] if first < len(whole) else whole[-1][1]
        else:
            end_ns = max((span.end_ns for span in spans if span.end_ns <= opened_ns), default=opened_ns)
        steps_key = PartKey(StartupKind.STEP, "")
        spans += [Span(start, end, steps_key) for start, end in whole[:first]]
        parts = self._build_parts(spans, end_ns, _last_changes(compilations), _count_hits(compilations))
        return Startup(end_ns, "steps" if whole else "compilation", parts, first, *cache)

    def _iter_spans(self, traces: Sequence[FunctionTrace], compilations: Sequence[Compilation]) -> Iterator[Span]:
        """Yield what was measured."""
        began_ns = self._began_ns
        yield Span(0, self._launched_ns - began_ns, PartKey(StartupKind.INTERPRETER, ""))
        yield Span(self._launched_ns - began_ns, self._script_ns - began_ns, PartKey(StartupKind.OUTPACE, ""))
        for each in self.imports.spans:
            key = PartKey(StartupKind.IMPORT, each.package, each.file, each.line)
            yield Span(each.start_ns - began_ns, each.end_ns - began_ns, key)
        for graph in traces:
            start_ns, owner = graph.start_ns - began_ns, owner_of(graph.file) if graph.file else ""
            place = ("", 0) if owner else (graph.file, graph.line)
            yield Span(start_ns, start_ns + graph.duration_ns, PartKey(StartupKind.GRAPH, graph.function, *place, owner))
        own = _own_programs(compilations)
        for compilation in compilations:
            end_ns = compilation.unix_ns - began_ns
            yield Span(end_ns - compilation.duration_ns, end_ns, _key_of(compilation, own))

    def _build_parts(
        self,
        spans: Sequence[Span],
        end_ns: int,
        changes: Mapping[PartKey, Compilation],
        hits: Mapping[PartKey, int],
    ) -> tuple[StartupPart, ...]:
        """Return the parts of the time until `end_ns`.

        changes: the last compilation of several, by part.
        hits: number of programs from the persistent cache, by part.
        """
        times, gaps = divide(spans, end_ns)
        counts = Counter(span.key for span in spans if span.start_ns < end_ns)
        for key, (start_ns, duration_ns) in self._divide_gaps(gaps).items():
            known = times.get(key, (start_ns, 0))
            times[key] = min(known[0], start_ns), known[1] + duration_ns
        parts = []
        for key, (_, duration_ns) in sorted(times.items(), key=lambda item: item[1][0]):
            change = changes.get(key)
            part = StartupPart(key.kind.value, key.name, duration_ns, max(counts[key], 1), key.file, key.line)
            part = replace(part, text=read_line(key.file, key.line), library=key.library, hits=hits.get(key, 0))
            parts.append(replace(part, before=change.before, arguments=change.arguments) if change else part)
        return _shorten(parts)

    def _divide_gaps(self, gaps: Sequence[tuple[int, int]]) -> dict[PartKey, tuple[int, int]]:
        """Return the first moment and the duration of the script's own code, by its lines."""
        frames: dict[Frame, int] = {}
        stacks: dict[StackKey, int] = {}
        index_of = self._stacks.merge_into(frames, stacks)
        keys = [_find_code(stack, [*frames]) for stack in stacks]
        offset_ns = time.time_ns() - time.monotonic_ns() - self._began_ns
        starts, weights = [start for start, _ in gaps], Counter[PartKey]()
        first: dict[PartKey, int] = {}
        for moment, weight, index in self._rows:
            at = bisect.bisect_right(starts, moment + offset_ns) - 1
            if at >= 0 and moment + offset_ns < gaps[at][1]:
                key = keys[index_of[index]]
                weights[key] += weight
                first[key] = min(first.get(key, moment + offset_ns), moment + offset_ns)
        total_ns = sum(end - start for start, end in gaps)
        if not weights:
            return {PartKey(StartupKind.CODE, ""): (gaps[0][0], total_ns)} if total_ns else {}
        scale = total_ns / sum(weights.values())
        return {key: (first[key], round(weight * scale)) for key, weight in weights.items()}


def divide(spans: Sequence[Span], end_ns: int) -> tuple[dict[PartKey, tuple[int, int]], list[tuple[int, int]]]:
    """Return the first moment and the duration of each part until `end_ns`, without that of spans
    inside of its own, and the gaps between spans, ns.
    """
    times: dict[PartKey, tuple[int, int]] = {}
    gaps: list[tuple[int, int]] = []
    open_spans: list[Span] = []
    covered_ns = 0

    def add(key: PartKey, start_ns: int, duration_ns: int) -> None:
        first_ns, known_ns = times.get(key, (start_ns, 0))
        times[key] = first_ns, known_ns + duration_ns

    for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns)):
        while open_spans and open_spans[-1].end_ns <= span.start_ns:
            open_spans.pop()
        start_ns, stop_ns = max(span.start_ns, 0), min(span.end_ns, open_spans[-1].end_ns if open_spans else end_ns)
        if not open_spans:
            start_ns = max(start_ns, covered_ns)
        if stop_ns <= start_ns:
            continue
        if open_spans:
            add(open_spans[-1].key, start_ns, start_ns - stop_ns)
        else:
            gaps += [(covered_ns, start_ns)] if start_ns > covered_ns else []
            covered_ns = stop_ns
        add(span.key, start_ns, stop_ns - start_ns)
        open_spans.append(Span(start_ns, stop_ns, span.key))
    gaps += [(covered_ns, end_ns)] if end_ns > covered_ns else []
    return times, gaps


def find_first_steady(durations: Sequence[int]) -> int:
    """Return the number of the first step that takes about as long as later ones; the number of all
    where there are too few to tell.
    """
    if len(durations) < 3:
        return len(durations)
    usual = median(durations[len(durations) // 2 :])
    return next((at for at, duration in enumerate(durations) if duration <= STEADY * usual), len(durations))


def _key_of(compilation: Compilation, own: Collection[str]) -> PartKey:
    """Return the part that an event of a compilation belongs to: a function is traced, its program
    lowered and compiled. own: programs of functions that the script's lines call themselves.
    """
    kind = StartupKind.TRACE
    if compilation.event.endswith(COMPILE_EVENT):
        kind = StartupKind.COMPILE
    elif compilation.event.endswith(LOWERING_EVENT):
        kind = StartupKind.LOWER
    name, place = _program_name(compilation), (compilation.file, compilation.line)
    if not compilation.library_call or name in own:
        return PartKey(kind, name, *place)
    # of each of JAX's own operations a program is made
    is_op = compilation.library in ("", "jax")
    return PartKey(kind, compilation.library_call if is_op else name, *place, "jax" if is_op else compilation.library)


def _program_name(compilation: Compilation) -> str:
    """Return the name of the function that a program was made of."""
    name = compilation.program
    return name[len("jit(") : -1] if name.startswith("jit(") and name.endswith(")") else name


def _own_programs(compilations: Sequence[Compilation]) -> frozenset[str]:
    """Return the names of the functions that lines of the script call themselves, and that are
    traced or compiled then.
    """
    return frozenset(_program_name(each) for each in compilations if not each.library_call)


def _last_changes(compilations: Sequence[Compilation]) -> dict[PartKey, Compilation]:
    """Return the last compilation of each part that was compiled before with other arguments."""
    own = _own_programs(compilations)
    return {_key_of(each, own): each for each in compilations if each.before is not None}


def _count_hits(compilations: Sequence[Compilation]) -> Counter[PartKey]:
    """Return the number of programs from the persistent cache, by part."""
    own = _own_programs(compilations)
    return Counter(_key_of(each, own) for each in compilations if each.cache == "hit")


def _find_code(stack: StackKey, frames: Sequence[Frame]) -> PartKey:
    """Return the part that a stack belongs to: the innermost line of the user's, and the function
    of a library that it calls.
    """
    functions = {frames[index][1].rpartition(".")[2] for index, _ in stack}
    kind = StartupKind.CODE
    if READ_NEXT.name.rpartition(".")[2] in functions:
        kind = StartupKind.BATCH
    elif _PUT in functions:
        kind = StartupKind.TRANSFER
    for at in range(len(stack) - 1, -1, -1):
        file, _, _, owner = frames[stack[at][0]]
        if not owner:
            inside = (frames[index] for index, _ in stack[at + 1 :])
            called = next((frame for frame in inside if not frame[0].endswith(_WRAPPERS)), ("", "", 0, ""))
            # a call of a compiled function is the script's own
            is_library = called[3] not in ("", OWN, PYTHON) and not called[0].endswith(CACHE_MISS.file)
            name = called[1].rpartition(".")[2] if is_library else ""
            return PartKey(kind, name, file, stack[at][1], called[3] if is_library else "")
    return PartKey(kind, "")


def _shorten(parts: Sequence[StartupPart]) -> tuple[StartupPart, ...]:
    """Return the parts that are long enough, and what the others of each kind add up to."""
    least_ns = LEAST_SHARE * sum(part.duration_ns for part in parts)
    longest = {id(part) for part in sorted(parts, key=lambda part: -part.duration_ns)[:MAX_PARTS]}
    kept: list[StartupPart] = []
    rest: dict[str, StartupPart] = {}
    for part in parts:
        if id(part) in longest and part.duration_ns >= least_ns:
            kept.append(part)
            continue
        sums = rest.get(part.kind, StartupPart(part.kind, OTHERS, 0, 0))
        duration_ns, count, hits = sums.duration_ns + part.duration_ns, sums.count + part.count, sums.hits + part.hits
        rest[part.kind] = replace(sums, duration_ns=duration_ns, count=count, hits=hits)
    return (*kept, *rest.values())


def _find_process_start() -> int | None:
    """Return when this process was started, Unix time in ns; None where the system does not tell
    that.
    """
    if not sys.platform.startswith("linux"):
        return None
    with suppress_faults():
        with open("/proc/self/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        started_s = int(fields[_STAT_START - 3]) / os.sysconf("SC_CLK_TCK")
        return time.time_ns() - round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1e9)
    return None
