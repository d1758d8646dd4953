"""A report from its JSON: what `report --json` printed is shown, rendered and exported again, without the profile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from outpace.model import (
    Chart,
    Command,
    Failure,
    Field,
    Figure,
    Finding,
    NotFoundError,
    Page,
    ProfileError,
    Report,
    Saving,
    Table,
    Unavailable,
    Unit,
)
from outpace.model.codec import decode
from outpace.report.json_ import SCHEMA, SECTIONS

_HEAD = 64
_BEGINNING = re.compile(rb'\s*\{\s*"schema"\s*:')  # also as `jq` writes it


def is_stored(path: str) -> bool:
    """Whether a local file begins as a stored report does. Others (traces of other profilers are JSON too) are named by who opens profiles."""
    try:
        with open(path, "rb") as file:
            return _BEGINNING.match(file.read(_HEAD)) is not None
    except OSError:
        return False


def load(path: Path) -> Report:
    """The report in the file at `path`. NotFoundError where there is none, ProfileError where it is no report of this schema."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path} is no JSON: {error}.") from error
    if not isinstance(document, dict) or not {"schema", "tools"} <= document.keys():
        raise ProfileError(f"{path} is no report of Outpace. Make one with: outpace report PROFILE --json > report.json")
    if document["schema"] != SCHEMA:
        raise ProfileError(
            f"{path} has schema {document['schema']}, and this version of Outpace reads {SCHEMA}. "
            "Make it again from the profile, or use the version that wrote it."
        )
    try:
        return report_of(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(f"{path} is damaged: {type(error).__name__}: {error}. Make it again from the profile.") from error


def report_of(document: Mapping[str, Any]) -> Report:
    """The report that `json_.document` describes; missing numbers stay missing."""
    return Report(
        source=document["source"],
        headline=document["headline"],
        warnings=tuple(document["warnings"]),
        findings=_value(tuple[Finding, ...], document["findings"]),
        pages=tuple(_page(tool, page) for tool, page in document["tools"].items()),
        struck=_value(tuple[Finding, ...], document["struck"]),
        next=_value(tuple[Command, ...], document.get("next", [])),
    )


def _page(tool: str, page: Mapping[str, Any]) -> Page:
    tables = {name: _table(name, table) for name, table in page["tables"].items()}
    glance = None if page["glance"] is None else _value(Chart, page["glance"], tables)
    sections = tuple(_value(SECTIONS[section["section"]], section, tables) for section in page["sections"])
    shown = {picture.table.name for picture in (glance, *sections) if hasattr(picture, "table")}
    return Page(
        id=tool,
        title=page["title"],
        question=page["question"],
        headline=page["headline"],
        sections=sections,
        findings=_value(tuple[Finding, ...], page["findings"]),
        hidden_tables=tuple(table for name, table in tables.items() if name not in shown),
        unavailable=_value(Unavailable | None, page["unavailable"]),
        glance=glance,
        evidence=tuple(page["evidence"]),
        failure=_value(Failure | None, page["failure"]),
        key_figures=_value(tuple[Figure, ...], page.get("key_figures", [])),
    )


def _table(name: str, table: Mapping[str, Any]) -> Table:
    fields = tuple(Field(c["name"], Unit(c["unit"]), c["meaning"], c["label"]) for c in table["columns"])
    columns = zip(*table["rows"], strict=True) if table["rows"] else ((),) * len(fields)
    return Table(name, table["title"], fields, tuple(_column(values) for values in columns))


def _column(values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """A column of the type that it was written with: whole numbers stay whole, missing ones NaN among fractions and None elsewhere."""
    kinds = {type(value) for value in values}
    if kinds == {bool} or (kinds == {int} and all(value < 2**63 for value in values)):
        return np.array(values)
    if float in kinds and kinds <= {float, NoneType}:
        return np.array([np.nan if value is None else value for value in values])
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _value(kind: Any, value: Any, tables: Mapping[str, Table] | None = None) -> Any:
    return decode(kind, value, {Table: (tables or {}).__getitem__, Saving: _saving})


def _saving(value: Mapping[str, Any]) -> Saving:
    return Saving(
        value["low"], value["high"], tuple(value["takes_from"]), value["assumes"], value["step_ps"] or 0.0, value["base"]
    )
