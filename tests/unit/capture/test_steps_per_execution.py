"""How many training steps a call of a model's function makes, as Keras 2 and 3 say it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from outpace.capture.steps_keras import steps_per_execution


class Variable:
    """A whole number of Keras 2: no Python one can be divided by it."""

    def __init__(self, value: int) -> None:
        self._value = value

    def numpy(self) -> Any:
        """Likewise."""
        return np.int64(self._value)

    def __int__(self) -> int:
        return self._value


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (SimpleNamespace(steps_per_execution=16), 16),
        (SimpleNamespace(steps_per_execution=Variable(8)), 8),
        (SimpleNamespace(_steps_per_execution=Variable(4)), 4),
        (SimpleNamespace(steps_per_execution=None, _steps_per_execution=None), 1),
        (SimpleNamespace(), 1),
        (None, 1),
    ],
)
def test_every_version_says_it_as_a_python_number(model: Any, steps: int) -> None:
    found = steps_per_execution(model)
    assert found == steps and type(found) is int
