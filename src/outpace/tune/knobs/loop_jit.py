"""`jax.jit` for the eager step of a loop of the user's own."""

from outpace.tune.knobs.loop_graph import LoopGraph

KNOB = LoopGraph("loop_jit", "jax.jit", "jax")
