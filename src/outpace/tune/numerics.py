"""Whether a variant of a program learns as the program does: losses of both on the same batches, within what chance would do to them."""

from __future__ import annotations

import contextlib
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import UsageError
from outpace.tune.climb.variant import Variant
from outpace.tune.optimisations.knob import Turned, switched
from outpace.tune.program.program import Program
from outpace.tune.program.source import Feed
from outpace.tune.program.state import Snapshot
from outpace.tune.program.stepper import Stepper
from outpace.tune.trial.engine import Watch

STEPS = 30
# Bands reach so many times the root mean square distance of so many controls: Student's t, 99% of both sides.
MARGINS = {3: 5.84, 4: 4.60, 5: 4.03, 6: 3.71, 7: 3.50, 8: 3.36}
ROUNDING = 1e-4  # of the loss: the band of a program in which chance plays no part
GRADIENTS = 1.25  # ratio of gradient norms, either way, that rounding does not explain
MEMORY = 256 << 20  # bytes of batches that are held; fewer batches are then used again
_SEED = 20_011


@dataclass(frozen=True)
class Band:
    """What a comparison of losses says.

    base, variant: the mean loss of the steps so far, after each step, in the program's own order of batches. band: by step, how far from
    `base` it may be: a multiple (`MARGINS`) of the controls' distance, at that step or a later one. worst: the variant's largest
    distance in bands. gradients: ratio of the gradients' norms, variant / base, its median over the steps; None where the optimizer does
    not tell. failed_at: the first step, from 0, whose loss is not finite where the program's is; None for none. inside: the verdict;
    sentence: it in words.
    """

    base: tuple[float, ...]
    variant: tuple[float, ...]
    band: tuple[float, ...]
    worst: float
    gradients: float | None
    failed_at: int | None
    inside: bool
    sentence: str

    @property
    def objection(self) -> str | None:
        """The sentence where it speaks against the variant."""
        return None if self.inside else self.sentence


def loss_band(
    program: Program, variant: Variant, steps: int = STEPS, watch: Watch | None = None, *, seconds: float | None = None
) -> Band:
    """Train `steps` steps of the program, of its controls and of the variant's knobs, each from the state that the model has now.

    Losses that differ by no more than rounding need no controls. Else these are the program itself in other orders of batches and with
    other seeds: 8 of them, or as many as `seconds` allow, but at least 3, and fewer have a wider band. Every step reads a batch that is
    held in memory, so rewrites of the input play no part. Random numbers are pinned where they come from Keras' seed generators.
    Everything is put back afterwards, also after an interrupt.

    Raises UsageError where the step gives no loss.
    """
    if steps < 2:
        raise UsageError(f"A band of losses needs at least 2 steps, not {steps}.")
    (watch or Watch()).note(f"Comparing the losses of {variant.name} over {steps} steps.")
    snapshot = Snapshot.of(program.model)
    try:
        batches = held(program, steps)
        order = [step % len(batches) for step in range(steps)]
        plain = _prepared(program, Variant("as it is", program.dataset), batches, snapshot)
        began = time.perf_counter()
        base = plain.trajectory(order, snapshot)
        tried = _prepared(program, variant, batches, snapshot).trajectory(order, snapshot)
        seeds = () if same(base.losses, tried.losses) else range(1, 1 + affordable(seconds, time.perf_counter() - began))
        controls = [plain.trajectory(shuffled(order, seed), snapshot, seed).losses for seed in seeds]
    finally:
        snapshot.restore()
    return judge(base.losses, tried.losses, controls, gradients=_ratio(base.norms, tried.norms))


def same(base: Sequence[float], variant: Sequence[float]) -> bool:
    """Whether the losses of all steps differ by no more than rounding."""
    return all(math.isfinite(b) and abs(b - a) <= ROUNDING * abs(a) for a, b in zip(base, variant, strict=True))


def affordable(seconds: float | None, each: float) -> int:
    """How many controls fit into `seconds` beside the two trajectories that are compared, where one takes `each` seconds."""
    most, least = max(MARGINS), min(MARGINS)
    return most if seconds is None or each <= 0 else max(least, min(most, int(seconds / each) - 2))


def judge(
    base: Sequence[float], variant: Sequence[float], controls: Sequence[Sequence[float]], gradients: float | None = None
) -> Band:
    """The verdict over losses step by step, all of one length; 3 to 8 controls, or none where the losses are the same; `gradients` as in
    `Band`."""
    ours, theirs = _running(base), _running(variant)
    band = _band(ours, [_running(control) for control in controls])
    worst = max(_distance(a, b) / width for a, b, width in zip(ours, theirs, band, strict=True))
    failed = next(
        (at for at, (a, b) in enumerate(zip(base, variant, strict=True)) if math.isfinite(a) > math.isfinite(b)), None
    )
    said, inside = f"the losses stay within {worst:.2f} of the band that {len(controls)} other orders and seeds span", True
    if not controls:
        said = "the losses differ by no more than rounding"
    if failed is not None:
        said, inside = f"the loss of step {failed + 1} is {variant[failed]}, where the program's own is finite", False
    elif worst > 1:
        said, inside = (
            f"the losses leave the band that {len(controls)} other orders and seeds span: {worst:.1f} times as far",
            False,
        )
    elif gradients is not None and not 1 / GRADIENTS <= gradients <= GRADIENTS:
        said, inside = f"gradients are {gradients:.3g} times as large as the program's, which rounding does not explain", False
    more = f"; gradients are {gradients:.3f} times as large" if inside and gradients is not None else ""
    sentence = f"Over {len(base)} steps {said}{more}."
    return Band(tuple(ours), tuple(theirs), tuple(band), worst, gradients, failed, inside, sentence)


def _band(base: Sequence[float], controls: Sequence[Sequence[float]]) -> list[float]:
    """By step: never wider than before, and near the end as wide as the whole last third, since trajectories may cross by chance."""
    spread = [_spread(base[at], [control[at] for control in controls]) for at in range(len(base))]
    last = 2 * len(base) // 3
    return [
        max(
            MARGINS[len(controls)] * max(spread[min(at, last) :]) if controls else 0.0,
            ROUNDING * abs(loss) if math.isfinite(loss) else 0.0,
            sys.float_info.min,
        )
        for at, loss in enumerate(base)
    ]


def _spread(base: float, controls: Sequence[float]) -> float:
    """Root mean square distance of the controls; those that are not finite are left out."""
    squares = [(control - base) ** 2 for control in controls if math.isfinite(control) and math.isfinite(base)]
    return math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0


def _distance(a: float, b: float) -> float:
    """Infinite where only one is finite; none where neither is."""
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b)
    return 0.0 if not math.isfinite(a) and not math.isfinite(b) else math.inf


def _running(losses: Sequence[float]) -> list[float]:
    """Mean of the losses up to each one: single steps differ by their batches, a pass over all of them does not."""
    total, means = 0.0, []
    for count, loss in enumerate(losses, start=1):
        total += loss
        means.append(total / count)
    return means


def _ratio(base: Sequence[float], variant: Sequence[float]) -> float | None:
    ratios = sorted(b / a for a, b in zip(base, variant, strict=False) if a > 0 and math.isfinite(a) and math.isfinite(b))
    return ratios[len(ratios) // 2] if ratios else None


def shuffled(order: Sequence[int], seed: int) -> list[int]:
    """The same in another order."""
    changed = list(order)
    random.Random(_SEED + seed).shuffle(changed)
    return changed


@dataclass(frozen=True)
class Trajectory:
    """Loss and gradient norm of each step; no norms where the optimizer does not tell."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]


class _Replay(Stepper):
    """A stepper over batches in memory, one step per call, that says the loss of each."""

    def __init__(self, program: Program, batches: Sequence[Any]) -> None:
        super().__init__(program, Feed(ordered(batches, range(len(batches)))))
        self._batches = batches
        self.norm: Any = None  # a variable that the traced step sets

    def trajectory(self, order: Sequence[int], snapshot: Snapshot, seed: int = 0) -> Trajectory:
        """Train from the state of the snapshot, and put it back."""
        snapshot.restore()
        _reseed(self.program.model, seed)
        self._iterator = iter(ordered(self._batches, order))
        losses, norms = [], []
        for _ in order:
            self.program.model.reset_metrics()
            self._call()
            losses.append(_loss(self._logs))
            if self.norm is not None:
                norms.append(float(self.norm.numpy()))
        snapshot.restore()
        return Trajectory(tuple(losses), tuple(norms))


def _prepared(program: Program, variant: Variant, batches: Sequence[Any], snapshot: Snapshot) -> _Replay:
    """Traced with the variant's knobs turned, one step per call."""
    with variant.applied(program), switched(program.model, steps_per_execution=1), _norms_of(program.model) as norm:
        replay = _Replay(program, batches)
        replay.compile()
    replay.norm = norm
    snapshot.restore()
    return replay


def _loss(logs: Any) -> float:
    if not isinstance(logs, dict) or "loss" not in logs:
        raise UsageError("The training step returns no `loss`, so the variant's losses cannot be compared with the program's.")
    return float(logs["loss"])


def held(program: Program, steps: int) -> list[Any]:
    """Up to so many batches of the first one's shapes, from one epoch, as far as they fit into memory."""
    tf = sys.modules["tensorflow"]
    size = sum(part.dtype.size * int(tf.size(part)) for part in tf.nest.flatten(program.spare, expand_composites=True))
    taken = list(program.feed().dataset.take(max(2, min(steps, MEMORY // max(size, 1)))))
    return [batch for batch in taken if _shapes(batch) == _shapes(taken[0])]


def _shapes(batch: Any) -> list[Any]:
    return [part.shape for part in sys.modules["tensorflow"].nest.flatten(batch)]


def ordered(batches: Sequence[Any], order: Sequence[int]) -> Any:
    """A data set of batches in an order; its element spec does not depend on it."""
    tf = sys.modules["tensorflow"]
    if all(isinstance(part, tf.Tensor) for part in tf.nest.flatten(batches[0])):
        stacked = tf.nest.map_structure(lambda *parts: tf.stack([parts[at] for at in order]), *batches)
        return tf.data.Dataset.from_tensor_slices(stacked)
    single = [tf.data.Dataset.from_tensors(batches[at]) for at in order]
    return reduce(lambda before, after: before.concatenate(after), single)


def _reseed(model: Any, seed: int) -> None:
    """Move Keras' seed generators on; 0 leaves them where they are."""
    for variable in model.variables if seed else ():
        if "seed_generator_state" in variable.path:
            variable.assign(variable.numpy() + np.asarray(seed, variable.dtype))


@contextlib.contextmanager
def _norms_of(model: Any) -> Iterator[Any]:
    """While the step is traced: the norm of the gradients that reach the optimizer, unscaled, goes into the variable that this gives.

    None where the optimizer is of another kind, or where replicas have gradients of their own.
    """
    tf = sys.modules["tensorflow"]
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    apply = getattr(optimizer, "_backend_apply_gradients", None)
    if apply is None or model.distribute_strategy.num_replicas_in_sync > 1:
        yield None
        return
    norm = tf.Variable(math.nan, trainable=False, dtype=tf.float32)

    def noting(gradients: Any, variables: Any) -> Any:
        norm.assign(tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients if gradient is not None]))
        return apply(gradients, variables)

    def on(back: contextlib.ExitStack) -> None:
        optimizer._backend_apply_gradients = noting
        back.callback(delattr, optimizer, "_backend_apply_gradients")

    with Turned(on):
        yield norm
