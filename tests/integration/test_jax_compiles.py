"""What JAX itself tells while it compiles, in the version that is installed."""

from __future__ import annotations

from pathlib import Path

from tests.integration.programs import needs_jax, run_program

PROGRAM = """
import functools
import jax, jax.numpy as jnp, numpy as np
from outpace.capture.compilations import CompilationRecorder

watch = CompilationRecorder(lambda: True)
watch.install(jax)

@jax.jit
def update(params, tokens):
    return jax.tree.map(lambda p: p * tokens.sum(), params)

@functools.partial(jax.jit, static_argnames=("n",))
def power(x, n):
    return x**n

params, x = {"w": jnp.ones((3, 4)), "b": [jnp.ones(2)]}, jnp.ones(3)
watch.compilations.clear()
for length in (119, 118, 118):
    update(params, np.zeros((16, length), np.int32))
update({**params, "c": x}, np.zeros((16, 118), np.int32))
power(x, 2), power(x, n=3)
for _ in range(2):
    jax.jit(lambda v: v + 1)(x)
for seen in watch.compilations:
    if seen.arguments is not None:
        print(seen.program, seen.before, seen.arguments)
"""


@needs_jax
def test_the_argument_that_makes_jax_compile_is_known(tmp_path: Path) -> None:
    ended = run_program(PROGRAM, tmp_path, jax=True)
    assert ended.out.splitlines() == [
        "jit(update) None {}",
        "jit(update) {'tokens': 'int32[16,119]'} {'tokens': 'int32[16,118]'}",
        """jit(update) {} {"params['c']": 'float32[3]'}""",
        "jit(power) None {}",
        "jit(power) {'n': 'Literal[2]'} {'n': 'Literal[3]'}",
        "jit(<lambda>) None {}",
        "jit(<lambda>) {} {}",
    ], ended.err
