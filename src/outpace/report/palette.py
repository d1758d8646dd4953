# SPDX-License-Identifier: Apache-2.0
"""One colour per step-time category, the same in every renderer.

The base is the Okabe-Ito palette, with the guide's meaning kept: waiting for input is vermillion,
the device at work is green. Ten categories are more than Okabe-Ito's eight colours, so four were
searched for (the tests hold the distance between any two, also as seen with protanopia,
deuteranopia and tritanopia, above a limit). The dark variant moves only colours that would drown.
"""

from __future__ import annotations

from collections.abc import Mapping

from outpace.model import Category

LIGHT: Mapping[str, str] = {
    Category.COMPILATION.value: "#F0E442",
    Category.INPUT.value: "#D55E00",
    Category.OUTPUT.value: "#B0578C",
    Category.KERNEL_LAUNCH.value: "#E69F00",
    Category.HOST_COMPUTE.value: "#0072B2",
    Category.DEVICE_TO_DEVICE.value: "#56B4E9",
    Category.DEVICE_COLLECTIVES.value: "#222255",
    Category.DEVICE_COMPUTE_16.value: "#A6EBB0",
    Category.DEVICE_COMPUTE_32.value: "#009E73",
    Category.ALL_OTHERS.value: "#ACACAC",
}
"""Colour of each category key on a light background."""

DARK: Mapping[str, str] = {
    **LIGHT,
    Category.OUTPUT.value: "#CC79A7",
    Category.DEVICE_COLLECTIVES.value: "#7050D0",
    Category.DEVICE_COMPUTE_16.value: "#B5EFD9",
    Category.ALL_OTHERS.value: "#6C6C6C",
}
"""Colour of each category key on a dark background, and in terminals."""

CYCLE = ("#0072B2", "#E69F00", "#56B4E9", "#CC79A7", "#009E73", "#F0E442", "#D55E00", "#999999")
"""Colours of parts that are no category, in order of appearance. Plain blue comes first, red last:
red says "waiting" here.
"""

NO_NAME_KEY = Category.ALL_OTHERS.value
"""Colour key of items without a name: grey."""


OTHERS_KEY = f"cycle-{len(CYCLE) - 1}"
"""Colour key of the part that combines all others: grey."""


def color_key(name: str, position: int, colors: Mapping[str, str]) -> str:
    """Return the colour key of a part: its category key, or `cycle-N` for a part without one.

    `name` is looked up in `colors` (a chart's own mapping), then taken as a category key or a
    column `<key>_ps`.
    """
    for key in (colors.get(name, ""), name, name.removesuffix("_ps")):
        if key in LIGHT:
            return key
    return f"cycle-{position % len(CYCLE)}"


def hex_color(key: str, *, dark: bool = False) -> str:
    """Return the `#RRGGBB` of a key made by `color_key`."""
    if key in LIGHT:
        return (DARK if dark else LIGHT)[key]
    return CYCLE[int(key.removeprefix("cycle-"))]
