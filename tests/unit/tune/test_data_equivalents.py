"""TensorFlow operations named for what a Python function does with PIL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.tune.optimisations.by_hand import equivalents

Image = pytest.importorskip("PIL.Image")


def read_image(path: Any) -> Any:
    return np.asarray(Image.open(path).convert("RGB").resize((4, 4)), dtype=np.float32)


def decode(path: Any) -> Any:
    return [np.array(part) for part in [Image.open(path)]]


def opens(path: Any) -> Any:
    with open(path, "rb") as file:
        return np.asarray(file.read())


def test_the_operations_of_a_pil_function_are_named_in_its_order() -> None:
    said = equivalents(read_image)
    for part in (
        "tf.io.decode_jpeg(dct_method='INTEGER_ACCURATE')",
        "tf.image.resize(method='bicubic', antialias=True)",
        "tf.cast",
    ):
        assert part in said
    assert "resample differently" in said and "crop" not in said


def test_only_resampling_makes_other_pixels() -> None:
    assert "resample" not in equivalents(decode)


def test_nothing_is_said_of_a_function_without_pil() -> None:
    assert equivalents(opens) == "" == equivalents(len) == equivalents(None)
