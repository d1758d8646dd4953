# SPDX-License-Identifier: Apache-2.0
"""Optimisations of a JAX loop of the user's own: its step compiled, the loop written anew around
it.
"""

from __future__ import annotations

from outpace.tune.optimisations.loops_tensorflow import LoopGraph, LoopSeveral

OPTIMISATIONS = (
    LoopGraph("loop_jit", "jax.jit", "jax"),
    LoopSeveral("loop_several", "jax.lax.scan", "jax"),
)
