"""Which instruction each kernel of a command buffer ran.

XLA records stretches of a program as CUDA graphs (command buffers) and launches each with one call.
The profiler then gives all kernels of a launch the name of the buffer where other kernels have that
of their instruction. They run in the order in which the program is scheduled: those that XLA
compiled are called after their instruction (`loop_add_fusion_3` after `loop_add_fusion.3`, or,
where several instructions share one kernel, after the first of them), and what stands between them
are the libraries' (`nvjet_...` for `custom-call.17`, which may take several). So those are laid
over the schedule where all names agree, and these go to what is scheduled in between. (The
reference knows the buffer only.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Codes, Indices
from outpace.timeline.event_names import CUDNN_MARKER
from outpace.timeline.xla_threads import host_mask
from outpace.trace import StatColumn, dialect
from outpace.trace.algorithms import distinct, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

_ON_AMD = ".kd"  # what names of kernels end in there
_NUMBER, _OTHER = re.compile(r"_\d+$"), re.compile(r"\W")
_MOST = 50_000_000  # comparisons in one profile: a second
_PATCHED = 1_000_000  # of one launch, where its names do not agree throughout


@memoize
def compute_hlo_op_stat(timeline: Timeline) -> StatColumn:
    """The stat `hlo_op` of all events, where a kernel of a command buffer has the instruction that
    it ran, as far as that can be told.
    """
    trace = timeline.trace
    stat = trace.stat(dialect.HLO_OP)
    rows, launch, program = _inside_buffers(timeline, stat)
    texts: list[str] = []
    at: list[int] = []
    known: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    left = _MOST
    for each in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(launch)) + 1) if len(rows) else ():
        key = (int(program[each[0]]), tuple(trace.name[rows[each]].tolist()))
        if key not in known:
            schedules = timeline.hlo_modules[key[0]].schedules
            left -= len(each) * sum(map(len, schedules))
            known[key] = align_to_schedule([trace.names[n] for n in key[1]], schedules) if left > 0 else [""] * len(each)
        found = known[key]
        at += [int(rows[i]) for i, name in zip(each.tolist(), found, strict=True) if name]
        texts += filter(None, found)
    return stat.replace_texts(np.array(at, np.int64), texts) if at else stat


def _inside_buffers(timeline: Timeline, stat: StatColumn) -> tuple[Indices, Codes, Codes]:
    """(kernels that name no instruction of their program, launch by launch in the order of their
    start; the launch of each; its program).
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
    launched, of = launch.uints[places[1]], program.uints[places[2]]
    ids = distinct(of)
    pair = np.searchsorted(ids, of) * max(len(texts), 1) + code
    pairs = distinct(pair)
    known = ((int(ids[p // len(texts)]), texts[p % len(texts)]) for p in pairs.tolist())
    strange = np.fromiter((name not in timeline.hlo_modules[number] for number, name in known), bool, len(pairs))
    inside = strange[np.searchsorted(pairs, pair)] & (launched != 0)  # 0 is no launch
    rows, launched, of = rows[inside], launched[inside], of[inside]
    order = np.lexsort((trace.start[rows], launched))
    return rows[order], launched[order].astype(np.int64), of[order].astype(np.int64)


def align_to_schedule(kernels: Sequence[str], schedules: Sequence[Sequence[str]]) -> list[str]:
    """The instruction of each kernel of one launch, "" where it cannot be told; `schedules`: names
    of instructions of each computation.
    """
    nothing = 0, [""] * len(kernels)
    return max((nothing, *(_laid(kernels, one) for one in schedules)), key=lambda laid: (laid[0], sum(map(bool, laid[1]))))[1]


def _laid(kernels: Sequence[str], instructions: Sequence[str]) -> tuple[int, list[str]]:
    """(how many kernels are called after their instruction, the instruction of each)."""
    bases, called = [_base(name) for name in instructions], [_base(name) for name in kernels]
    own = set(bases).intersection(called)
    mine = [i for i, base in enumerate(called) if base in own]
    theirs = [i for i, base in enumerate(bases) if base in own]
    at = _matched([kernels[i] for i in mine], [instructions[i] for i in theirs])
    places = {mine[kernel]: theirs[place] for kernel, place in at.items()}
    edges = (None, *sorted(places), None) if places else ()

    def is_library(place: int) -> bool:
        return bases[place] not in own

    for left, right in pairwise(edges):
        between = range(0 if left is None else left + 1, len(kernels) if right is None else right)
        scheduled = range(0 if left is None else places[left] + 1, len(instructions) if right is None else places[right])
        if left is None:  # right before the first known: whatever is called after its instruction would be in the launch
            there = list(takewhile(is_library, reversed(scheduled)))[: len(between)][::-1]
        elif right is None:
            there = list(takewhile(is_library, scheduled))[: len(between)]
        else:
            there = list(filter(is_library, scheduled))
        if own.isdisjoint(called[i] for i in between):
            places |= zip(between, _of_libraries([kernels[i] for i in between], there), strict=False)
    return len(at), [instructions[places[i]] if i in places else "" for i in range(len(kernels))]


def _of_libraries(kernels: Sequence[str], places: list[int]) -> list[int]:
    """Which of `places` in the schedule each kernel of a library ran: the only one, one each, or
    one for all kernels of one library that follow each other; [] where nothing tells.
    """
    runs = np.cumsum([0, *((CUDNN_MARKER in some) != (CUDNN_MARKER in other) for some, other in pairwise(kernels))])
    if len(places) == 1:
        return places * len(kernels)
    if len(places) == len(kernels):
        return places
    return [places[run] for run in runs] if len(kernels) and len(places) == runs[-1] + 1 else []


def _matched(kernels: Sequence[str], instructions: Sequence[str]) -> dict[int, int]:
    """The places of kernels that are called after instructions."""
    if not kernels:
        return {}
    if (offset := _throughout(kernels, instructions)) is not None:
        return {i: offset + i for i in range(len(kernels))}
    if len(kernels) * len(instructions) > _PATCHED:
        return {}
    some, others = [_base(name) for name in kernels], [_base(name) for name in instructions]
    blocks = SequenceMatcher(None, others, some, autojunk=False).get_matching_blocks()
    return {at + i: first + i for first, at, size in blocks for i in range(size)}


def is_named_after(kernel: str, instruction: str) -> bool:
    """Whether a kernel's name is that of an instruction, numbers apart: XLA compiled it (Triton's
    included), and no library holds it.
    """
    return _base(kernel.removesuffix(_ON_AMD)) == _base(instruction)


def _throughout(kernels: Sequence[str], instructions: Sequence[str]) -> int | None:
    """From which instruction on all kernels are called alike, but for their numbers; of several,
    where most whole names agree; else None.
    """
    wanted, there = _coded([_base(name) for name in kernels], [_base(name) for name in instructions])
    name, named = _coded(kernels, [_as_kernel(name) for name in instructions])
    best, place = -1, None
    for offset in range(len(there) - len(wanted) + 1):
        part = slice(offset, offset + len(wanted))
        if there[offset] == wanted[0] and np.array_equal(there[part], wanted):
            agree = int((named[part] == name).sum())
            if agree > best:
                best, place = agree, offset
    return place


def _coded(some: Sequence[str], others: Sequence[str]) -> tuple[Codes, Codes]:
    """Numbers for texts, equal ones for equal texts."""
    code = {text: i for i, text in enumerate(dict.fromkeys((*some, *others)))}
    return np.array([code[text] for text in some], np.int64), np.array([code[text] for text in others], np.int64)


def _as_kernel(instruction: str) -> str:
    """What XLA calls the kernel of an instruction."""
    return _OTHER.sub("_", instruction)


def _base(name: str) -> str:
    """The name of a kernel, or of an instruction's, without its number."""
    return _NUMBER.sub("", _as_kernel(name))
