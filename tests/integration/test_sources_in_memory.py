"""What the profilers' own sessions return, without a file: opened in the process that captured."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from outpace import api
from tests.support import opened, profile_bytes

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


def test_jax_profile_data_keeps_times_and_says_what_it_lacks() -> None:
    data = pytest.importorskip("jax.profiler").ProfileData.from_serialized_xspace(profile_bytes("jax_loop", "vm"))
    profile, whole = api.open(data), opened("jax_loop")
    assert profile.run.events == whole.run.events
    assert profile.run.hosts[0].steps.number.tolist() == whole.run.hosts[0].steps.number.tolist()
    assert abs(profile.run.hosts[0].steps.duration - whole.run.hosts[0].steps.duration).max() < 1000
    assert "keeps no compiled programs" in " ".join(profile.warnings)
