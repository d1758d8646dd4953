# SPDX-License-Identifier: Apache-2.0
"""Advice from the op tables: too much time in ops that run one by one, or outside the compiled
program.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.facts.op_metrics import DEVICE
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.views.eager_ops import EagerShare
from outpace.model import Category, Evidence, Finding, Severity, Table, Threshold, Unit

_XPROF = "XProf's overview page"
_EAGER = Threshold("eager share", 0.10, Unit.FRACTION, _XPROF)
_MATERIAL = Threshold("op by op, of the step", 0.05, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_OUTSIDE = Threshold("share outside compilation", 0.05, Unit.FRACTION, _XPROF)


def iter_findings(
    metrics: Table, eager: EagerShare, python_share: float, host_share: float, program: Workload, location: str
) -> Iterator[Finding]:
    """Yield all findings, from the metrics of the ops and of the ops that ran one by one.

    `python_share` is the share of the step in Python between these ops. `host_share` is the share
    of computation on the host: its part that is neither an op nor a function prepares these ops.
    `location` is the user's line that calls most of them, where it is known.
    """
    share, in_steps = eager.op_share, eager.step_share
    if share > _EAGER.value and eager.dispatch_share > _MATERIAL.value:
        yield Finding(
            id="eager_ops",
            severity=Severity.MODERATE,
            sentence=f"{in_steps:.0%} of the step runs op by op, outside any tf.function ({share:.0%} of the op time on the host).",
            action=program.select_text(
                keras="Remove run_eagerly=True from compile(), and keep TensorFlow ops out of callbacks and metrics that run after each batch.",
                tensorflow="Put the whole training step into one @tf.function, gradients and optimizer included.",
                jax="Put the loop's TensorFlow ops into one tf.function, or replace them by NumPy or JAX.",
            ),
            evidence=(
                Evidence("ops that ran one by one, of these and function calls", share, Unit.FRACTION, "eager_ops"),
                Evidence("ops that ran one by one, of the steps' time", in_steps, Unit.FRACTION, "eager_ops"),
            ),
            threshold=_EAGER,
            explains=("python_overhead", "small_steps", "per_call_cost"),
            location=location,
            saving=build_saving(
                min(
                    eager.max_share,
                    eager.standalone_share + python_share + share * max(0.0, host_share - in_steps - eager.function_share),
                ),
                Category.HOST_COMPUTE,
                Category.ALL_OTHERS,
                assumes="if running these ops by themselves, and the Python between them, cost nothing; their own work stays",
            ),
        )
    outside = _share(metrics, DEVICE, "outside_ps")
    if outside > _OUTSIDE.value:
        yield Finding(
            id="outside_compilation",
            severity=Severity.MODERATE,
            sentence=f"{outside:.0%} of the device's op time runs outside the compiled program.",
            action=program.select_text(
                tensorflow="Replace ops that XLA does not support, or move them to the input pipeline.",
                jax="Put what runs outside under the same jax.jit, and transfer data before the step.",
            ),
            evidence=(Evidence("share of device op time outside compilation", outside, Unit.FRACTION, "ops"),),
            threshold=_OUTSIDE,
        )


def _share(metrics: Table, side: str, part: str) -> float:
    mask = (metrics["side"] == side) & ~metrics["idle"].astype(bool)
    whole = float(np.sum(metrics["self_ps"][mask]))
    return float(np.sum(metrics[part][mask])) / whole if whole else 0.0
