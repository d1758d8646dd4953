# SPDX-License-Identifier: Apache-2.0
"""The kind of time of each device event: computing in 16 or 32 bits, copies, collectives, or
waiting for one of these.

Copies and collectives are recognised by name, as in the reference. The precision is that of the HLO
instruction where a program in the profile contains it (`timeline/hlo/precision.py`; the reference
looks at names only, and finds neither 16 nor 32 bits for most programs), else it is read from the
kernel's name. The end of an asynchronous op (`copy-done`) waits for the op: its time is that of the
transfer or the collective, not computation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._lazy import compile_lazily
from outpace.model.arrays import Codes, Indices
from outpace.timeline import OpKind, Timeline
from outpace.timeline.gpu_details import copy_direction, parse_copy_details
from outpace.timeline.hlo.modules import load_hlo_ops
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.hlo.precision import DOUBLE, HALF, SINGLE
from outpace.timeline.hlo.transfers import COLLECTIVE, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, transfer_direction
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, find_positions, intersect_indices, isin

COMPUTE_32, COMPUTE_16, HOST_COMPUTE = "compute_32", "compute_16", "host_compute"
DEVICE_EVENT_KINDS = (COMPUTE_32, COMPUTE_16, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, COLLECTIVE, HOST_COMPUTE)
_CODE = {name: code for code, name in enumerate(DEVICE_EVENT_KINDS)}

_HALF_WORDS = ("half", "fp16", "bf16", "bfloat16")
# Kernel names with 16-bit types; rocBLAS: Cijk_Ailk_Bljk_BBS_BH_... computes in bfloat16.
_HALF_KERNEL = compile_lazily(r"(?<![a-z0-9])f16|^cijk_a[a-z]+_b[a-z]+_[hb][a-z0-9]*_")
# AMD's driver copies with kernels of its own; the name of the host's call contains the direction.
_COPY_KERNEL = "__amd_rocclr_copy"
_COPY_KIND = {
    "HToD": HOST_TO_DEVICE,
    "DToH": DEVICE_TO_HOST,
    "DToD": DEVICE_TO_DEVICE,
    "PToP": DEVICE_TO_DEVICE,
    "HToH": HOST_COMPUTE,
}
_CALLS = {"htod": HOST_TO_DEVICE, "dtoh": DEVICE_TO_HOST}
_TPU_KIND = {
    "infeed": HOST_TO_DEVICE,
    "outfeed": DEVICE_TO_HOST,
    "all-reduce": COLLECTIVE,
    "all-gather": COLLECTIVE,
    "all-to-all": COLLECTIVE,
    "reduce-scatter": COLLECTIVE,
    "collective": COLLECTIVE,
}
_LAYOUT = compile_lazily(r"[a-z0-9]+\[[^\]]*\](?:\{[^}]*\})?")  # one array type in an instruction's text
_SPACE = compile_lazily(r"S\((\d+)\)")


def iter_device_event_kinds(timeline: Timeline) -> Iterator[tuple[Indices, Codes]]:
    """Yield (event rows, kind of each as an index into `DEVICE_EVENT_KINDS`) for each line of each
    device.
    """
    trace = timeline.trace
    shaped = trace.stat(dialect.SHAPE)
    code, texts = shaped.encode_texts(np.arange(len(shaped)))
    half = np.array([COMPUTE_16 if "half" in text else COMPUTE_32 for text in texts] or [COMPUTE_32])
    of_shape = np.array([_CODE[kind] for kind in half.tolist()], np.uint8)[code]
    for plane in timeline.device_planes:
        kind_of = _tpu_kind if "TPU" in plane.name else _gpu_kind
        for line in timeline.device_lines(plane):
            rows = trace.lines.row_numbers(line)
            names = distinct(trace.name[rows])
            kinds = np.array([_CODE[kind_of(timeline, name)] for name in names.tolist()], np.uint8)
            kind = kinds[np.searchsorted(names, trace.name[rows])]
            place = find_positions(shaped.rows, rows)
            with_shape = np.flatnonzero((place >= 0) & (kind <= _CODE[COMPUTE_16]))
            kind[with_shape] = of_shape[place[with_shape]]
            _set_launched_copies(timeline, rows, kind)
            _set_detailed_copies(timeline, rows, kind)
            yield rows, _refine_by_program(timeline, rows, kind)


def _set_launched_copies(timeline: Timeline, rows: Indices, kind: Codes) -> None:
    """Set the kind of AMD's copy kernels, in place, to the direction in their launching call's
    name.

    An example of such a call is `hipMemcpyHtoDAsync`.
    """
    trace = timeline.trace
    names = distinct(trace.name[rows])
    copies = names[[trace.names[n].startswith(_COPY_KERNEL) for n in names.tolist()]]
    kernels = rows[isin(trace.name[rows], copies)] if len(copies) else rows[:0]
    if len(kernels) == 0:
        return
    calls, launched = timeline.launches
    at, place = intersect_indices(kernels, launched)
    for kernel, call in zip(kernels[at].tolist(), calls[place].tolist(), strict=True):
        name = trace.names[trace.name[call]].lower()
        kind[kernel - rows[0]] = _CODE[next((way for word, way in _CALLS.items() if word in name), DEVICE_TO_DEVICE)]


def _set_detailed_copies(timeline: Timeline, rows: Indices, kind: Codes) -> None:
    """Set the kind of copies without a direction in their name (`MemcpyOther`), in place, from
    their details.
    """
    stat = timeline.trace.stat(dialect.MEMCPY_DETAILS)
    at, place = intersect_indices(rows, stat.rows)
    code, texts = stat.encode_texts(place)
    ways = [copy_direction("", parse_copy_details(text)) for text in texts]
    new_kind = np.array([_CODE[_COPY_KIND[way]] if way in _COPY_KIND else -1 for way in ways], np.int64)[code]
    unnamed = (new_kind >= 0) & (kind[at] <= _CODE[COMPUTE_16])
    kind[at[unnamed]] = new_kind[unnamed]


def _refine_by_program(timeline: Timeline, rows: Indices, kind: Codes) -> Codes:
    """Return the kinds, refined by the instruction that an event ran where its program contains
    it.
    """
    index, ops = load_hlo_ops(timeline, rows)
    new_kind = np.fromiter((_instruction_kind(op) for op in ops), np.int64, len(ops))[index]
    computes = kind <= _CODE[COMPUTE_16]
    return np.where((new_kind >= 0) & computes, new_kind, kind)


def _instruction_kind(op: HloOp) -> int:
    if op.transfer:
        return _CODE[op.transfer]
    return {HALF: _CODE[COMPUTE_16], SINGLE: _CODE[COMPUTE_32], DOUBLE: _CODE[COMPUTE_32]}.get(op.precision_bits, -1)


def _gpu_kind(timeline: Timeline, name: int) -> str:
    op, text = timeline.ops[name], timeline.trace.names[name].lower()
    if op.kind is OpKind.COPY:
        return _COPY_KIND[op.type.removeprefix("Memcpy")]
    if text.startswith(("nccl", "rccl")):
        return COLLECTIVE
    if text.startswith(_COPY_KERNEL):
        return DEVICE_TO_DEVICE
    return COMPUTE_16 if any(word in text for word in _HALF_WORDS) or _HALF_KERNEL.search(text) else COMPUTE_32


def _tpu_kind(timeline: Timeline, name: int) -> str:
    stats = timeline.trace.name_stats.get(name, {})
    category = str(stats.get(dialect.HLO_CATEGORY, ""))
    for word, kind in _TPU_KIND.items():
        if category.startswith(word):
            return kind
    text = timeline.trace.names[name]
    op = tpu_op(timeline, name)
    if op.transfer or category.endswith("-done"):
        return op.transfer or parse_transfer_direction(text)
    if op.precision_bits:
        return COMPUTE_16 if op.precision_bits == HALF else COMPUTE_32
    shape = str(stats.get(dialect.SHAPE_WITH_LAYOUT, "")) or text[:200]
    return COMPUTE_16 if "bf16[" in shape or "f16[" in shape else COMPUTE_32


def tpu_op(timeline: Timeline, name_index: int) -> HloOp:
    """Return the HLO instruction of a TPU's event name; `NO_OP` where the event names no
    program.
    """
    stats = timeline.trace.name_stats.get(name_index, {})
    number = stats.get(dialect.PROGRAM_ID)
    if not isinstance(number, int):
        return NO_OP
    text = timeline.trace.display_names.get(name_index) or timeline.trace.names[name_index].lstrip("%").split(" = ")[0]
    return timeline.hlo_modules.op(number, text)


def parse_transfer_direction(instruction: str) -> str:
    """Return the direction of a copy from the memory spaces in the text of the instruction that
    ends it.

    An example is `%copy-done = f32[5]{0} copy-done((f32[5]{0}, f32[5]{0:S(5)}, u32[])
    %copy-start)`.
    """
    _, _, operand = instruction.partition("-done((")
    spaces = [int(match[1]) if (match := _SPACE.search(array)) else 0 for array in _LAYOUT.findall(operand)[:2]]
    return transfer_direction(spaces)
