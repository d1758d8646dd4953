# SPDX-License-Identifier: Apache-2.0
"""XLA programs in a profile: for every HLO op its opcode, framework op and source line, and what it
computes.

TensorFlow and JAX store each program as an `HloProto` on the plane `/host:metadata`. A program is
decoded when one of its ops is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import once
from outpace.model.arrays import Codes, Indices, Picoseconds
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import compute_nesting, distinct, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.hlo.module import HloModule
    from outpace.timeline.timeline import Timeline

RESULT_PREFIXES = ("its result", "result ")
"""Prefixes of the names of a signature's results."""
OP_LINE = "XLA Ops"
_NO_CELLS: Mapping[str, str] = {}
_ID_BITS = 2**64 - 1  # bits of an unsigned id
_HASHES = 2**32  # value from which ids of programs are hashes, not counts
_LONGEST_PS = 2**61  # time from which a device's clock is damaged; sums of two still fit


class HloModules:
    """All programs of a profile, by id."""

    def __init__(self, trace: Trace, cell_names: Mapping[str, str] = _NO_CELLS) -> None:
        """Decode the programs of a trace when they are used. `cell_names`: names of a notebook's
        cells (`In [3]`), by the file under which each was compiled.
        """
        self._by_id: dict[int, HloModule] = {}
        self._ids: dict[str, list[int]] = {}
        self._names: dict[int, str] = {}
        for row, stats in trace.name_stats.items():
            if isinstance(proto := stats.get(dialect.HLO_PROTO), bytes):
                number = parse_program_id(trace.names[row])
                self._by_id[number] = _build_module(proto, cell_names)
                self._names[number] = trace.names[row].rpartition("(")[0] or trace.names[row]
                self._ids.setdefault(normalize_function_name(parse_jitted_function(trace.names[row])), []).append(number)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[HloModule]:
        """Yield all programs."""
        return iter(self._by_id.values())

    def items(self) -> Iterator[tuple[int, str, HloModule]]:
        """Yield (id, name, program) of all programs."""
        return ((number, self._names[number], module) for number, module in self._by_id.items())

    def __getitem__(self, number: int) -> HloModule:
        """Return the program with an id; an empty program where the profile has none. Stats state
        ids as signed numbers, names as unsigned ones: both are accepted. -1 is that of no id.
        """
        return self._by_id.get(number & _ID_BITS if number < -1 else number) or self._empty_module

    @once
    def _empty_module(self) -> HloModule:
        return _build_module(b"")

    @property
    def device_count(self) -> int:
        """Number of devices of all hosts that run the largest program; 0 where it is unknown."""
        return max((program.device_count for program in self._by_id.values()), default=0)

    def find_source_line(self, function: str) -> str:
        """Return `file:line` of the first line of a function that JAX compiled; "" where no program
        has it.
        """
        return next(filter(None, (program.find_source_line(function) for program in self.modules_of(function))), "")

    def modules_of(self, function: str) -> list[HloModule]:
        """Return the programs of a function that JAX compiled, in the order of their ids."""
        return [self._by_id[number] for number in sorted(self._ids.get(normalize_function_name(function), []))]

    def find_newest(self, function: str, count: int) -> list[HloModule]:
        """Return the last `count` programs of a function that JAX compiled, in order; all of them
        where ids are hashes (TPUs), which have no order.
        """
        is_ordered = max(self._ids.get(normalize_function_name(function), []), default=0) < _HASHES
        return self.modules_of(function)[-count:] if is_ordered else self.modules_of(function)

    def op(self, program: int, name: str) -> HloOp:
        """Return an op of a program; `NO_OP` where the profile lacks it."""
        return self[program][name]


def _build_module(proto: bytes, cell_names: Mapping[str, str] = _NO_CELLS) -> HloModule:
    from outpace.timeline.hlo.module import HloModule  # many profiles of TensorFlow have no program

    return HloModule(proto, cell_names)


def parse_program_id(name: str) -> int:
    """Return the id in a program's name: 8 for `jit_step(8)`; -1 for a name without an id."""
    digits = name.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdigit() else -1


def find_op_lines(trace: Trace, plane: Plane) -> list[int]:
    """Return a device's lines of XLA ops, which TPUs have. On a GPU the profiler derives that line
    from the streams, which have more detail: it is left out.
    """
    names = {i: trace.lines.names[i] for i in plane.lines}
    streams = any(name.startswith("Stream") for name in names.values())
    return [i for i, name in names.items() if name == OP_LINE and not streams]


def compute_device_times(trace: Trace, rows: Indices) -> tuple[Picoseconds, Picoseconds]:
    """Return (durations, self times in ps) of events of one line, `rows` (sorted), on the device's
    own clock; on the trace's where not every event states it.

    In a TPU's trace, on the host's clock, some events are stretched and others cut to nothing; what
    the device counted is neither.
    """
    trace.load_stats((dialect.DEVICE_OFFSET, dialect.DEVICE_DURATION))
    start, duration = (trace.stat(name).take_ints(rows) for name in (dialect.DEVICE_OFFSET, dialect.DEVICE_DURATION))
    if any(len(times) == 0 or times.min() < 0 or times.max() >= _LONGEST_PS for times in (start, duration)):
        return trace.duration[rows], trace.compute_nesting(rows)[1]
    order = np.lexsort((-duration, start))
    self_ps = np.empty(len(rows), np.int64)
    self_ps[order] = compute_nesting(np.array([0, len(rows)]), start[order], duration[order])[1]
    return duration, self_ps


def load_hlo_ops(timeline: Timeline, rows: Indices) -> tuple[Codes, list[HloOp]]:
    """Return (index into the ops, int64, of each event at `rows` (sorted); distinct ops), by the
    stats `hlo_op` and `program_id`.

    Op 0 is `NO_OP`, for events without these stats. Ops of equal name in two programs are distinct.
    """
    trace = timeline.trace
    index = np.zeros(len(rows), np.int64)
    names, program = compute_hlo_op_stat(timeline), trace.stat(dialect.PROGRAM_ID)
    at, place = intersect_indices(rows, names.rows)
    if len(at) == 0:
        return index, [NO_OP]
    code, texts = names.encode_texts(place)
    numbers = program.take_ints(rows[at])
    ids = distinct(numbers)
    pair = np.searchsorted(ids, numbers) * len(texts) + code
    pairs = distinct(pair)
    index[at] = 1 + np.searchsorted(pairs, pair)
    instructions = [(int(ids[p // len(texts)]), texts[p % len(texts)]) for p in pairs.tolist()]
    return index, [NO_OP, *(timeline.hlo_modules.op(number, name) for number, name in instructions)]
