"""Which instruction each kernel of a command buffer ran.

XLA records stretches of a program as CUDA graphs (command buffers) and launches each with one call. The profiler then gives all kernels of
a launch the name of the buffer where other kernels have that of their instruction. They run in the order in which the program is scheduled:
those that XLA compiled are called after their instruction (`loop_add_fusion_3` after `loop_add_fusion.3`, or, where several instructions
share one kernel, after the first of them), and what stands between them are the libraries' (`nvjet_...` for `custom-call.17`). So a launch is
laid over the schedule where all names agree. (The reference knows the buffer only.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np

from outpace._once import derived
from outpace.model.arrays import Codes, Indices
from outpace.timeline.workers import on_host
from outpace.trace import StatColumn, dialect
from outpace.trace.algorithms import common, distinct

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

_NUMBER = re.compile(r"[._]\d+$")
_LIBRARY = (
    ""  # the label of a kernel that is not called after an instruction, and of an instruction that no kernel is called after
)
_MOST = 50_000_000  # comparisons in one profile: a second
_PATCHED = 1_000_000  # of one launch, where its names do not agree throughout


@derived
def hlo_ops(timeline: Timeline) -> StatColumn:
    """The stat `hlo_op` of all events, where a kernel of a command buffer has the instruction that it ran, as far as that can be told."""
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
            schedules = timeline.programs[key[0]].schedules
            left -= len(each) * sum(map(len, schedules))
            known[key] = laid_over([trace.names[n] for n in key[1]], schedules) if left > 0 else [""] * len(each)
        found = known[key]
        at += [int(rows[i]) for i, name in zip(each.tolist(), found, strict=True) if name]
        texts += filter(None, found)
    return stat.with_texts(np.array(at, np.int64), texts) if at else stat


def _inside_buffers(timeline: Timeline, stat: StatColumn) -> tuple[Indices, Codes, Codes]:
    """(kernels that name no instruction of their program, launch by launch in the order of their start; the launch of each; its program)."""
    trace, none = timeline.trace, np.zeros(0, np.int64)
    if not len(timeline.programs) or not timeline.device_planes:
        return none, none, none
    trace.load((dialect.PROGRAM_ID, dialect.CORRELATION_ID, dialect.KERNEL_DETAILS))
    details, launch, program = (trace.stat(s) for s in (dialect.KERNEL_DETAILS, dialect.CORRELATION_ID, dialect.PROGRAM_ID))
    rows = details.row[~on_host(trace, details.row)]
    for column in (stat, launch, program):
        rows = rows[common(rows, column.row)[0]]
    places = [common(rows, column.row)[1] for column in (stat, launch, program)]
    code, texts = stat.codes(places[0])
    launched, of = launch.uints[places[1]], program.uints[places[2]]
    ids = distinct(of)
    pair = np.searchsorted(ids, of) * max(len(texts), 1) + code
    pairs = distinct(pair)
    known = ((int(ids[p // len(texts)]), texts[p % len(texts)]) for p in pairs.tolist())
    strange = np.fromiter((name not in timeline.programs[number] for number, name in known), bool, len(pairs))
    inside = strange[np.searchsorted(pairs, pair)]
    rows, launched, of = rows[inside], launched[inside], of[inside]
    order = np.lexsort((trace.start[rows], launched))
    return rows[order], launched[order].astype(np.int64), of[order].astype(np.int64)


def laid_over(kernels: Sequence[str], schedules: Sequence[Sequence[str]]) -> list[str]:
    """The instruction of each kernel of one launch, "" where it cannot be told; `schedules`: names of instructions of each computation."""
    best = max((_laid(kernels, one) for one in schedules), key=lambda laid: sum(map(bool, laid)), default=[])
    return best or [""] * len(kernels)


def _laid(kernels: Sequence[str], instructions: Sequence[str]) -> list[str]:
    bases = {_NUMBER.sub("", name) for name in instructions}
    called = [base if (base := _NUMBER.sub("", kernel)) in bases else _LIBRARY for kernel in kernels]
    present = set(called)
    labels = [base if (base := _NUMBER.sub("", name)) in present else _LIBRARY for name in instructions]
    if present == {_LIBRARY}:
        return []
    if (offset := _throughout(kernels, called, instructions, labels)) is not None:
        return list(instructions[offset : offset + len(kernels)])
    found = [""] * len(kernels)
    if len(kernels) * len(labels) <= _PATCHED:
        for first, at, size in SequenceMatcher(None, labels, called, autojunk=False).get_matching_blocks():
            if any(called[at : at + size]):
                found[at : at + size] = instructions[first : first + size]
    return found


def _throughout(
    kernels: Sequence[str], called: Sequence[str], instructions: Sequence[str], labels: Sequence[str]
) -> int | None:
    """Where in the schedule every label is that of the kernel; of several places, where most whole names agree. None for nowhere."""
    if len(kernels) > len(labels):
        return None
    code = {label: i for i, label in enumerate({*called, *labels})}
    wanted, there = (np.fromiter((code[label] for label in of), np.int64) for of in (called, labels))
    whole = {name: i for i, name in enumerate(dict.fromkeys((*kernels, *(_as_kernel(n) for n in instructions))))}
    name, named = (np.fromiter((whole[n] for n in of), np.int64) for of in (kernels, map(_as_kernel, instructions)))
    best, place = -1, None
    for offset in range(len(labels) - len(kernels) + 1):
        part = slice(offset, offset + len(kernels))
        if there[offset] == wanted[0] and np.array_equal(there[part], wanted):
            agree = int((named[part] == name).sum())
            if agree > best:
                best, place = agree, offset
    return place


def _as_kernel(instruction: str) -> str:
    """What XLA calls the kernel of an instruction."""
    return instruction.replace(".", "_").replace("-", "_")
