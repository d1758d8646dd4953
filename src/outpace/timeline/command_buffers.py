# SPDX-License-Identifier: Apache-2.0
"""Instructions of the kernels in a command buffer.

XLA records parts of a program as CUDA graphs (command buffers) and launches each with one call. The
profiler then gives all kernels of a launch the name of the buffer, where other kernels have the
name of their instruction. The kernels run in the order of the program's schedule. A kernel that XLA
compiled is named after its instruction (`loop_add_fusion_3` after `loop_add_fusion.3`, or, where
several instructions share one kernel, after the first of them); the kernels between these are those
of libraries (`nvjet_...` for `custom-call.17`, which may launch several). So the kernels named
after instructions are aligned with the schedule where all names agree, and the others are assigned
to the instructions scheduled in between. (The reference knows the buffer only.)
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.model.arrays import Codes, Indices
from outpace.timeline.event_names import CUDNN_MARKER
from outpace.timeline.xla_threads import host_mask
from outpace.trace import StatColumn, dialect
from outpace.trace.algorithms import distinct, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

_ON_AMD = ".kd"  # suffix of kernel names on AMD
_NUMBER, _OTHER = compile_lazily(r"_\d+$"), compile_lazily(r"\W")
_MOST = 50_000_000  # maximum number of comparisons in one profile: a second
_PATCHED = 1_000_000  # maximum number of comparisons for one launch whose names do not all agree


@memoize
def compute_hlo_op_stat(timeline: Timeline) -> StatColumn:
    """Return the stat `hlo_op` of all events, in which kernels of a command buffer have their own
    instruction, as far as it can be determined.
    """
    trace = timeline.trace
    stat = trace.stat(dialect.HLO_OP)
    rows, launch, program = _inside_buffers(timeline, stat)
    texts: list[str] = []
    named_rows: list[int] = []
    instructions_by_key: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    left = _MOST
    for kernels in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(launch)) + 1) if len(rows) else ():
        key = (int(program[kernels[0]]), tuple(trace.name[rows[kernels]].tolist()))
        if key not in instructions_by_key:
            schedules = timeline.hlo_modules[key[0]].schedules
            left -= len(kernels) * sum(map(len, schedules))
            instructions_by_key[key] = (
                align_to_schedule([trace.names[code] for code in key[1]], schedules) if left > 0 else [""] * len(kernels)
            )
        instructions = instructions_by_key[key]
        named_rows += [int(rows[i]) for i, name in zip(kernels.tolist(), instructions, strict=True) if name]
        texts += filter(None, instructions)
    return stat.replace_texts(np.array(named_rows, np.int64), texts) if named_rows else stat


def _inside_buffers(timeline: Timeline, stat: StatColumn) -> tuple[Indices, Codes, Codes]:
    """Return (rows, launch of each, program of each) of the kernels that name no instruction of
    their program, launch by launch in the order of their start.
    """
    trace, none = timeline.trace, np.zeros(0, np.int64)
    if not len(timeline.hlo_modules) or not timeline.device_planes:
        return none, none, none
    trace.load_stats((dialect.PROGRAM_ID, dialect.CORRELATION_ID, dialect.KERNEL_DETAILS))
    details, launch, program = (trace.stat(s) for s in (dialect.KERNEL_DETAILS, dialect.CORRELATION_ID, dialect.PROGRAM_ID))
    rows = details.rows[~host_mask(trace, details.rows)]
    for column in (stat, launch, program):
        rows = rows[intersect_indices(rows, column.rows)[0]]
    places = [intersect_indices(rows, column.rows)[1] for column in (stat, launch, program)]
    code, texts = stat.encode_texts(places[0])
    launches, programs = launch.uints[places[1]], program.uints[places[2]]
    ids = distinct(programs)
    pair = np.searchsorted(ids, programs) * max(len(texts), 1) + code
    pairs = distinct(pair)
    instructions = ((int(ids[p // len(texts)]), texts[p % len(texts)]) for p in pairs.tolist())
    strange = np.fromiter((name not in timeline.hlo_modules[number] for number, name in instructions), bool, len(pairs))
    inside = strange[np.searchsorted(pairs, pair)] & (launches != 0)  # 0 is no launch
    rows, launches, programs = rows[inside], launches[inside], programs[inside]
    order = np.lexsort((trace.start[rows], launches))
    return rows[order], launches[order].astype(np.int64), programs[order].astype(np.int64)


def align_to_schedule(kernels: Sequence[str], schedules: Sequence[Sequence[str]]) -> list[str]:
    """Return the instruction of each kernel of one launch, "" where it cannot be determined.
    `schedules`: names of instructions, one list per computation.
    """
    nothing = 0, [""] * len(kernels)
    return max((nothing, *(_align(kernels, one) for one in schedules)), key=lambda pair: (pair[0], sum(map(bool, pair[1]))))[1]


def _align(kernels: Sequence[str], instructions: Sequence[str]) -> tuple[int, list[str]]:
    """Return (number of kernels named after their instruction, instruction of each kernel)."""
    bases, called = [_base(name) for name in instructions], [_base(name) for name in kernels]
    shared = set(bases).intersection(called)
    named_kernels = [i for i, base in enumerate(called) if base in shared]
    named_instructions = [i for i, base in enumerate(bases) if base in shared]
    matches = _match_by_name([kernels[i] for i in named_kernels], [instructions[i] for i in named_instructions])
    places = {named_kernels[kernel]: named_instructions[place] for kernel, place in matches.items()}
    edges = (None, *sorted(places), None) if places else ()

    def is_library(place: int) -> bool:
        return bases[place] not in shared

    for left, right in pairwise(edges):
        between = range(0 if left is None else left + 1, len(kernels) if right is None else right)
        scheduled = range(0 if left is None else places[left] + 1, len(instructions) if right is None else places[right])
        # Before the first and after the last known kernel, only library calls next to it are
        # possible: an instruction with a kernel named after it would be in the launch
        if left is None:
            candidates = list(takewhile(is_library, reversed(scheduled)))[: len(between)][::-1]
        elif right is None:
            candidates = list(takewhile(is_library, scheduled))[: len(between)]
        else:
            candidates = list(filter(is_library, scheduled))
        if shared.isdisjoint(called[i] for i in between):
            places |= zip(between, _place_libraries([kernels[i] for i in between], candidates), strict=False)
    return len(matches), [instructions[places[i]] if i in places else "" for i in range(len(kernels))]


def _place_libraries(kernels: Sequence[str], places: list[int]) -> list[int]:
    """Return the place in the schedule of each library kernel, out of `places`: the only one, one
    each, or one for each group of consecutive kernels of one library; [] where it is ambiguous.
    """
    runs = np.cumsum([0, *((CUDNN_MARKER in some) != (CUDNN_MARKER in other) for some, other in pairwise(kernels))])
    if len(places) == 1:
        return places * len(kernels)
    if len(places) == len(kernels):
        return places
    return [places[run] for run in runs] if len(kernels) and len(places) == runs[-1] + 1 else []


def _match_by_name(kernels: Sequence[str], instructions: Sequence[str]) -> dict[int, int]:
    """Return the index of the instruction for each kernel that is named after one."""
    if not kernels:
        return {}
    if (offset := _find_offset(kernels, instructions)) is not None:
        return {i: offset + i for i in range(len(kernels))}
    if len(kernels) * len(instructions) > _PATCHED:
        return {}
    kernel_bases, instruction_bases = [_base(name) for name in kernels], [_base(name) for name in instructions]
    blocks = SequenceMatcher(None, instruction_bases, kernel_bases, autojunk=False).get_matching_blocks()
    return {at + i: first + i for first, at, size in blocks for i in range(size)}


def is_named_after(kernel: str, instruction: str) -> bool:
    """Whether a kernel is named after an instruction, apart from numbers. Then XLA compiled it
    (also with Triton), and it is no library's.
    """
    return _base(kernel.removesuffix(_ON_AMD)) == _base(instruction)


def _find_offset(kernels: Sequence[str], instructions: Sequence[str]) -> int | None:
    """Return the index of the first instruction of a contiguous part in which all kernels match by
    name without numbers; of several, the one where most full names match. None where there is none.
    """
    kernel_bases, instruction_bases = _encode([_base(name) for name in kernels], [_base(name) for name in instructions])
    name, named = _encode(kernels, [_as_kernel(name) for name in instructions])
    best, place = -1, None
    for offset in range(len(instruction_bases) - len(kernel_bases) + 1):
        part = slice(offset, offset + len(kernel_bases))
        if instruction_bases[offset] == kernel_bases[0] and np.array_equal(instruction_bases[part], kernel_bases):
            agree = int((named[part] == name).sum())
            if agree > best:
                best, place = agree, offset
    return place


def _encode(first: Sequence[str], second: Sequence[str]) -> tuple[Codes, Codes]:
    """Return two lists of texts as codes, equal for equal texts."""
    code = {text: i for i, text in enumerate(dict.fromkeys((*first, *second)))}
    return np.array([code[text] for text in first], np.int64), np.array([code[text] for text in second], np.int64)


def _as_kernel(instruction: str) -> str:
    """Return the name that XLA gives to the kernel of an instruction."""
    return _OTHER.sub("_", instruction)


def _base(name: str) -> str:
    """Return the name of a kernel or an instruction without its number."""
    return _NUMBER.sub("", _as_kernel(name))
