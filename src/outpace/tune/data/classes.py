# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's classes of data sets: the public operation that builds each, and a map as it was
traced over another input.

Private API: a class that is not named here is of a kind that nobody knows, and nothing is said of
its elements.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from outpace.frameworks.tensorflow import FUNCTION_WRAPPER, arguments_of

_lock = threading.RLock()


def construct(node: Any, inputs: Sequence[Any], **changes: Any) -> Any:
    """The same map over another input, with its function as it was traced; `changes` replace
    constructor arguments. Call it inside `reused_functions()`.
    """
    names = list(inspect.signature(type(node).__init__).parameters)[2:]
    return type(node)(inputs[0], **{**arguments_of(node, names), **changes})


@contextlib.contextmanager
def reused_functions() -> Iterator[None]:
    """While open, TensorFlow's constructors take an already traced function where they would trace
    a Python function.

    Calls by other threads with Python functions pass through unchanged; the class is put back in
    any case.
    """
    with _lock:
        original = FUNCTION_WRAPPER.value

        def wrapper(func: Any, *args: Any, **kwargs: Any) -> Any:
            return func if isinstance(func, original) else original(func, *args, **kwargs)

        FUNCTION_WRAPPER.replace(wrapper)
        try:
            yield
        finally:
            FUNCTION_WRAPPER.replace(original)
