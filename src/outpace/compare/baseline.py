# SPDX-License-Identifier: Apache-2.0
"""Baselines: one side of a comparison in a file that a repository can store, with its captures as
tables and without their profiles.

`docs/compare.md` describes the file. Each part stands on one line, and nothing in the file depends
on when or where it was written, so that equal captures give equal bytes and a diff shows only what
changed. Times are whole numbers of the largest unit that divides all of them, because profilers
count nanoseconds or less.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from outpace.compare.evidence import CALIBRATION_LOOPS, Machine
from outpace.compare.facts import EXAMPLES_FACT
from outpace.compare.sampled_lines import SampledLine
from outpace.compare.side import LOCATIONS, CaptureTimes, PartKey, Side
from outpace.model import Category, ProfileError
from outpace.model.arrays import Values
from outpace.model.codec import decode
from outpace.model.files import read_json, write_atomically
from outpace.model.input_files import BASELINE

FORMAT = 1
_MOST = 2**62  # largest time that a baseline may contain, ps


def write_baseline(side: Side, path: Path) -> None:
    """Write a side to a file."""
    with write_atomically(path, "The baseline") as file:
        file.write("".join(_lines(side)).encode("ascii"))


def read_baseline(path: Path, name: str = "") -> Side:
    """Read a side from a baseline file; its name is `name`, or the path where `name` is empty.

    Raises NotFoundError where the file does not exist, ProfileError where it is no baseline that
    can be read.
    """
    document = read_json(path, BASELINE)
    if not isinstance(document, dict) or "baseline" not in document:
        raise ProfileError(f"{path} is no baseline of Outpace. Save one with: outpace baseline save NAME PROFILE...")
    if document["baseline"] != FORMAT:
        raise ProfileError(
            f"{path} has format {document['baseline']!r:.20}, and this version of Outpace reads {FORMAT}. Save it again from its profiles."
        )
    try:
        return Side(name or str(path), tuple(_captures(document)), _facts(document["facts"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"{path} is damaged: {type(error).__name__}: {error}. Save it again from its profiles.") from error


def _facts(value: Any) -> dict[str, str]:
    facts: dict[str, str] = decode(dict[str, str], value)
    examples = facts.get(EXAMPLES_FACT, "")
    if examples and (not examples.isascii() or not examples.isdigit() or not int(examples[:18])):
        raise ValueError(f"a step has no {examples:.20} examples")
    return facts


def _lines(side: Side) -> Iterator[str]:
    """Yield the lines of the JSON document: one for each capture and one for each part. Names that
    are not valid Unicode are preserved by JSON escapes.
    """
    arrays = (
        times
        for capture in side.captures
        for times in (capture.step_ps, *capture.category_ps.values(), *capture.part_ps.values())
    )
    unit = int(np.gcd.reduce(np.rint(np.concatenate(list(arrays))).astype(np.int64)))

    def counts(times: Values) -> list[int]:
        return [int(count) for count in np.rint(times / unit).tolist()]

    yield f'{{"baseline":{FORMAT},\n"facts":{_json(dict(side.facts))},\n"unit_ps":{unit},\n"captures":[\n'
    yield ",\n".join(
        _json(
            {
                "steps": counts(capture.step_ps),
                "categories": {key.value: counts(times) for key, times in capture.category_ps.items()},
                "short": sorted(capture.short_parts),
                "hosts": [(host, len(list(steps))) for host, steps in groupby(capture.hosts)],
                "machine": {
                    "loops": {loop: round(ns) for loop, ns in capture.machine.loop_ns.items()},
                    "others": None if math.isnan(capture.machine.others_share) else round(capture.machine.others_share, 4),
                },
                "lines": [
                    [line.function, line.code, line.name, round(line.time_ps), round(line.error_ps)] for line in capture.lines
                ],
            }
        )
        for capture in side.captures
    )
    yield '\n],\n"parts":[\n'
    yield ",\n".join(
        _json([*part, *(counts(capture.part_ps[part]) if part in capture.part_ps else None for capture in side.captures)])
        for part in side.parts
    )
    yield "\n]}\n"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _captures(document: Mapping[str, Any]) -> Iterator[CaptureTimes]:
    """Yield the captures of a document. Raises TypeError, KeyError or ValueError where the document
    contains none that can be compared.
    """
    captures = decode(tuple[dict[str, Any], ...], document["captures"])
    if not captures:
        raise ValueError("it holds no capture")
    rows = decode(tuple[tuple[Any, ...], ...], document["parts"])
    parts = [decode(PartKey, row[:3]) for row in rows]
    if len(set(parts)) < len(parts):
        raise ValueError("a part is there twice")
    columns = list(zip(*(row[3:] for row in rows), strict=True)) if rows else [()] * len(captures)
    if not {part[0] for part in parts} <= LOCATIONS:
        raise ValueError("a part runs nowhere")
    unit = decode(int, document["unit_ps"])
    if not 1 <= unit < _MOST:
        raise ValueError("times have no unit")
    for capture, column in zip(captures, columns, strict=True):
        steps = _times(capture["steps"], unit)
        if not len(steps) or not steps.all():
            raise ValueError("a capture has no steps, or one that takes no time")
        categories = {key: _times(capture["categories"][key.value], unit, len(steps)) for key in Category}
        times = {part: _times(cell, unit, len(steps)) for part, cell in zip(parts, column, strict=True) if cell is not None}
        short = frozenset(decode(tuple[PartKey, ...], capture["short"]))
        hosts = decode(tuple[tuple[str, int], ...], capture.get("hosts", ()))
        if hosts and (min(count for _, count in hosts) < 1 or sum(count for _, count in hosts) != len(steps)):
            raise ValueError(f"there are hosts of another number of steps than {len(steps)}")
        step_hosts = tuple(host for host, count in hosts for _ in range(count))
        yield CaptureTimes(
            times, steps, categories, tuple(map(_line, capture["lines"])), short, _machine(capture.get("machine")), step_hosts
        )


def _machine(value: Any) -> Machine:
    """Decode what a capture recorded about its machine; files of versions before 0.3 record
    nothing.
    """
    if value is None:
        return Machine()
    loops = decode(dict[str, int], value["loops"])
    if any(loop not in CALIBRATION_LOOPS or ns <= 0 for loop, ns in loops.items()):
        raise ValueError("a loop is not known, or takes no time")
    others_share = decode(float | None, value["others"])
    if others_share is not None and not 0 <= others_share <= 1:
        raise ValueError("others use less than nothing of the machine, or more than all")
    return Machine(loops, math.nan if others_share is None else others_share)


def _line(value: Any) -> SampledLine:
    """Decode one sampled line of Python."""
    *names, time, error = decode(tuple[Any, ...], value)
    function, text, name = decode(tuple[str, str, str], names)
    return SampledLine(function, text, name, float(_times([time], 1)[0]), float(_times([error], 1)[0]))


def _times(value: Any, unit: int, steps: int | None = None) -> Values:
    """Decode a list of times in multiples of `unit` to picoseconds, one for each of
    `steps` steps.
    """
    if type(value) is not list or not {int}.issuperset(map(type, value)):
        raise TypeError(f"{value!r:.60} is no list of whole numbers")
    # only the extremes are decoded, because a list may have a million values
    if value and min(decode(int, extreme(value)) for extreme in (min, max)) < 0:
        raise ValueError(f"{min(value)} is no time")
    if steps is not None and len(value) != steps:
        raise ValueError(f"there are {len(value)} times of {steps} steps")
    if value and max(value) * unit >= _MOST:
        raise ValueError("a time is longer than can be counted")
    return np.array(value, np.float64) * unit
