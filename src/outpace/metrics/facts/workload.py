# SPDX-License-Identifier: Apache-2.0
"""The kind of program that a run shows: which framework, whose loop, training or inference.

Advice uses it to speak the program's own language.
"""

from __future__ import annotations

from enum import Enum

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.timeline import Run, StepSource, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.trace import dialect

_OWN_LOOPS = ("custom loop", "eager loop")  # capture modes in which the loop is the script's own


class Framework(str, Enum):
    """The framework whose terms fit a program."""

    KERAS = "Keras"
    TENSORFLOW = "TensorFlow"
    JAX = "JAX"
    KERAS_JAX = "Keras on JAX"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Workload:
    """The kind of program.

    framework: KERAS where Keras' own loop runs (fit, evaluate, predict), TENSORFLOW and JAX where
        the loop is the user's
    is_inference: whether the steps are predictions
    """

    framework: Framework
    is_inference: bool = False

    @property
    def is_jax(self) -> bool:
        """Whether the program runs XLA programs of JAX."""
        return self.framework in (Framework.JAX, Framework.KERAS_JAX)

    @property
    def is_keras(self) -> bool:
        """Whether the loop is Keras' own."""
        return self.framework in (Framework.KERAS, Framework.KERAS_JAX)

    @property
    def name(self) -> str:
        """The kind in words, for people: `Keras fit (TensorFlow)`, `hand-written TensorFlow
        loop`.
        """
        if self.is_inference:
            return {Framework.UNKNOWN: "inference"}.get(self.framework, f"inference with {self.framework.value}")
        return {
            Framework.KERAS: "Keras fit (TensorFlow)",
            Framework.KERAS_JAX: "Keras fit (JAX)",
            Framework.TENSORFLOW: "hand-written TensorFlow loop",
            Framework.JAX: "JAX loop",
            Framework.UNKNOWN: "unknown",
        }[self.framework]

    def select_text(self, *, tensorflow: str, jax: str, keras: str = "", keras_jax: str = "") -> str:
        """Return the text that fits this program; that of TensorFlow where the framework is
        unknown, or Keras has no text of its own.
        """
        keras = keras or tensorflow
        return {
            Framework.KERAS: keras,
            Framework.TENSORFLOW: tensorflow,
            Framework.JAX: jax,
            Framework.KERAS_JAX: keras_jax or keras,
            Framework.UNKNOWN: tensorflow,
        }[self.framework]


_JAX_TRAINER = b"keras/src/backend/jax/trainer.py"  # file on the stack of each op that Keras' own loop compiled with JAX


@memoize
def find_workload(run: Run) -> Workload:
    """Return the kind of program of a run, from its first host with steps.

    One run is one program on several hosts.
    """
    hosts = [t for t in run.hosts if len(t.steps)] or list(run.hosts)
    if not hosts:
        return Workload(Framework.UNKNOWN)
    with_steps = [t for t in hosts if len(t.steps)]
    predicts = bool(with_steps) and all(_predicts(run, t) for t in with_steps)
    return Workload(_framework(run, hosts[0]), predicts)


def _predicts(run: Run, timeline: Timeline) -> bool:
    return timeline.steps.kind == "prediction" or "predict" in str(run.record(timeline.host).get("mode"))


def _framework(run: Run, timeline: Timeline) -> Framework:
    jax = _time_of(timeline, EventFlag.JAX) or any("hlo" in name.lower() for name in timeline.trace.lines.names)
    tensorflow = _time_of(timeline, EventFlag.TENSORFLOW)
    if not jax and not tensorflow:
        return _device_framework(timeline)
    # TensorFlow only feeds the program: tf.data may work longer than JAX dispatches.
    only_fed = bool(jax) and len(timeline.trace.stat(dialect.TF_FUNCTION_CALL)) == 0
    by_jax = jax > tensorflow or only_fed or "jit_" in timeline.steps.explanation or "Pjit" in timeline.steps.explanation
    if _is_keras(run, timeline):
        return Framework.KERAS_JAX if by_jax else Framework.KERAS
    return Framework.JAX if by_jax else Framework.TENSORFLOW


def _device_framework(timeline: Timeline) -> Framework:
    """Return the framework from what devices ran, where the host recorded nothing."""
    for line, name in enumerate(timeline.trace.lines.names):
        rows = timeline.trace.lines.row_slice(line)
        if name in ("XLA Modules", "XLA Ops") and rows.stop > rows.start:
            first = timeline.trace.names[timeline.trace.name[rows.start]]
            return Framework.JAX if first.startswith(("jit_", "pjit", "pmap")) or "jit(" in first else Framework.UNKNOWN
    return Framework.UNKNOWN


def _time_of(timeline: Timeline, what: EventFlag) -> int:
    return int(timeline.trace.duration[timeline.event_names.rows(what)].sum())


def _is_keras(run: Run, timeline: Timeline) -> bool:
    mode = str(run.record(timeline.host).get("mode") or "")
    if mode.startswith("keras") or mode in _OWN_LOOPS:
        return mode not in _OWN_LOOPS
    if timeline.steps.source is StepSource.KERAS_BATCH:
        return True
    trace = timeline.trace
    if timeline.event_names.mask(EventFlag.KERAS_FUNCTION).any() or dialect.EPOCH_NUM in trace.stat_names:
        return True
    protos = (stats.get(dialect.HLO_PROTO) for stats in trace.name_stats.values())
    return any(isinstance(proto, bytes) and _JAX_TRAINER in proto for proto in protos)
