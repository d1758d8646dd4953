"""Advice from the op tables: too much runs op by op, or outside the compiled program."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.eager_ops import eager_share
from outpace.metrics.op_metrics import DEVICE
from outpace.model import Evidence, Finding, Severity, Table, Threshold, Unit

_XPROF = "XProf's overview page"
_EAGER = Threshold("eager share", 0.10, Unit.FRACTION, _XPROF)
_OUTSIDE = Threshold("share outside compilation", 0.05, Unit.FRACTION, _XPROF)


def find(metrics: Table, eager: Table) -> Iterator[Finding]:
    """All findings, from the ops' metrics and the ops that ran one by one."""
    share = eager_share(eager)
    if share > _EAGER.value:
        yield Finding(
            id="eager_ops",
            severity=Severity.MODERATE,
            sentence=f"{share:.0%} of the op time on the host runs op by op, outside any tf.function.",
            action="Put the whole training step into one @tf.function (or use model.fit without run_eagerly=True).",
            evidence=(Evidence("ops that ran one by one, of these and function calls", share, Unit.FRACTION, "eager_ops"),),
            threshold=_EAGER,
            knobs=("tf_function",),
        )
    outside = _share(metrics, DEVICE, "outside_ps")
    if outside > _OUTSIDE.value:
        yield Finding(
            id="outside_compilation",
            severity=Severity.MODERATE,
            sentence=f"{outside:.0%} of the device's op time runs outside the compiled program.",
            action="Replace ops that XLA does not support, or move them to the input pipeline.",
            evidence=(Evidence("share of device op time outside compilation", outside, Unit.FRACTION, "ops"),),
            threshold=_OUTSIDE,
            knobs=("jit_compile",),
        )


def _share(metrics: Table, side: str, part: str) -> float:
    mine = (metrics["side"] == side) & ~metrics["idle"].astype(bool)
    whole = float(np.sum(metrics["self_ps"][mine]))
    return float(np.sum(metrics[part][mine])) / whole if whole else 0.0
