"""What a cache is expected to save before it is raced: the model alone, and what the pipeline still costs behind the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.model import Interval, Unit
from outpace.tune.climb.limits import Limits
from outpace.tune.climb.running import Copies, Running
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.classes import construct
from outpace.tune.data.isolated import dispose
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.tree import Stage, describe
from outpace.tune.program.program import Program
from outpace.tune.trial.statistics import Estimate

_BATCHED = frozenset({"batch", "padded_batch", "ragged_batch", "sparse_batch", "rebatch"})
_SINGLE = frozenset({"unbatch", "flat_map", "interleave"})
SAMPLE = 8  # batches that the cache of the sample holds
READ_SECONDS = 0.7
BETWEEN = 0.12  # of the logarithm of a ratio, 95%: how far races of the same pair lie apart (seven programs, two shared cores, 17 races)
BOUND = (
    "from the model alone, with the pipeline's rest behind the cache in its shadow or on top of it; for another race than the one that "
    "measured the model: twice its variance, and what races of the same pair differ by"
)


@dataclass(frozen=True, eq=False)
class Expected:
    """The prediction for one change: the share of the step time that it saves."""

    change: Change
    saving: Interval


def expected(program: Program, variant: Variant, limits: Limits, copies: Copies) -> Expected | None:
    """The prediction for a variant whose last change adds a cache; None for others, and where it would touch zero.

    Reads a small sample of the pipeline, cached, for about a second.
    """
    change, model = variant.changes[-1], limits.model_ratio
    if change.knob is not None or model is None or variant.base is None:
        return None
    caches = _caches(variant.dataset)
    if len(caches) <= len(_caches(variant.base.dataset)) or any(cache.arguments.get("filename") for cache in caches):
        return None
    try:
        behind = _read(program, _sample(variant.dataset, caches, program.batch_size or 1), copies)
    except Exception:  # whatever the pipeline raises: the races will meet it, and say it
        return None
    saving = saved(model, limits.rate / behind)
    return None if saving is None else Expected(change, saving)


def _caches(dataset: Any) -> list[Stage]:
    return describe(dataset).find("cache")


def saved(model: Estimate, rest: float) -> Interval | None:
    """The share that is saved; `model`: rate of the model alone / today's rate. rest: reading one batch behind the cache, in steps of today.

    A step is then at best as long as the longer of model and rest, and at worst as both together.
    """
    low, high = model.ratio / _apart(model.ratio / model.low), model.ratio * _apart(model.high / model.ratio)
    least, most = 1 - (1 / low + rest), 1 - max(1 / high, rest)
    return Interval(least, most, Unit.FRACTION, BOUND) if least > 0 else None


def _apart(end: float) -> float:
    """How far from the middle another race may end, as a factor; `end`: how far this one's interval does."""
    return math.exp(math.hypot(math.sqrt(2) * math.log(end), BETWEEN))


def _sample(dataset: Any, caches: Sequence[Stage], batch: int) -> Any:
    """The pipeline with a few batches in its caches. Raises RebuildError where it cannot be built again."""
    return rebuild(dataset, [(cache.dataset, _shortened(SAMPLE if _batches(cache) else SAMPLE * batch)) for cache in caches])


def _batches(cache: Stage) -> bool:
    """Whether what is cached are batches, and not what was taken out of them again."""
    changing = (stage.op for stage in cache.walk() if stage.op in _BATCHED or stage.op in _SINGLE)
    return next(changing, None) in _BATCHED


def _shortened(elements: int) -> Any:
    def edit(node: Any, inputs: Sequence[Any]) -> Any:
        return construct(node, [inputs[0].take(elements)])

    return edit


def _read(program: Program, sample: Any, copies: Copies) -> float:
    """Batches per second of a pipeline that is read without training."""
    held = [Running(program, Variant("behind the cache", sample), "behind the cache", copies, reading=True)]
    try:
        return held[0].rate(READ_SECONDS)
    finally:
        dispose(held)
