# SPDX-License-Identifier: Apache-2.0
"""Tables of the start-up, from the capture's record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from outpace.metrics.source_line import format_source_line
from outpace.model import Row, Table
from outpace.store.startup import StartupKind
from outpace.timeline import Run
from outpace.tools.startup_time.schema import STARTUP_KINDS, STARTUP_PARTS

PS_PER_NS = 1000


def find_startups(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return the records of start-ups, by host."""
    return {host: record["startup"] for host, record in sorted(run.records.items()) if record.get("startup")}


def build_parts(startups: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return `STARTUP_PARTS`, the longest parts first."""
    return STARTUP_PARTS.build(row for host, startup in startups.items() for row in _iter_parts(host, startup)).sort_by(
        "duration_ps"
    )


def build_kinds(startups: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return `STARTUP_KINDS`, in the order of `StartupKind`."""
    rows = []
    for host, startup in startups.items():
        times = Counter[str]()
        for part in startup["parts"]:
            times[part["kind"]] += part["duration_ns"]
        whole_ns = own_duration_ns(startup)
        for kind in StartupKind:
            if kind is not StartupKind.OUTPACE and times[kind.value]:
                share = times[kind.value] / max(whole_ns, 1)
                rows.append(
                    STARTUP_KINDS.row(host=host, kind=kind.value, duration_ps=times[kind.value] * PS_PER_NS, share=share)
                )
    return STARTUP_KINDS.build(rows)


def own_duration_ns(startup: Mapping[str, Any]) -> int:
    """Return the length of the start-up without Outpace's own part, ns."""
    outpace_ns = sum(part["duration_ns"] for part in startup["parts"] if part["kind"] == StartupKind.OUTPACE.value)
    return int(startup["duration_ns"] - outpace_ns)


def _iter_parts(host: str, startup: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of `STARTUP_PARTS` of a host."""
    whole_ns = own_duration_ns(startup)
    for number, part in enumerate(startup["parts"]):
        is_own = part["kind"] == StartupKind.OUTPACE.value
        yield STARTUP_PARTS.row(
            host=host,
            number=number,
            kind=part["kind"],
            name=f"{part['library']}: {part['name']}" if part["library"] else part["name"],
            source=format_source_line(part["file"], part["line"]) if part["file"] else "",
            duration_ps=part["duration_ns"] * PS_PER_NS,
            share=float("nan") if is_own else part["duration_ns"] / max(whole_ns, 1),
            count=part["count"],
            cache_hits=part["hits"],
            cause=describe_change(part["before"], part["arguments"]),
            text=part["text"],
        )


def describe_change(before: Mapping[str, str] | None, arguments: Mapping[str, str] | None) -> str:
    """Return what a compilation differed in from the one before, in words; "" where nothing is
    known.
    """
    if before is None or arguments is None:
        return ""
    changed = [f"{name}: {before.get(name, 'nothing')} → {now}" for name, now in arguments.items()]
    return "; ".join(changed) or "the same arguments"
