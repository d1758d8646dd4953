"""Ops outside of functions, and outside of compiled programs."""

from __future__ import annotations

from typing import Any

from outpace.metrics.facts import op_metrics
from outpace.metrics.facts.workload import Workload
from outpace.metrics.views.eager_ops import EagerShare
from outpace.model import Severity
from outpace.tools.op_stats import findings as rules
from tests.advice_cases.build import table
from tests.advice_cases.case import TENSORFLOW, Case, Find, about, fires, silent, worded

_NO_OPS = table("ops", op_metrics.OPS)


def _eager(
    of_ops: float, dispatch: float, others: float = 0.0, program: Workload = TENSORFLOW, alone: float = 0.0, host: float = 0.5
) -> Find:
    """`alone`: what running by themselves adds to the ops, dispatching them if not given; the host
    computes for `host` of the step.
    """
    share = EagerShare(of_ops, max(0.5, dispatch), dispatch, alone if alone else dispatch, max_share=0.98)
    return lambda: rules.iter_findings(_NO_OPS, share, others, host, program, "train.py:7")


def _outside(share: float, program: Workload = TENSORFLOW) -> Find:
    ops = table(
        "ops",
        op_metrics.OPS,
        {"side": op_metrics.DEVICE, "self_ps": 1000, "outside_ps": round(1000 * share)},
        {"side": op_metrics.DEVICE, "self_ps": 5000, "outside_ps": 5000, "idle": True},
        {"side": op_metrics.HOST, "self_ps": 5000, "outside_ps": 5000},
    )
    return lambda: rules.iter_findings(ops, EagerShare(0.0, 0.0, 0.0), 0.0, 0.0, program, "")


_HOST: dict[str, Any] = {"location": "train.py:7", "takes_from": ("host_compute", "all_others")}
CASES: list[Case] = [
    *worded(
        "eager_ops",
        lambda program: _eager(0.5, 0.08, 0.1, program)(),
        Severity.MODERATE,
        keras="run_eagerly=True",
        tensorflow="@tf.function",
        jax="replace them by NumPy or JAX",
        strange=False,  # in a loop of JAX it is TensorFlow's ops that run one by one
        saves=about(0.18),
        **_HOST,
    ),
    fires("eager_ops", "15% of the ops", _eager(0.15, 0.5), Severity.MODERATE, saves=about(0.5), **_HOST),
    fires("eager_ops", "with new memory", _eager(1.0, 0.2, 0.3, alone=0.4), Severity.MODERATE, saves=about(0.7), **_HOST),
    fires("eager_ops", "one call stays", _eager(1.0, 0.5, 0.5), Severity.MODERATE, saves=about(0.98), **_HOST),
    fires(
        "eager_ops", "what prepares half of the ops", _eager(0.5, 0.2, host=0.8), Severity.MODERATE, saves=about(0.35), **_HOST
    ),
    silent("eager_ops", "7% of the ops", _eager(0.07, 0.5)),
    silent("eager_ops", "3% of the step", _eager(0.5, 0.03)),
    *worded(
        "outside_compilation",
        lambda program: _outside(0.08, program)(),
        Severity.MODERATE,
        keras="ops that XLA does not support",
        tensorflow="ops that XLA does not support",
        jax="jax.jit",
    ),
    silent("outside_compilation", "3% of the device's time", _outside(0.03)),
]
