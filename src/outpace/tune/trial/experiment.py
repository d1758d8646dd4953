"""Experiments as JSON lines: one header, then one line per trial, sample and verdict. What is read back equals what was written."""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from outpace.model.errors import NotFoundError, OutputError, UsageError
from outpace.tune.trial.record import Experiment, Sample, Trial, Verdict

VERSION = 1
_ROWS: dict[str, tuple[str, type]] = {
    "trial": ("trials", Trial),
    "sample": ("samples", Sample),
    "verdict": ("verdicts", Verdict),
}


def lines_of(experiment: Experiment) -> Iterator[str]:
    """The lines of a record, without line ends."""
    rows = {field for field, _ in _ROWS.values()}
    header = {field.name: getattr(experiment, field.name) for field in dataclasses.fields(experiment) if field.name not in rows}
    yield json.dumps({"kind": "experiment", "version": VERSION, **_plain(header)}, ensure_ascii=False)
    for kind, (field, _) in _ROWS.items():
        for row in getattr(experiment, field):
            yield json.dumps({"kind": kind, **_plain(row)}, ensure_ascii=False)


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> Path:
    """Write a record, whole or not at all; OutputError where that is not possible."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text("".join(f"{line}\n" for line in lines_of(experiment)), encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise OutputError(f"The record cannot be written to {target}: {error.strerror}. Choose another place.") from error
    return target


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """The experiment of a record. Raises NotFoundError where there is none, UsageError where the file is something else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError(f"There is no record {path} ({error.strerror}). A race writes one with --out FILE.") from error
    except UnicodeDecodeError as error:
        raise UsageError(_no_record(path, "it is no text")) from error
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return _experiment(rows)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(_no_record(path, str(error) or type(error).__name__)) from error


def _no_record(path: object, why: str) -> str:
    return f"{path} is no record of a race that this version reads ({why}). Give a file that 'outpace race --out' wrote."


def _experiment(rows: list[dict[str, Any]]) -> Experiment:
    header = dict(rows[0])
    if header.pop("kind", None) != "experiment" or header.pop("version", None) != VERSION:
        raise ValueError("its first line is no header")
    found: dict[str, list[Any]] = {field: [] for field, _ in _ROWS.values()}
    for row in rows[1:]:
        values = dict(row)
        field, kind = _ROWS[values.pop("kind")]
        found[field].append(_build(kind, values))
    return typing.cast(Experiment, _build(Experiment, {**header, **found}))


def _plain(value: Any) -> Any:
    """JSON-ready values of dataclasses, enums, mappings and sequences."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _build(kind: type, values: Mapping[str, Any]) -> Any:
    """An instance of a dataclass from JSON values, as its annotations say."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _convert(hints[name], value) for name, value in values.items()})


def _convert(hint: Any, value: Any) -> Any:
    if value is None or dataclasses.is_dataclass(value):
        return value
    if isinstance(hint, types.UnionType):
        return _convert(next(part for part in typing.get_args(hint) if part is not type(None)), value)
    if typing.get_origin(hint) is tuple:
        return tuple(_convert(typing.get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _build(hint, value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value
