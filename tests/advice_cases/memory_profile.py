"""Memories that are nearly full, fragmented, or hold more after every step."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from outpace.metrics.facts.workload import Workload
from outpace.model import Severity
from outpace.tools.memory_profile import findings as rules
from outpace.tools.memory_profile import growth
from outpace.tools.memory_profile.schema import GROWTH, MEMORIES, STEP_ENDS, UNFREED
from tests.advice_cases.build import HOST, table
from tests.advice_cases.case import KERAS_JAX, TENSORFLOW, Case, Find, fires, silent, worded

_MB = 1_000_000
_MEMORY = "GPU_0_bfc"


def _full(peak: float, fragmentation: float = 0.0, count: int = 1, program: Workload = TENSORFLOW) -> Find:
    row = {
        "memory": _MEMORY,
        "peak_share": peak,
        "peak_bytes": round(peak * 1000 * _MB),
        "capacity_bytes": 1000 * _MB,
        "headroom_bytes": round((1 - peak) * 1000 * _MB),
        "fragmentation": fragmentation,
    }
    memories = table("memories", MEMORIES, *({**row, "memory": f"{_MEMORY}_{n}" if n else _MEMORY} for n in range(count)))
    return lambda: rules.iter_findings(memories, table("growth", GROWTH), table("unfreed", UNFREED), program)


def _ends(used: Sequence[float], peak: float, leaving: int = 10, program: Workload = TENSORFLOW) -> Find:
    """Memory in use at the ends of the steps and at the peak, MB; one op leaves some behind in
    `leaving` of them.
    """
    ends = table(
        "step_ends", STEP_ENDS, *({"memory": _MEMORY, "step": n, "in_use_bytes": round(u * _MB)} for n, u in enumerate(used))
    )
    log: Any = SimpleNamespace(host=HOST, memory=_MEMORY, bytes_in_use=np.array([round(peak * _MB)]), peak_index=0)
    left = {"memory": _MEMORY, "op": "step/concat", "steps": leaving, "per_step_bytes": _MB}
    memories = table("memories", MEMORIES, {"memory": _MEMORY, "headroom_bytes": 100 * _MB})
    return lambda: rules.iter_findings(memories, growth.compute_growth(ends, [log]), table("unfreed", UNFREED, left), program)


def _climb(*changes: float) -> list[float]:
    return [100.0, *(100 + np.cumsum(changes)).tolist()]


_UP = [1.0] * 10
CASES: list[Case] = [
    fires("near_capacity", "93% full", _full(0.93), Severity.MODERATE, says=("93% full", "a smaller batch")),
    *worded(
        "near_capacity",
        lambda program: _full(0.93, program=program)(),
        Severity.MODERATE,
        keras="keras.RematScope",
        tensorflow="tf.recompute_grad",
        jax="jax.checkpoint",
    ),
    fires(
        "near_capacity",
        "of Keras on JAX, where TensorFlow holds no memory of the device",
        _full(0.93, program=KERAS_JAX),
        Severity.MODERATE,
        never=("tf.config",),
    ),
    fires("near_capacity", "98% full", _full(0.98), Severity.HIGH),
    fires("near_capacity", "seven memories", _full(0.93, count=7), Severity.MODERATE),
    fires("near_capacity", "four memories", _full(0.93, count=4), Severity.MODERATE),
    silent("near_capacity", "85% full", _full(0.85)),
    fires("fragmentation", "60% of the free memory", _full(0.7, 0.6), Severity.MODERATE, says=("60%", "drop_remainder=True")),
    *worded(
        "fragmentation",
        lambda program: _full(0.7, 0.6, program=program)(),
        Severity.MODERATE,
        keras="TF_GPU_ALLOCATOR",
        tensorflow="TF_GPU_ALLOCATOR",
        jax="donate_argnums",
        keras_jax="batches of one size",
    ),
    fires(
        "fragmentation",
        "of Keras on JAX, whose allocator is not TensorFlow's",
        _full(0.7, 0.6, program=KERAS_JAX),
        Severity.MODERATE,
        never=("TF_GPU_ALLOCATOR",),
    ),
    silent("fragmentation", "40% of the free memory", _full(0.7, 0.4)),
    silent("fragmentation", "most is free", _full(0.4, 0.6)),
    fires(
        "memory_growth",
        "1 MB per step",
        _ends(_climb(*_UP), 110),
        Severity.HIGH,
        says=("977 KiB more after every step", "step/concat", "full after 100 more steps"),
    ),
    *worded(
        "memory_growth",
        lambda program: _ends(_climb(*_UP), 110, program=program)(),
        Severity.HIGH,
        keras="losses in callbacks",
        tensorflow="persistent=True",
        jax="old states",
    ),
    fires("memory_growth", "an op leaves in 7 of 11 steps", _ends(_climb(*_UP), 110, 7), Severity.HIGH, says=("step/concat",)),
    fires("memory_growth", "an op leaves in 4 of 11 steps", _ends(_climb(*_UP), 110, 4), Severity.HIGH, never=("step/concat",)),
    fires("memory_growth", "seven steps", _ends(_climb(*[2.0] * 6), 112), Severity.HIGH),
    silent("memory_growth", "four steps", _ends(_climb(*[10.0] * 3), 130)),
    silent("memory_growth", "it rises in 60% of the steps", _ends(_climb(*[4.0, 0.0, 4.0, 0.0, 4.0] * 3), 110)),
    fires("memory_growth", "a little is given back", _ends(_climb(*[2.0] * 4, -3.0, *[2.0] * 7), 120), Severity.HIGH),
    silent("memory_growth", "much is given back", _ends(_climb(*_UP[:4], -7.0, *_UP[:7]), 30)),
    fires("memory_growth", "8% of the peak", _ends(_climb(*_UP), 125), Severity.HIGH),
    silent("memory_growth", "3% of the peak", _ends(_climb(*_UP), 330)),
]
