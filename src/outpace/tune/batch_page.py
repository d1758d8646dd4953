"""The table of larger batches."""

from __future__ import annotations

import math

from outpace.model import Field, Table, Unit
from outpace.tune.batch import BatchSizes
from outpace.tune.batch_sizes import Size
from outpace.tune.trial.record import Experiment, Phase

_NAN = math.nan
FIELDS = (
    Field("batch", Unit.COUNT, "examples in a batch"),
    Field("rate", Unit.RATIO, "examples per second, median of the rounds", "Examples per second"),
    Field("ratio", Unit.RATIO, "examples per second / those of the program's own batch"),
    Field("low", Unit.RATIO, "lower end of the 95% CI", "From"),
    Field("high", Unit.RATIO, "upper end of it", "To"),
    Field("memory", Unit.BYTES, "bytes that the process took on when this size first ran, an estimate"),
    Field("verdict", Unit.TEXT, "the race's verdict per example"),
    Field("why", Unit.TEXT, "what the race says"),
)


def table_of(found: BatchSizes) -> Table:
    """One row per size, the program's own first; its ratio is 1 by definition."""
    return Table.from_rows(
        "batch_sizes", "Larger batches", FIELDS, [_row(size, found.experiment) for size in found.reached.sizes]
    )


def remark(found: BatchSizes) -> str:
    """Why there is no larger size, and what a larger batch asks of the learning rate."""
    return f"{found.reached.ended} {found.advice} None of this is applied."


def _row(size: Size, experiment: Experiment | None) -> tuple[object, ...]:
    if experiment is None:
        return (size.batch, size.rate, 1.0, _NAN, _NAN, size.grown, "the program's own", "a first look, no race")
    if size.name == experiment.baseline:
        rates = sorted(experiment.reference(Phase.SEARCH).values())
        rate = rates[len(rates) // 2] if rates else _NAN
        return (size.batch, rate, 1.0, _NAN, _NAN, size.grown, "the program's own", "")
    verdict = experiment.verdict(size.name)
    estimate = verdict.estimate
    ratio = (estimate.ratio, estimate.low, estimate.high) if estimate is not None else (_NAN, _NAN, _NAN)
    rate = verdict.rate if verdict.rate is not None else _NAN
    return (size.batch, rate, *ratio, size.grown, verdict.decision.value, verdict.reason)
