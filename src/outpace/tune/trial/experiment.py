"""Experiments as JSON lines: one header, then one line per trial, sample and verdict. What is read back equals what was written."""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outpace.model.codec import decode, encode
from outpace.model.errors import NotFoundError, UsageError
from outpace.model.files import whole
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
    yield json.dumps({"kind": "experiment", "version": VERSION, **encode(header)}, ensure_ascii=False)
    for kind, (field, _) in _ROWS.items():
        for row in getattr(experiment, field):
            yield json.dumps({"kind": kind, **encode(row)}, ensure_ascii=False)


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> Path:
    """Write a record, whole or not at all; OutputError where that is not possible."""
    with whole(path, "The record") as file:
        file.write("".join(f"{line}\n" for line in lines_of(experiment)).encode("utf-8"))
    return Path(path)


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
        found[field].append(decode(kind, values))
    return typing.cast(Experiment, decode(Experiment, {**header, **found}))
