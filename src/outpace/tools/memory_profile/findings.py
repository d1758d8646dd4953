# SPDX-License-Identifier: Apache-2.0
"""Findings from the memory tables: memory that is nearly full, fragmented or growing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outpace.metrics.facts.workload import Workload
from outpace.model import Evidence, Finding, Severity, Table, Threshold, Unit, humanize
from outpace.model.units import format_count
from outpace.tools.memory_profile.growth import MIN_GROWTH, RISING_SHARE

_FULL = Threshold(
    "nearly full", 0.90, Unit.FRACTION, "our choice: of the capacity; an allocator also needs room for its own rounding"
)
_VERY_FULL = Threshold("full but for rounding", 0.97, Unit.FRACTION, "our choice: of the capacity")
_FRAGMENTED = Threshold("fragmented", 0.50, Unit.FRACTION, "our choice: half of the free memory is outside the largest chunk")
_TIGHT = 0.50  # our choice: with more than half of the capacity free, an allocator can get a new region instead

Row = dict[str, Any]


def iter_findings(memories: Table, growth: Table, unfreed: Table, program: Workload) -> Iterator[Finding]:
    """Yield all findings of the page; for each host and rule, the finding is about the worst
    memory.
    """
    for host in dict.fromkeys(memories["host"].tolist()):
        host_memories = list(memories.filter_by("host", host).records())
        yield from _near_capacity(host, program, [m for m in host_memories if (m["peak_share"] or 0.0) >= _FULL.value])
        fragmented = [
            m for m in host_memories if (m["fragmentation"] or 0.0) >= _FRAGMENTED.value and (m["peak_share"] or 0.0) >= _TIGHT
        ]
        yield from _fragmented(host, program, sorted(fragmented, key=lambda m: -m["fragmentation"]))
        yield from _growing(
            host, program, [row for row in growth.filter_by("host", host).records() if row["leak"]], host_memories, unfreed
        )


def _more(rows: list[Row]) -> tuple[str, ...]:
    """Return a note on the host's other memories to which a finding applies; () without one.

    rows: memories with the finding, the worst first
    """
    names = ", ".join(str(row["memory"]) for row in rows[1:5]) + " ..." * (len(rows) > 5)
    count = format_count(len(rows) - 1, "more memory", "more memories")
    return (f"The same holds for {count} of this host: {names}.",) if names else ()


def _near_capacity(host: str, program: Workload, rows: list[Row]) -> Iterator[Finding]:
    """Yield a finding about a nearly full memory, in which a slightly larger allocation fails.

    rows: nearly full memories of the host, the fullest first
    """
    if not rows:
        return
    worst = rows[0]  # the fullest comes first
    high = worst["peak_share"] >= _VERY_FULL.value
    share, free = worst["peak_share"], humanize(worst["headroom_bytes"], Unit.BYTES)
    yield Finding(
        id="near_capacity",
        severity=Severity.HIGH if high else Severity.MODERATE,
        sentence=f"{worst['memory']} is {share:.0%} full at its peak ({free} left): a slightly larger step runs out of memory.",
        action=(
            "Free memory at the peak, largest rows of the breakdown first: a smaller batch, mixed precision, or recomputed activations "
            + program.select_text(
                keras="(keras.RematScope). If other processes share the device, tf.config.experimental.set_memory_growth.",
                tensorflow="(tf.recompute_grad). If other processes share the device, tf.config.experimental.set_memory_growth.",
                jax="(jax.checkpoint). If other processes share the device, XLA_PYTHON_CLIENT_MEM_FRACTION.",
                keras_jax="(keras.RematScope). If other processes share the device, XLA_PYTHON_CLIENT_MEM_FRACTION.",
            )
        ),
        evidence=(
            Evidence("peak as a share of the capacity", share, Unit.FRACTION, "memories"),
            Evidence("peak", worst["peak_bytes"], Unit.BYTES, "memories"),
            Evidence("capacity", worst["capacity_bytes"], Unit.BYTES, "memories"),
        ),
        threshold=_VERY_FULL if high else _FULL,
        counter_evidence=(
            "A program that ran through with this peak is not at risk while its shapes stay as they are.",
            *_more(rows),
        ),
        host=host,
    )


def _fragmented(host: str, program: Workload, rows: list[Row]) -> Iterator[Finding]:
    """Yield a finding about free memory in pieces that are too small to use.

    rows: fragmented memories of the host, the most fragmented first
    """
    if not rows:
        return
    worst = rows[0]
    yield Finding(
        id="fragmentation",
        severity=Severity.MODERATE,
        sentence=f"{worst['fragmentation']:.0%} of the free memory of {worst['memory']} lies outside its largest chunk at the peak.",
        action=(
            program.select_text(
                tensorflow="Use equal shapes in every step (pad sequences, drop_remainder=True in batch), so that freed chunks fit again; "
                "on a GPU try TF_GPU_ALLOCATOR=cuda_malloc_async, which TensorFlow's own out-of-memory message suggests.",
                jax="Use equal shapes in every step (pad sequences, drop the rest of an epoch), so that freed chunks fit again; donate what a "
                "step replaces (donate_argnums).",
                keras_jax="Use equal shapes in every step (pad sequences, give fit() batches of one size), so that freed chunks fit again.",
            )
        ),
        evidence=(
            Evidence("fragmentation at the peak", worst["fragmentation"], Unit.FRACTION, "memories"),
            Evidence("peak as a share of the capacity", worst["peak_share"], Unit.FRACTION, "memories"),
        ),
        threshold=_FRAGMENTED,
        counter_evidence=("It costs nothing unless one allocation is larger than the largest free chunk.", *_more(rows)),
        host=host,
    )


def _growing(host: str, program: Workload, rows: list[Row], memories: list[Row], unfreed: Table) -> Iterator[Finding]:
    """Yield a finding about memory use that grows after every step.

    rows: growing memories of the host, the fastest first
    memories: all memories of the host
    """
    if not rows:
        return
    worst = rows[0]  # the fastest comes first
    memory = worst["memory"]
    left = next(
        (r for r in unfreed.filter_by("host", host).records() if r["memory"] == memory and r["steps"] * 2 > worst["steps"]),
        None,
    )
    evidence = [
        Evidence("growth per step", worst["per_step_bytes"], Unit.BYTES, "growth"),
        Evidence("growth over the capture", worst["grown_bytes"], Unit.BYTES, "growth"),
        Evidence("steps that end with more in use than the step before", worst["rising"], Unit.FRACTION, "growth"),
    ]
    blame = ""
    if left is not None:
        evidence.append(Evidence("left behind per step by the largest op", left["per_step_bytes"], Unit.BYTES, "unfreed"))
        blame = f"; most is left behind by {left['op'] or 'allocations without an op'}"
    yield Finding(
        id="memory_growth",
        severity=Severity.HIGH,
        sentence=f"{memory} holds {humanize(worst['per_step_bytes'], Unit.BYTES)} more after every step{blame}.{_until_full(worst, memories)}",
        action=(
            program.select_text(
                keras="Find what is kept from step to step: lists of losses in callbacks (append float(loss) instead), "
                "metrics that concatenate, or a function that is traced again and keeps constants.",
                tensorflow="Find what is kept from step to step: lists of losses (append float(loss) instead), metrics "
                "that concatenate, a tape with persistent=True, or a tf.function that traces again and keeps constants.",
                jax="Find what is kept from step to step: lists of losses (append float(loss) instead), old states, "
                "or functions that are compiled again and keep constants.",
            )
        ),
        evidence=tuple(evidence),
        threshold=MIN_GROWTH,
        counter_evidence=(
            f"It rose in {worst['rising']:.0%} of {worst['steps']} steps (limit: {RISING_SHARE}); a cache or buffer that is still filling "
            "looks the same at first.",
            *_more(rows),
        ),
        host=host,
    )


def _until_full(worst: Row, memories: list[Row]) -> str:
    """Return a sentence on the number of steps until the memory is full at this rate; "" without a
    capacity.
    """
    headroom = next((m["headroom_bytes"] for m in memories if m["memory"] == worst["memory"]), None)
    if headroom is None:
        return ""
    return f" At this rate it is full after {format_count(round(max(headroom, 0) / worst['per_step_bytes']), 'more step')}."
