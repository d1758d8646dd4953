"""What the profilers' own sessions return, without a file: opened in the process that captured."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

SESSIONS = {
    "jax": """
        import jax, jax.numpy as jnp
        from jax._src.lib import _profiler
        step = jax.jit(lambda x: jnp.tanh(x @ x))
        x = step(jnp.ones((256, 256))).block_until_ready()
        session = _profiler.ProfilerSession()
        for _ in range(12):
            x = step(x).block_until_ready()
        content = session.stop()
    """,
    "tensorflow": """
        import tensorflow as tf
        from tensorflow.python.profiler.internal import _pywrap_profiler
        step = tf.function(lambda x: tf.tanh(x @ x))
        x = step(tf.ones((256, 256)))
        session = _pywrap_profiler.ProfilerSession()
        session.start("", {})
        for _ in range(12):
            x = step(x)
        content = session.stop()
    """,
}
SHOW = """
import outpace
assert isinstance(content, bytes)
profile = outpace.open(content)
print(profile.run.source, len(profile.run.hosts[0].steps))
profile.report()
"""


@pytest.mark.parametrize("framework", SESSIONS)
def test_a_session_in_memory_is_opened(framework: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    script = textwrap.dedent(SESSIONS[framework]) + SHOW
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    source, steps = done.stdout.splitlines()[-1].rsplit(" ", 1)
    assert source.endswith("(in memory)")
    assert int(steps) >= 10
