# SPDX-License-Identifier: Apache-2.0
"""Recipes: code before and after for the changes that findings recommend, one text for reports and
for the documentation.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from outpace._lazy import compile_lazily

_FILE = Path(__file__).parent / "assets" / "recipes.md"
_PARTS = compile_lazily(r"^### (.+)\n(?:<!-- for: (.+) -->\n)?((?:(?!^##).*\n)+)", re.MULTILINE)
_BLOCK = compile_lazily(r"```python\n(.*?)```\n", re.DOTALL)


class Recipe(NamedTuple):
    """A recipe: its title, the short actions that it is for (`{}` stands for any words), its code,
    and what to know of it; "" where nothing is.
    """

    title: str
    actions: tuple[str, ...]
    code: str
    note: str

    def is_for(self, short: str) -> bool:
        """Return whether the recipe shows how to do what a finding says in short."""
        return any(re.fullmatch(re.escape(action).replace(r"\{\}", ".+"), short) for action in self.actions)


def read_page() -> str:
    """Return the text of the recipes' documentation page."""
    return _FILE.read_text(encoding="utf-8")


@cache
def read_recipes() -> tuple[Recipe, ...]:
    """Return all recipes, in the order of the page."""
    recipes = []
    for title, also, body in _PARTS.findall(read_page()):
        code = "\n".join(block.rstrip() for block in _BLOCK.findall(body))
        note = " ".join(_BLOCK.sub("", body).replace("`", "").split())
        recipes.append(Recipe(title, (title, *(each.strip() for each in also.split(";") if each.strip())), code, note))
    return tuple(recipes)


def find_recipe(short: str) -> Recipe | None:
    """Return the recipe for a finding's short action; None where there is none."""
    return next((recipe for recipe in read_recipes() if recipe.is_for(short)), None)
