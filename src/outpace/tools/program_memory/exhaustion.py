# SPDX-License-Identifier: Apache-2.0
"""Reads what XLA and TensorFlow write where memory runs out: what was asked for, what there is, and
what stood there.

Three texts are known: that of a program of a GPU or CPU (`buffer_assignment.cc` of XLA), that of a
program that does not fit on a TPU, and that of an allocator (`bfc_allocator.cc`). A log may hold
several attempts, of which the last one counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.timeline.hlo.memory import BufferKind

_LOG_PREFIX = re.compile(r"^.*?\.cc:\d+\]\s?")
_SIZE = r"([\d.,]+)\s*(bytes|B|[KMGT]i?B?)?"
_ASKED = re.compile(
    rf"(?:memory (?:while )?trying to allocate|out of memory allocating|failed to allocate(?: request for)?)\s+{_SIZE}",
    re.IGNORECASE,
)
_EXACT = re.compile(r"\((?:rounded to )?(\d+)\s*(?:B|bytes)?\)")
_TENSOR = re.compile(
    r"OOM when allocating tensor with shape\s?\[([\d,]*)\] and type (\w+)(?: on (\S+))?(?: by allocator (\S+))?"
)
_USED = re.compile(rf"Used {_SIZE} of {_SIZE} (\w+)\.")
_PART = re.compile(rf"^\s*(parameter|constant|maybe_live_out|preallocated temp|total) (allocation|fragmentation):\s+{_SIZE}")
_TPU_PART = re.compile(rf"^\s*(reserved|program|arguments|global|scoped|HLO temp|overlays|stack)\s+{_SIZE}")
_FRAGMENTS = re.compile(rf"fragmentation \({_SIZE}\)")
_STATISTIC = re.compile(r"^\s*(Limit|InUse|MaxInUse):\s+(\d+)")
_CHUNKS = re.compile(rf"(\d+) Chunks of size (\d+) totalling {_SIZE}")
_FIELD = re.compile(
    r"^\s*(?:\d+\.\s+)?(Size|Operator|XLA Label|XLA label|Shape|Entry Parameter Subshape|Unpadded size|Allocation type): ?(.*)"
)
_OP_NAME, _SOURCE = re.compile(r'op_name="((?:[^"\\]|\\.)*)"'), re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_SHAPE = re.compile(r"\w+\[[\d,]*\]")
_PARTS = {
    "parameter": BufferKind.ARGUMENT,
    "arguments": BufferKind.ARGUMENT,
    "constant": BufferKind.CONSTANT,
    "maybe_live_out": BufferKind.RESULT,
    "preallocated temp": BufferKind.TEMPORARY,
    "HLO temp": BufferKind.TEMPORARY,
}
_BYTES = {"B": 1, "BYTES": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ELEMENT_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "bool": 1, "uint8": 1, "int8": 1}
_NOT_A_FAILURE = "not a failure"  # what an allocator says of an attempt that it makes for speed


@dataclass(frozen=True)
class LiveArray:
    """An array, or several of one size, in memory when that ran out.

    size: bytes of all of them.
    count: number of arrays.
    shape: as XLA writes it: `f32[4096,128,3]`; "" where unknown.
    kind: what it is for; None where unknown.
    unpadded: bytes of its elements; `size` where the text does not say.
    op: op of the framework that computes it; "" where unknown.
    source: `file:line` of that; "" where unknown.
    label: instruction of the program; "" where unknown.
    """

    size: int
    count: int = 1
    shape: str = ""
    kind: BufferKind | None = None
    unpadded: int = 0
    op: str = ""
    source: str = ""
    label: str = ""


@dataclass(frozen=True)
class Exhaustion:
    """Memory that ran out.

    asked: bytes of the allocation that failed; 0 where unknown.
    what: the array that it was for, or the memory: `f32[1000,250]`, `hbm`; "" where unknown.
    limit: bytes that there are; 0 where unknown.
    used: bytes that the program needs, or that the allocator held; 0 where unknown.
    parts: bytes by what they are for, of a program.
    fragments: bytes that lie idle between arrays.
    arrays: what stood there, the largest first; XLA writes the largest 15 to 20 alone.
    is_program: whether a program's plan is known; else an allocator's state.
    """

    asked: int
    what: str
    limit: int
    used: int
    parts: dict[BufferKind, int]
    fragments: int
    arrays: Sequence[LiveArray]
    is_program: bool

    @property
    def needed(self) -> int:
        """Bytes that were needed at once."""
        return self.used if self.is_program else self.used + self.asked


def read_exhaustion(text: str) -> Exhaustion | None:
    """Return what a log says of memory that ran out; None where it says nothing of that."""
    reader = _Reader()
    for line in text.splitlines():
        reader.add(_LOG_PREFIX.sub("", line) if ".cc:" in line else line)
    return reader.result()


def _bytes(number: str, unit: str | None) -> int:
    unit = (unit or "B").upper()
    return int(float(number.replace(",", "").rstrip(".")) * _BYTES[unit if unit in _BYTES else unit[0]])


class _Reader:
    """Of lines; a later attempt takes the place of an earlier one."""

    def __init__(self) -> None:
        self._asked, self._what, self._limit, self._used, self._fragments = 0, "", 0, 0, 0
        self._parts: dict[BufferKind, int] = {}
        self._arrays: list[LiveArray] = []
        self._fields: dict[str, str] = {}
        self._is_program = False

    def add(self, line: str) -> None:
        """Read one line."""
        if _NOT_A_FAILURE in line:
            return
        for read in (self._read_request, self._read_program, self._read_part, self._read_allocator, self._read_array):
            read(line)

    def result(self) -> Exhaustion | None:
        """Return what was read; None where memory did not run out."""
        if not (self._asked or (self._used and self._limit) or self._is_program):
            return None
        arrays = sorted(self._arrays, key=lambda each: -each.size)
        return Exhaustion(
            self._asked, self._what, self._limit, self._used, dict(self._parts), self._fragments, arrays, self._is_program
        )

    def _read_request(self, line: str) -> None:
        if found := _ASKED.search(line):
            exact = _EXACT.search(line, found.start())
            self._asked = int(exact[1]) if exact else _bytes(found[1], found[2])
        if found := _TENSOR.search(line):
            elements = math.prod(int(each) for each in found[1].split(",") if each)
            self._what = f"{found[2]}[{found[1]}]"
            self._asked = self._asked or elements * _ELEMENT_BYTES.get(found[2], 0)

    def _read_program(self, line: str) -> None:
        if "BufferAssignment stats" in line or "hbm usage" in line:
            self._parts, self._fragments, self._is_program = {}, 0, True
        if "Peak buffers" in line or "Largest program allocations" in line:
            self._arrays, self._is_program = [], True
        if found := _USED.search(line):
            self._used, self._limit, self._what = _bytes(found[1], found[2]), _bytes(found[3], found[4]), found[5]
            self._is_program = True

    def _read_part(self, line: str) -> None:
        if found := _PART.match(line):
            name, kind, size = found[1], found[2], _bytes(found[3], found[4])
            if kind == "allocation" and name == "total":
                self._used = size
            elif kind == "allocation":
                self._parts[_PARTS[name]] = size
            elif name == "total":
                self._fragments = size
        elif found := _TPU_PART.match(line):
            if found[1] in _PARTS:
                self._parts[_PARTS[found[1]]] = _bytes(found[2], found[3])
            if fragments := _FRAGMENTS.search(line):
                self._fragments = _bytes(fragments[1], fragments[2])

    def _read_allocator(self, line: str) -> None:
        if "Summary of in-use Chunks" in line:
            self._arrays = []
        if found := _CHUNKS.search(line):
            count, size = int(found[1]), int(found[2])
            self._arrays.append(LiveArray(count * size, count))
        if found := _STATISTIC.match(line):
            if found[1] == "Limit":
                self._limit = int(found[2])
            elif found[1] == "InUse" and not self._is_program:
                self._used = int(found[2])

    def _read_array(self, line: str) -> None:
        if line.strip().startswith("====") and "Size" in self._fields:
            self._arrays.append(_array(self._fields))
            self._fields = {}
        elif found := _FIELD.match(line):
            self._fields[found[1].replace("label", "Label")] = found[2].strip()
        elif self._fields:
            last = next(reversed(self._fields))
            self._fields[last] += f" {line.strip()}"


def _array(fields: dict[str, str]) -> LiveArray:
    size, unpadded = (next(_sizes(fields.get(name, "")), 0) for name in ("Size", "Unpadded size"))
    operator = fields.get("Operator", "")
    op, source = _OP_NAME.search(operator), _SOURCE.search(operator)
    is_argument = "Entry Parameter Subshape" in fields or fields.get("XLA Label", "").startswith("parameter")
    shape = _SHAPE.search(fields.get("Entry Parameter Subshape", fields.get("Shape", "")))
    kind = fields.get("Allocation type", "")
    known = BufferKind.ARGUMENT if is_argument else BufferKind.TEMPORARY if "temp" in kind else None
    made = LiveArray(
        size, shape=shape[0] if shape else "", kind=known, unpadded=unpadded or size, label=fields.get("XLA Label", "")
    )
    return replace(made, op=op[1] if op else "", source=f"{source[1]}:{source[2]}" if source else "")


def _sizes(text: str) -> Iterator[int]:
    yield from (_bytes(number, unit) for number, unit in re.findall(_SIZE, text))
