"""The captures of a campaign as sides to compare.

Each profile is read once: what comparisons and the peers' rules ask of it is kept in OUT/read.
"""

from __future__ import annotations

import hashlib
import inspect
import multiprocessing
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from capture import rows

import outpace
from outpace.compare import Side
from outpace.metrics.model.op_metrics import DEVICE, op_metrics
from outpace.model import UsageError

READS = ("_native", "model", "store", "trace", "timeline", "metrics")  # what a side is made by: another one is read anew


@dataclass(frozen=True)
class Known:
    """One capture. row: as it was made. captures, facts: what a side has of it. steps: ps. device, host: self time of all ops of the whole
    capture there, ps; counts: executions by op."""

    row: dict[str, Any]
    captures: tuple[Any, ...]
    facts: dict[str, str]
    steps: np.ndarray
    device: float
    host: float
    counts: dict[tuple[str, str], int]


def side(name: str, parts: Sequence[Known]) -> Side:
    """A side of captures that were read before."""
    return Side(name, tuple(each for part in parts for each in part.captures), parts[0].facts)


def campaign(out: Path) -> list[Known]:
    """All captures of a campaign that have steps; the others are printed."""
    made = rows(out)
    folder = out / "read" / _version()
    folder.mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        found = pool.map(partial(_kept, out, folder), [row for row in made if not row["failed"]], chunksize=1)
    for row in [row for row in made if row["failed"]] + [known.row for known in found if not known.captures]:
        print(f"left out: {row['folder']}: {row['failed'] or 'no step'}")
    return [known for known in found if known.captures]


def _kept(out: Path, folder: Path, row: dict[str, Any]) -> Known:
    """A capture as it was read before, or now."""
    file = folder / f"{row['folder'].replace('/', '-')}-{row['began']}.pickle"
    if file.exists():
        known: Known = pickle.loads(file.read_bytes())
        return known
    known = _read(out, row)
    part = file.with_suffix(f".{os.getpid()}")  # whole or not at all, whoever reads at the same time
    part.write_bytes(pickle.dumps(known))
    part.replace(file)
    return known


def _read(out: Path, row: dict[str, Any]) -> Known:
    with outpace.open(out / row["folder"]) as profile:
        try:
            found = Side.of("", profile.run)
        except UsageError:  # it has no step
            return Known(row, (), {}, np.zeros(0), 0.0, 0.0, {})
        ops = [op for op in op_metrics(profile.run).records() if not op["idle"]]
        steps = np.concatenate([capture.steps for capture in found.captures])
        time = {of: sum(op["self_ps"] for op in ops if (op["side"] == DEVICE) == of) for of in (True, False)}
        counts = {(op["type"], op["name"]): op["count"] for op in ops}
        return Known(row, found.captures, dict(found.facts), steps, time[True], time[False], counts)


def _version() -> str:
    """What the code that reads profiles is, so that a change of it is seen."""
    package = Path(inspect.getfile(outpace)).parent
    files = [
        Path(inspect.getfile(Side)),
        *(file for folder in READS for file in sorted((package / folder).rglob("*.[ps][yo]"))),
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
