# SPDX-License-Identifier: Apache-2.0
"""Python that a compiled program calls back while it runs: `jax.pure_callback` and the like, and
`tf.py_function`.

A profile shows such a call as one op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from outpace.frameworks.jax import CALLBACK_FILE
from outpace.frameworks.tensorflow import PYTHON_OPS_FILE
from outpace.metrics.source_line import format_source_line
from outpace.timeline import Run

_CALLBACK_FILES = (CALLBACK_FILE, PYTHON_OPS_FILE)


def find_callback_line(run: Run, host: str) -> tuple[str, str, float, float]:
    """Return (source, function, weight, weight of all lines) of the user's line with most callback
    samples.

    The samples are those of the training thread or, where no callback ran there, of the other
    threads. Return ("", "", 0, 0) where no callback was sampled.
    """
    samples = (run.record(host) or {}).get("python_samples") or {}
    of_training = ((stack, weight) for _, weight, stack in samples.get("samples") or ())
    of_others = ((stack, count) for thread in samples.get("others") or () for stack, count in thread["stacks"])
    for stacks in (of_training, of_others):
        met = _callback_weights(samples, stacks)
        if met:
            (file, line, function), weight = met.most_common(1)[0]
            return format_source_line(file, line), function, float(weight), float(met.total())
    return "", "", 0.0, 0.0


def _callback_weights(samples: dict[str, Any], stacks: Iterable[tuple[int, int]]) -> Counter[tuple[str, int, str]]:
    """Return the weight of each (file, line, function) of the user's that is innermost below a
    callback.
    """
    met: Counter[tuple[str, int, str]] = Counter()
    for stack, weight in stacks:
        places = [(samples["frames"][frame], line) for frame, line in samples["stacks"][stack]]
        begun = next((at for at, (frame, _) in enumerate(places) if frame[0].endswith(_CALLBACK_FILES)), len(places))
        user_place = next(((frame, line) for frame, line in reversed(places[begun:]) if not frame[3]), None)
        if user_place is not None:
            met[user_place[0][0], user_place[1], user_place[0][1]] += weight
    return met
