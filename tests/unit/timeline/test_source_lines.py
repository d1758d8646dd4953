"""The source line of an op, by the frames that it was traced in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.source_lines import SourceLines

KERAS = "/v/lib/python3.11/site-packages/keras/src"
TRAINER, METRIC, LOSS = (f"{KERAS}/{name}.py" for name in ("backend/jax/trainer", "metrics/utils", "losses/losses"))
OPS, OWN, LAYERS = f"{KERAS}/ops/numpy.py", "/home/me/train.py", "/home/me/layers.py"


def find(*files: str) -> str:
    """The line of an op below these frames, outermost first; frame n is at line n."""
    parts = b"".join(encode_bytes(1, file) for file in files)
    parts += b"".join(encode_bytes(3, encode_integer(1, n) + encode_integer(3, n)) for n in range(1, len(files) + 1))
    parts += b"".join(encode_bytes(4, encode_integer(1, n) + encode_integer(2, n - 1)) for n in range(1, len(files) + 1))
    at: Any = SimpleNamespace(stack_frame_id=len(files), source_line=("", 0))
    return SourceLines(encode_bytes(17, parts), {}).find(at)


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ((OWN, LAYERS, OPS), f"{LAYERS}:2"),
        ((OWN, TRAINER, METRIC, OPS), f"{METRIC}:3"),
        ((OWN, TRAINER, LOSS, METRIC), f"{METRIC}:4"),
        ((OWN, TRAINER, OPS), f"{OWN}:1"),
        ((OWN, METRIC, OPS), f"{OWN}:1"),  # a loop of one's own calls the metric
        ((OWN, TRAINER, LAYERS, METRIC), f"{LAYERS}:3"),  # a layer of one's own does
        ((TRAINER, OPS), f"{OPS}:2"),
        ((), ""),
    ],
)
def test_in_keras_own_step_the_metric_or_loss_says_more_than_the_line_that_calls_fit(
    frames: tuple[str, ...], line: str
) -> None:
    assert find(*frames) == line
