# SPDX-License-Identifier: Apache-2.0
"""What a script imports, of the frameworks, and in which environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field

from outpace._dataclass import dataclass

FRAMEWORKS = ("tensorflow", "jax", "keras", "tf_keras")
_began: dict[str, str] = {}


@dataclass(frozen=True)
class Imports:
    """names: of frameworks, in the order in which the script imports them. changed: variables that
    it sets before the first of them; None for one that it takes away.
    """

    names: tuple[str, ...] = ()
    changed: Mapping[str, str | None] = field(default_factory=dict)


def script_begins() -> None:
    """The script begins now, in this environment."""
    _began.clear()
    _began.update(os.environ)


def runs_script() -> bool:
    """Whether it has begun."""
    return bool(_began)


def changed_by_script() -> dict[str, str | None]:
    """Variables that the environment has otherwise than when the script began."""
    changed: dict[str, str | None] = {name: value for name, value in os.environ.items() if _began.get(name) != value}
    return changed | dict.fromkeys(_began.keys() - os.environ.keys())
