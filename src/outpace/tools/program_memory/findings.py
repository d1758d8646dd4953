# SPDX-License-Identifier: Apache-2.0
"""Findings about memory that is nearly full, and from a log in which it ran out: what would make
room, the surest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outpace.model import Evidence, Finding, Severity, Table, Threshold, Unit, humanize
from outpace.model.text import format_largest_part
from outpace.timeline.hlo.memory import BufferKind
from outpace.timeline.hlo.memory_changes import HEADROOM, MemoryChangeKind, find_batch_size
from outpace.tools.program_memory.exhaustion import Exhaustion, LiveArray

if TYPE_CHECKING:
    from outpace.tools.program_memory.compute import ProgramMemory

_OURS = "our choice"
_PADDED = Threshold("padded", 0.2, Unit.FRACTION, f"{_OURS}: of the memory of the largest arrays")
_SMALL = Threshold("small", 0.5, Unit.FRACTION, f"{_OURS}: of the memory that there is")
_TINY = Threshold("tiny", 2.0**30, Unit.BYTES, f"{_OURS}: every device of today has several times that")
_TAKEN_OVER = Threshold(
    "results beside arguments", 0.5, Unit.FRACTION, f"{_OURS}: of the arguments, as parameters and optimizer are"
)
_ONE = Threshold("one array", 0.3, Unit.FRACTION, f"{_OURS}: of what is needed")
_MOST = Threshold("the larger half", 0.5, Unit.FRACTION, f"{_OURS}: of what is needed")
_SAME_SIZE = 1.5  # maximum size of results beside arguments of which they are the changed ones
_WORTH = 0.1  # minimum share of what is needed that donation makes room for
_FULL = Threshold("nearly full", 0.8, Unit.FRACTION, f"{_OURS}: of the device; the framework and other programs take some, too")


def iter_findings(found: Exhaustion) -> Iterator[Finding]:
    """Yield what would make room."""
    padding = _padding(found)
    if padding is not None:
        yield padding
        if found.used - _padded_bytes(found) <= found.limit:  # without it all of it fits
            return
    rules = (_taken_by_others, _undonated, _one_array, _activations, _fragments, _too_much_held)
    yield from filter(None, (rule(found) for rule in rules))


def iter_capacity_findings(
    programs: Sequence[ProgramMemory], capacities: Mapping[str, int], changes: Table
) -> Iterator[Finding]:
    """Yield a finding about the largest program of each host where it nearly fills the device."""
    seen: set[str] = set()
    for program in programs:  # the largest first
        capacity, peak = capacities.get(program.host, 0), program.plan.peak_bytes
        if program.host in seen or not capacity or peak < _FULL.value * capacity:
            continue
        seen.add(program.host)
        of_program = (row for row in changes.records() if (row["host"], row["program"]) == (program.host, program.name))
        best = max(of_program, key=lambda row: row["saved_bytes"], default=None)
        then = Evidence("peak with the change", best["peak_bytes"], Unit.BYTES, "changes") if best is not None else None
        yield Finding(
            id="program_fills_memory",
            severity=Severity.MODERATE,
            sentence=f"{program.name} needs {_size(peak)} of the {_size(capacity)} of its device at its peak: a larger batch may not fit.",
            action=_capacity_action(best),
            evidence=(
                Evidence("peak", peak, Unit.BYTES, "programs"),
                Evidence("memory of the device", capacity, Unit.BYTES, "programs"),
                *([then] if then is not None else []),
            ),
            threshold=_FULL,
            counter_evidence=("A program that ran is not at risk while its shapes stay as they are.",),
            location=best["source"] if best is not None else "",
            host=program.host,
        )


def _capacity_action(change: Mapping[str, Any] | None) -> str:
    """Return what to do about a program that nearly fills a device: what lowers its peak most."""
    if change is None:
        return "Make the batch smaller, or keep parameters and optimizer state in parts on several devices."
    then = f"the peak falls to {_size(change['peak_bytes'])} at best"
    if change["change"] == MemoryChangeKind.DONATION.value:
        return f"Donate what the program gives back changed (donate_argnums): {then}."
    if change["change"] == MemoryChangeKind.BATCH.value:
        return f"Make the batch smaller: with half of it {then}."
    if change["change"] == MemoryChangeKind.PRECISION.value:
        return f"Keep temporaries in 16 bits (bfloat16): {then}."
    return f"Recompute what {change['source']} makes (jax.checkpoint around it): {then}, for {change['flops']:.3g} more operations a run."


def _size(size: float) -> str:
    return humanize(size, Unit.BYTES)


def _taken_by_others(found: Exhaustion) -> Finding | None:
    """What a program needs is little beside what there is: others hold the memory."""
    if not (found.is_program and found.used):
        return None
    is_small = found.used < _SMALL.value * found.limit if found.limit else found.used < _TINY.value
    if not is_small:
        return None
    return Finding(
        id="memory_taken_by_others",
        severity=Severity.HIGH,
        sentence=f"The program needs {_size(found.used)} in all: what fills the device is not this program.",
        action=(
            "Look for what else holds the device (nvidia-smi): another process, TensorFlow beside JAX "
            "(tf.config.set_visible_devices([], 'GPU')), or arrays of this process that nothing needs any more (jax.live_arrays()). "
            "JAX takes three quarters of a GPU at its start; XLA_PYTHON_CLIENT_PREALLOCATE=false, or a smaller "
            "XLA_PYTHON_CLIENT_MEM_FRACTION, where several processes share it."
        ),
        evidence=(Evidence("needed by the program", found.used, Unit.BYTES, "needs"),),
        threshold=_SMALL if found.limit else _TINY,
    )


def _padding(found: Exhaustion) -> Finding | None:
    """Arrays that take more memory than their elements, as tiles of a TPU do."""
    padded = _padded_bytes(found)
    listed = sum(each.size for each in found.arrays)
    if not listed or padded < _PADDED.value * listed:
        return None
    worst = max(found.arrays, key=lambda each: each.size - each.unpadded)
    return Finding(
        id="padded_arrays",
        severity=Severity.HIGH,
        sentence=f"{_size(padded)} of the {_size(listed)} of the largest arrays is padding: {worst.shape} takes "
        f"{worst.size / max(worst.unpadded, 1):.3g} times its size.",
        action=(
            "Put the two large dimensions last: a TPU stores the last two in tiles of 8 by 128, so that a dimension of 4 there takes the "
            "room of 128. A reshape that joins small dimensions does as well."
        ),
        evidence=(
            Evidence("padding", padded, Unit.BYTES, "live"),
            Evidence("of the worst array", worst.size - worst.unpadded, Unit.BYTES, "live"),
        ),
        threshold=_PADDED,
        location=worst.source,
    )


def _padded_bytes(found: Exhaustion) -> int:
    return sum(each.size - each.unpadded for each in found.arrays if each.unpadded)


def _undonated(found: Exhaustion) -> Finding | None:
    """Results that have memory of their own beside arguments of about their size."""
    arguments, results = found.parts.get(BufferKind.ARGUMENT, 0), found.parts.get(BufferKind.RESULT, 0)
    if not (arguments and _TAKEN_OVER.value * arguments <= results <= _SAME_SIZE * arguments):
        return None
    saved = min(arguments, results)
    if saved < _WORTH * found.used:
        return None
    return Finding(
        id="results_beside_arguments",
        severity=Severity.HIGH,
        sentence=f"Results take {_size(results)} beside {_size(arguments)} of arguments: a step that returns what it was given, changed, "
        "holds both.",
        action=(
            "Donate what the step replaces: jax.jit(step, donate_argnums=...) of parameters and optimizer state, which are then gone "
            f"after the call. That makes room for at most {_size(saved)}."
        ),
        evidence=(
            Evidence("results with memory of their own", results, Unit.BYTES, "needs"),
            Evidence("arguments", arguments, Unit.BYTES, "needs"),
        ),
        threshold=_TAKEN_OVER,
        counter_evidence=("Arguments that the caller needs again cannot be donated.",),
    )


def _one_array(found: Exhaustion) -> Finding | None:
    """One array that is a large part of all."""
    computed = [each for each in found.arrays if each.kind is not BufferKind.ARGUMENT]
    if not (found.is_program and computed and computed[0].size >= _ONE.value * found.used > 0):
        return None
    largest = computed[0]
    return Finding(
        id="one_large_array",
        severity=Severity.HIGH,
        sentence=f"One array, {largest.shape}, takes {_size(largest.size)} of the {_size(found.used)} that are needed.",
        action=(
            "Compute the array in pieces, and reduce each at once (jax.lax.map over the batch, a loss by blocks of the vocabulary), "
            "or in 16 bits; where it is a mask or a one-hot array, compare or gather instead."
        ),
        evidence=(Evidence("the array", largest.size, Unit.BYTES, "live"), Evidence("needed", found.used, Unit.BYTES, "needs")),
        threshold=_ONE,
        location=largest.source,
    )


def _activations(found: Exhaustion) -> Finding | None:
    """Temporaries are more than half, and many: activations that the backward pass keeps."""
    temporaries = found.parts.get(BufferKind.TEMPORARY, 0)
    largest = max((each.size for each in found.arrays if each.kind is not BufferKind.ARGUMENT), default=0)
    if not (found.used and temporaries >= _MOST.value * found.used and largest < _MOST.value * temporaries):
        return None
    line, size = _largest_line(found)
    batch, fitting = _batch(found, temporaries)
    fits = f" About {fitting:,} of {batch:,} fit, where the first dimension is the batch." if fitting else ""
    listed = sum(each.size for each in found.arrays)
    at = f": {format_largest_part(f'is made in {line}', size, listed, total_name='the largest arrays')}" if line else ""
    return Finding(
        id="activations_fill_memory",
        severity=Severity.HIGH,
        sentence=f"Temporaries take {_size(temporaries)} of {_size(found.used)}{at}.",
        action=(
            "Recompute instead of keeping: jax.checkpoint (keras.RematScope, tf.recompute_grad) around a layer keeps its input alone. "
            f"A smaller batch, with gradients added over several, and 16-bit activations make room, too.{fits}"
        ),
        evidence=(
            Evidence("temporaries", temporaries, Unit.BYTES, "needs"),
            Evidence("needed", found.used, Unit.BYTES, "needs"),
        ),
        threshold=_MOST,
        location=line,
    )


def _largest_line(found: Exhaustion) -> tuple[str, int]:
    """Return the source line that computes most bytes, and these; ("", 0) where none is known."""
    sizes = Counter[str]()
    for each in found.arrays:
        if each.source and each.kind is not BufferKind.ARGUMENT:
            sizes[each.source] += each.size
    return next(iter(sizes.most_common(1)), ("", 0))


def _batch(found: Exhaustion, temporaries: int) -> tuple[int, int]:
    """Return (batch, the largest that fits); (0, 0) where the limit or the batch is unknown, or
    where even one does not fit.
    """
    computed = [(_first_dimension(each), each.size) for each in found.arrays if each.kind is not BufferKind.ARGUMENT]
    batch = find_batch_size(computed)
    if not (batch and found.limit):
        return 0, 0
    room = HEADROOM * found.limit - (found.used - temporaries)
    return batch, max(0, min(int(batch * room / temporaries), batch - 1))


def _first_dimension(array: LiveArray) -> int:
    first = array.shape.partition("[")[2].rstrip("]").partition(",")[0]
    return int(first) if first.isdigit() else 0


def _fragments(found: Exhaustion) -> Finding | None:
    """What is free would do, in one piece."""
    free = max(0, found.limit - found.used) if not found.is_program else 0
    if found.is_program or not (found.asked and found.limit and free >= found.asked):
        return None
    return Finding(
        id="free_memory_in_pieces",
        severity=Severity.HIGH,
        sentence=f"{_size(free)} are free, more than the {_size(found.asked)} that were asked for, but not in one piece.",
        action=(
            "Use equal shapes in every step (pad sequences, drop_remainder=True in batch), so that freed chunks fit again; on a GPU try "
            "TF_GPU_ALLOCATOR=cuda_malloc_async."
        ),
        evidence=(
            Evidence("free", free, Unit.BYTES, "needs"),
            Evidence("asked for", found.asked, Unit.BYTES, "needs"),
        ),
        threshold=None,
    )


def _too_much_held(found: Exhaustion) -> Finding | None:
    """An allocator's memory is full; what holds it is not known."""
    if found.is_program or not found.asked or _fragments(found) is not None:
        return None
    what = f" for {found.what}" if found.what else ""
    held = f", with {_size(found.used)} in use" if found.used else ""
    return Finding(
        id="allocation_too_large",
        severity=Severity.HIGH,
        sentence=f"{_size(found.asked)} were asked for at once{what}{held}.",
        action=(
            "Make that array smaller, or compute it in pieces; then a smaller batch, 16 bits (mixed_float16), or recomputed activations "
            "(tf.recompute_grad, keras.RematScope, jax.checkpoint)."
        ),
        evidence=(Evidence("asked for", found.asked, Unit.BYTES, "needs"),),
    )
