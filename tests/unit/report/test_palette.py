from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from outpace.model import Category
from outpace.report import palette

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear RGB
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
SMALLEST_DISTANCE = 12.0  # CIE76; 2.3 is just noticeable


def linear(color: str) -> np.ndarray:
    value = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colors", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_any_two_categories_can_be_told_apart(colors: Mapping[str, str], vision: str) -> None:
    seen = {key: lab(VISION[vision] @ linear(color)) for key, color in colors.items()}
    distances = {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2)}
    assert min(distances.values()) > SMALLEST_DISTANCE, min(distances, key=distances.__getitem__)


def test_every_category_has_a_colour_in_both_variants() -> None:
    assert set(palette.LIGHT) == set(palette.DARK) == {c.value for c in Category}


@pytest.mark.parametrize("dark", [False, True])
def test_the_guide_s_meaning_is_kept(dark: bool) -> None:
    red = linear(palette.hex_color("input", dark=dark))
    green = linear(palette.hex_color("device_compute_32", dark=dark))
    assert red.argmax() == 0
    assert green.argmax() == 1


def test_key_of_prefers_the_chart_s_mapping_then_the_category_then_the_cycle() -> None:
    assert palette.color_key("Waiting", 3, {"Waiting": "input"}) == "input"
    assert palette.color_key("input_ps", 3, {}) == "input"
    assert palette.color_key("output", 3, {"output": "no such key"}) == "output"
    assert palette.color_key("MatMul", 3, {}) == "cycle-3"
    assert palette.hex_color(palette.color_key("x", len(palette.CYCLE), {})) == palette.CYCLE[0]
