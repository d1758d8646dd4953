"""What would make room where memory ran out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from outpace.model import Severity
from outpace.timeline.hlo.memory import BufferKind
from outpace.tools.program_memory import findings as rules
from outpace.tools.program_memory.exhaustion import Exhaustion, LiveArray
from outpace.tools.program_memory.schema import CHANGES
from tests.advice_cases.build import HOST, table
from tests.advice_cases.case import Case, Find, fires, silent

_GIB = 2**30
_HIGH = Severity.HIGH
_LINE = "layers.py:41"


def _array(
    gib: float, shape: str = "f32[64,4096]", *, elements: float = 1.0, kind: BufferKind = BufferKind.TEMPORARY
) -> LiveArray:
    """elements: share of its memory that its elements take."""
    size = int(gib * _GIB)
    return LiveArray(size, 1, shape, kind, int(elements * size), "jit(step)/dot_general", _LINE, "fusion")


def _program(*arrays: LiveArray, limit: float = 0.0, used: float = 40.0, **parts: float) -> Find:
    """A program; parts: GiB by what they are for."""
    kinds = {BufferKind[name.upper()]: int(gib * _GIB) for name, gib in parts.items()}
    found = Exhaustion(0, "", int(limit * _GIB), int(used * _GIB), kinds, 0, arrays, True)
    return lambda: rules.iter_findings(found)


def _allocator(asked: float, used: float, limit: float, what: str = "") -> Find:
    sizes: Any = (int(each * _GIB) for each in (asked, limit, used))
    asked_bytes, limit_bytes, used_bytes = sizes
    found = Exhaustion(asked_bytes, what, limit_bytes, used_bytes, {}, 0, (), False)
    return lambda: rules.iter_findings(found)


def _fills(peak: float, change: str = "", source: str = "") -> Find:
    """A program of so many of a device's 10 GiB; change: what lowers its peak to 4 GiB."""
    plan: Any = SimpleNamespace(peak_bytes=int(peak * _GIB))
    program: Any = SimpleNamespace(host=HOST, name="jit_step(3)", plan=plan)
    row = {"program": program.name, "change": change, "source": source, "saved_bytes": 1, "peak_bytes": 4 * _GIB, "flops": 2e12}
    changes = table("changes", CHANGES, *([row] if change else []))
    return lambda: rules.iter_capacity_findings([program], {HOST: 10 * _GIB}, changes)


_LAYERS = [_array(1.0)] * 10
CASES: list[Case] = [
    fires(
        "program_fills_memory",
        "recomputation",
        _fills(8.1, "recompute", _LINE),
        Severity.MODERATE,
        location=_LINE,
        says=("jit_step(3) needs 8.10 GiB of the 10.0 GiB", f"Recompute what {_LINE} makes", "falls to 4.00 GiB", "2e+12 more"),
    ),
    fires("program_fills_memory", "donation", _fills(8.1, "donate arguments"), Severity.MODERATE, says=("donate_argnums",)),
    fires("program_fills_memory", "16 bits", _fills(8.1, "16 bits for temporaries"), Severity.MODERATE, says=("bfloat16",)),
    fires("program_fills_memory", "nothing lowers it", _fills(8.1), Severity.MODERATE, says=("Make the batch smaller",)),
    silent("program_fills_memory", "less than four fifths", _fills(7.9, "recompute", _LINE)),
    fires(
        "memory_taken_by_others",
        "less than half of the device",
        _program(limit=16, used=7.9),
        _HIGH,
        says=("7.90 GiB", "nvidia-smi"),
    ),
    silent("memory_taken_by_others", "more than half of the device", _program(limit=16, used=8.1)),
    fires("memory_taken_by_others", "less than 1 GiB", _program(used=0.9), _HIGH, says=("922 MiB", "jax.live_arrays()")),
    silent("memory_taken_by_others", "more than 1 GiB", _program(used=1.1)),
    fires(
        "padded_arrays",
        "a fifth of the arrays",
        _program(_array(1.0, "s32[8388608,8,4]", elements=0.3), _array(2.4), limit=30),
        _HIGH,
        location=_LINE,
        says=("717 MiB of the 3.40 GiB", "s32[8388608,8,4] takes 3.33 times its size", "two large dimensions last"),
    ),
    silent("padded_arrays", "less than a fifth", _program(_array(1.0, elements=0.3), _array(2.6), limit=30)),
    fires(
        "results_beside_arguments",
        "half of the arguments, a tenth of all",
        _program(argument=9, result=4.6, used=40),
        _HIGH,
        says=("Results take 4.60 GiB beside 9.00 GiB", "at most 4.60 GiB", "donate_argnums"),
    ),
    fires(
        "results_beside_arguments",
        "one and a half",
        _program(argument=9, result=13.4, used=40),
        _HIGH,
        says=("at most 9.00 GiB",),
    ),
    silent("results_beside_arguments", "less than half of the arguments", _program(argument=10, result=4.9, used=40)),
    silent("results_beside_arguments", "more than one and a half", _program(argument=9, result=13.6, used=40)),
    silent("results_beside_arguments", "less than a tenth of all", _program(argument=4.5, result=3.9, used=40)),
    fires(
        "one_large_array",
        "three tenths",
        _program(_array(12.1, "f32[5104,257152]")),
        _HIGH,
        location=_LINE,
        says=("f32[5104,257152], takes 12.1 GiB of the 40.0 GiB", "Compute the array in pieces"),
    ),
    silent("one_large_array", "less than three tenths", _program(_array(11.9))),
    silent("one_large_array", "an argument", _program(_array(30, kind=BufferKind.ARGUMENT))),
    fires(
        "activations_fill_memory",
        "half, and a batch that fits",
        _program(*_LAYERS, limit=30, temporary=20.1),
        _HIGH,
        location=_LINE,
        says=("Temporaries take 20.1 GiB of 40.0 GiB", "jax.checkpoint", "About 27 of 64 fit"),
    ),
    fires(
        "activations_fill_memory",
        "no common dimension",
        _program(*_LAYERS[:6], *[_array(0.9, f"f32[{n},8]") for n in range(2, 7)], limit=30, temporary=20.1),
        _HIGH,
        location=_LINE,
        never=("fit, where",),
    ),
    silent("activations_fill_memory", "less than half", _program(*_LAYERS, limit=30, temporary=19.9)),
    silent("activations_fill_memory", "one array is half of them", _program(_array(10.1), temporary=20.1)),
    fires(
        "free_memory_in_pieces",
        "what is free would do",
        _allocator(2.0, 7.9, 10.0),
        _HIGH,
        says=("2.10 GiB are free, more than the 2.00 GiB", "equal shapes"),
    ),
    silent("free_memory_in_pieces", "what is free would not do", _allocator(2.0, 8.1, 10.0)),
    fires(
        "allocation_too_large",
        "more than is free",
        _allocator(2.0, 8.1, 10.0, "float[1000,1000,250]"),
        _HIGH,
        says=("2.00 GiB were asked for at once for float[1000,1000,250], with 8.10 GiB in use", "in pieces"),
    ),
    silent("allocation_too_large", "in pieces", _allocator(2.0, 7.9, 10.0)),
]
