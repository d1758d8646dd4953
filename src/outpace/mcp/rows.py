# SPDX-License-Identifier: Apache-2.0
"""Filters, sorts and formats the rows of a table for an answer."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from outpace.mcp.answers import Cell
from outpace.model import Table, UsageError
from outpace.model.text import clean, format_suggestion, shorten
from outpace.report.json_ import encode_cell

_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|!=|=|>|<|~)\s*(.*?)\s*")
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_LONGEST = 120  # maximum length of a cell, characters


def select_rows(table: Table, where: Sequence[str], sort: str) -> Table:
    """Return the rows that pass every condition (`self_ps > 1e9`, `type = MatMul`, `name ~
    dense`), largest first by the column `sort` (smallest first with a leading `-`). Raises
    UsageError for an unknown column or an invalid condition.
    """
    for condition in where:
        table = table.take(np.flatnonzero(_passes(table, condition)))
    if not sort:
        return table
    return table.sort_by(require_column(table, sort.lstrip("-")), descending=not sort.startswith("-"))


def require_column(table: Table, name: str) -> str:
    """Return the column's name. Raises UsageError, with similar names, where the table has no such
    column.
    """
    if name not in table:
        names = [field.name for field in table.fields]
        raise UsageError(
            f"The table {table.name} has no column {name!r}.{format_suggestion(name, names)} There are: {', '.join(names)}."
        )
    return name


def format_cells(table: Table, columns: Sequence[str]) -> list[list[Cell]]:
    """Return the cells of these columns: whole numbers unchanged, others to six digits, texts to
    120 characters.
    """
    return [[_cell(value) for value in row] for row in zip(*(table[name].tolist() for name in columns), strict=True)]


def _cell(value: object) -> Cell:
    """Return the value of a cell, rounded or shortened."""
    cell: Cell = encode_cell(value)
    if isinstance(cell, float):
        return float(f"{cell:.6g}")
    return shorten(clean(cell, _LONGEST), _LONGEST) if isinstance(cell, str) else cell


def _passes(table: Table, condition: str) -> list[bool]:
    """Return for each row whether it passes a condition. Raises UsageError for an invalid
    condition.
    """
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise UsageError(
            f"{condition!r} is no condition. Write one as 'column > 5', 'column = text' or 'column ~ part of a text'."
        )
    name, sign, operand = match.groups()
    values = table[require_column(table, name)].tolist()
    if sign == "~":
        return [operand.lower() in str(value).lower() for value in values]
    if sign in ("=", "!="):
        return [(_equals(value, operand)) == (sign == "=") for value in values]
    number = _number(operand)
    if number is None:
        raise UsageError(f"{condition!r} compares with {operand!r}, which is no number.")
    return [isinstance(value, (int, float)) and _ORDERS[sign](value, number) for value in values]


def _equals(value: object, text: str) -> bool:
    """Whether a value equals a text, as text or as a number."""
    number = _number(text)
    return str(value) == text or (isinstance(value, (int, float)) and number is not None and value == number)


def _number(text: str) -> float | None:
    """Return the number that a text stands for; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None
