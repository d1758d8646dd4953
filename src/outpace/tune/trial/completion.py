"""Waiting for what a step returned: a step that a device still works on is not over."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from outpace.tune.trial.arm import Work


def steps_of(step: Callable[[], object]) -> Callable[[int], Work | None]:
    """`run` of an arm whose steps are calls of a function; the last result is waited for."""

    def run(steps: int) -> None:
        result: object = None
        for _ in range(steps):
            result = step()
        wait_for(result)

    return run


def wait_for(result: object) -> None:
    """Wait until the arrays in a step's result are computed, and TensorFlow's devices are idle where they run behind.

    Knows JAX arrays, TensorFlow tensors, and mappings and sequences of them; everything else is complete when it is returned.
    """
    _leaves(result)
    tf: Any = sys.modules.get("tensorflow")
    if tf is not None:
        with contextlib.suppress(AttributeError):  # a TensorFlow without it
            tf.test.experimental.sync_devices()


def _leaves(result: Any) -> None:
    wait = getattr(result, "block_until_ready", None)
    if callable(wait):
        wait()
    elif isinstance(result, Mapping):
        for item in result.values():
            _leaves(item)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _leaves(item)
