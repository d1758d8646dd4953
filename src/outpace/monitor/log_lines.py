# SPDX-License-Identifier: Apache-2.0
"""Builds the monitor's log lines, TensorBoard scalars and final sentence. Durations are ms per
training step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.units import format_count
from outpace.monitor.input_wait import InputTotals
from outpace.monitor.slowdown_capture import SlowdownCapture
from outpace.monitor.stats import Histogram


def build_log_line(
    steps: Histogram,
    steps_per_call: int,
    read_before: InputTotals,
    read_after: InputTotals,
    batch_size: int | None,
    memory: Mapping[str, float],
) -> dict[str, Any]:
    """Return the numbers of one interval: `step_ms`, `steps_per_s`, and where known
    `examples_per_s`, `input_wait_ms`, `input_share`, `memory`.

    `input_wait_ms` is the mean over the batches between `read_before` and `read_after`. Rates
    refer to the time inside steps.
    """
    line: dict[str, Any] = {"step_ms": _times(steps, steps_per_call)}
    rate = 1e9 * steps_per_call / steps.mean if steps.mean else 0.0
    line["steps_per_s"] = round(rate, 3)
    batches = read_after.batches - read_before.batches
    size = float(batch_size or 0) or ((read_after.examples - read_before.examples) / batches if batches else 0.0)
    if size:
        line["examples_per_s"] = round(rate * size, 1)
    if batches:
        wait = (read_after.seconds - read_before.seconds) / batches
        line["input_wait_ms"] = round(wait * 1e3, 4)
        line["input_share"] = round(min(1.0, wait * rate), 4)
    if memory:
        line["memory"] = dict(memory)
    return line


def format_milliseconds(value: float) -> str:
    """Format a duration in ms: `5.03 ms`, `1234 ms`."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:.0f} ms"


def flatten_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Return a line's numbers as TensorBoard scalars by tag: `step_ms/mean`, `steps_per_s`,
    `memory/rss_mb`, ...
    """
    scalars: dict[str, float] = {}
    for name, value in line.items():
        for inner, number in value.items() if isinstance(value, Mapping) else [("", value)]:
            scalars[f"{name}/{inner}" if inner else name] = float(number)
    return scalars


@dataclass
class RunTotals:
    """Totals of all steps of a run, except those of the warm-up and of captures."""

    steps: Histogram = field(default_factory=Histogram)
    steps_per_call: int = 1
    waited_s: float = 0.0
    batches: float = 0.0
    slowdowns: int = 0
    unsettled_ns: int = 0  # time in ns of the calls in the warm-up and just after captures

    def add(self, steps: Histogram, steps_per_call: int, read_before: InputTotals, read_after: InputTotals) -> None:
        """Add one interval."""
        self.steps.merge(steps)
        self.steps_per_call = steps_per_call
        self.waited_s += read_after.seconds - read_before.seconds
        self.batches += read_after.batches - read_before.batches

    @property
    def mean_ms(self) -> float:
        """Mean time of a training step in ms."""
        return self.steps.mean / self.steps_per_call / 1e6

    @property
    def input_share(self) -> float | None:
        """Share of a step that waits for input, 0 to 1; None where it was not measured."""
        if not self.batches or not self.mean_ms:
            return None
        return min(1.0, self.waited_s / self.batches * 1e3 / self.mean_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return the totals for the last line; the line omits values of None."""
        share = self.input_share
        return {
            "timed_steps": self.steps.count * self.steps_per_call,
            "step_ms": _times(self.steps, self.steps_per_call) if self.steps.count else None,
            "input_share": None if share is None else round(share, 4),
            "slowdowns": self.slowdowns,
        }


def format_summary(totals: RunTotals, steps: int, capture: SlowdownCapture, missing_reason: str) -> str:
    """Return the run's summary as one sentence without its full stop."""
    if not steps:
        return "no step was seen: pass it to fit(callbacks=[...]), use 'with monitor.step():', or call monitor.step_done() after each step"
    if not totals.steps.count:
        return f"{format_count(steps, 'step')}, too few to say anything beyond the warm-up"
    share = totals.input_share
    waits = f"input wait not measured ({missing_reason})" if share is None else f"{share:.0%} of it waiting for input"
    events = ", ".join(
        format_count(count, word) for count, word in ((totals.slowdowns, "slowdown"), (capture.capture_count, "capture"))
    )
    return f"{steps} steps, {format_milliseconds(totals.mean_ms)} each on average, {waits}, {events}"


def _times(steps: Histogram, per_call: int) -> dict[str, float]:
    """Return mean, median, 95th percentile and maximum of a training step, ms."""
    times = {"mean": steps.mean, "p50": steps.quantile(0.5), "p95": steps.quantile(0.95), "max": float(steps.maximum)}
    return {name: round(value / per_call / 1e6, 4) for name, value in times.items()}
