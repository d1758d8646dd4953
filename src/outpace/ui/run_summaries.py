# SPDX-License-Identifier: Apache-2.0
"""Summaries of runs for the list: the bottleneck as a sentence, the step time, and what to change
first. Stored in the user's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace._version import __version__
from outpace.metrics.cluster.host_summary import host_summaries
from outpace.model.codec import decode
from outpace.model.files import parse_json, write_atomically
from outpace.model.input_files import VERDICT, read_file
from outpace.report.chart_data import compute_parts
from outpace.report.first_screen import build_first_screen, format_saving
from outpace.store.user_cache import user_cache

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.store.profiles import RunInfo
    from outpace.timeline import Run

_SAMPLE = 16  # size of a sample of names; a BLAKE2b digest has room for no more
_FEWEST = 8  # minimum number of names; with fewer, two programs may have the same ones by chance
_HALF, _EQUAL = 0.5, 15 / 16  # shares of what two runs execute


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run.

    headline: what bounds the run, as a sentence.
    step: the steady step in ps, 0 where there is none.
    change: what to change first, in short.
    saves: what that saves.
    script: the captured script with its arguments, "" where it is not known.
    ops: a sample of the names of what the run executes (see `same_program`), empty where that is
        little.
    details: the change as a paragraph.
    verdict: the headline in two words and a share; "" where no step tells.
    parts: (name, colour key, share) of each part of the step, in the order of the report's picture.
    saved_share: the most that the change saves, as a share of the step; 0 where it is not known.
    part: which of the run's programs this is a summary of; "" where it is of the whole run.
    error: why the run could not be read; all other fields are then empty.
    """

    headline: str = ""
    step: float = 0.0
    change: str = ""
    saves: str = ""
    script: str = ""
    ops: tuple[int, ...] = ()
    details: str = ""
    verdict: str = ""
    parts: tuple[tuple[str, str, float], ...] = ()
    saved_share: float = 0.0
    part: str = ""
    error: str = ""

    @once
    def program(self) -> str:
        """The script without its arguments; "" where it is not known."""
        try:
            return next(iter(shlex.split(self.script)), "")
        except ValueError:  # the text has an unclosed quote
            return self.script


def build_summary(profile: Profile, report: Report) -> RunSummary:
    """Return the summary of an opened run."""
    screen, run = build_first_screen(report), profile.run
    first = screen.changes[0] if screen.changes else None
    parts = compute_parts(screen.glance) if screen.glance is not None else ()
    summary = RunSummary(
        headline=screen.headline,
        verdict=report.verdict,
        parts=tuple((part.name, part.color_key, part.share) for part in parts if part.value > 0),
        step=screen.step_ps,
        script=run.script,
        ops=compute_op_sketch(run),
    )
    if first is None:
        return summary
    share = first.saving.high if first.saving is not None else 0.0
    return replace(
        summary,
        change=first.short,
        details=first.action,
        saves=format_saving(first, screen.step_ps),
        saved_share=share,
    )


def same_program(one: RunSummary, other: RunSummary, *, same_logdir: bool) -> bool:
    """Whether two runs are of one program, so that their step times can be compared.

    Where both scripts are known, they must be the same, and either at least half of what the runs
    execute is, or the runs lie in one log directory (`same_logdir`) and have the same arguments or
    too few samples to compare. Where a script is unknown, at least 15/16 of what the runs execute
    must be the same.
    """
    share = _share(one.ops, other.ops)
    if one.script and other.script:
        if one.program != other.program:
            return False
        if one.part or other.part:  # one program of several, whose script tells nothing
            return share is not None and share >= _HALF
        return same_logdir if share is None else share >= _HALF or (same_logdir and one.script == other.script)
    return share is not None and share >= _EQUAL


def _share(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Return the share of executed ops and functions that two runs have in common, estimated from
    their samples; None where one executes too little for an estimate.
    """
    if not one or not other:
        return None
    return sum(a == b for a, b in zip(one, other, strict=False)) / _SAMPLE


def compute_op_sketch(run: Run) -> tuple[int, ...]:
    """Return a sample of the names of the ops in which a run spends time, and of the functions
    that it calls.
    """
    facts = [digest.signature for digest in host_summaries(run)]
    executed = {name for signature in facts for name in (*signature.op_ps, *signature.functions)}
    return _sample(executed) if len(executed) >= _FEWEST else ()


def _sample(names: Iterable[str]) -> tuple[int, ...]:
    """Return the first name in each of several orders of all names: two sets have as large a share
    of these in common as of their names (MinHash, Broder 1997).
    """
    keys = [name.encode("utf-8", "surrogateescape") for name in names]
    orders = (hashlib.blake2b(key, digest_size=4 * _SAMPLE).digest() for key in keys)
    numbers = [[int.from_bytes(digest[i : i + 4], "big") for i in range(0, 4 * _SAMPLE, 4)] for digest in orders]
    return tuple(map(min, zip(*numbers, strict=True)))


class SummaryCache:
    """Summaries on disk, by run, state of its files, and version of Outpace. Where the cache
    cannot be written, summaries stay in memory only.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_cache() / "verdicts"
        self._summaries: dict[tuple[str, str], RunSummary | None] = {}
        self.version = 0  # incremented with each summary

    def get(self, run: RunInfo) -> RunSummary | None:
        """Return the summary of a run; None where there is none yet."""
        key = (run.folder, run.state)
        if key not in self._summaries:
            found = None
            with contextlib.suppress(OSError, ValueError, TypeError):
                found = decode(RunSummary, parse_json(read_file(self._folder / f"{_key(run)}.json", VERDICT)))
            self._summaries.setdefault(key, found)  # another thread may have read or put it meanwhile
        return self._summaries[key]

    def put(self, run: RunInfo, verdict: RunSummary) -> None:
        """Store a summary. Errors are stored in memory only, as long as the server runs, because
        another try may succeed.
        """
        self._summaries[run.folder, run.state] = verdict
        self.version += 1
        if not verdict.error:
            from outpace.model import OutputError

            with contextlib.suppress(OutputError), write_atomically(self._folder / f"{_key(run)}.json", "The verdict") as file:
                file.write(json.dumps(asdict(verdict)).encode("utf-8", "replace"))


def _key(run: RunInfo) -> str:
    """Return the name of the file with a run's summary."""
    return hashlib.sha256(f"{__version__}\n{run.folder}\n{run.state}".encode("utf-8", "surrogateescape")).hexdigest()[:40]
