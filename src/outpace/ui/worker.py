# SPDX-License-Identifier: Apache-2.0
"""The functions that run inside the workbench's analysis process, and their results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from outpace.hosts import worker_process as process

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.ui.part_choice import PartChoices
    from outpace.ui.run_summaries import RunSummary

_MOST_OPEN = 2  # maximum number of open profiles in one worker: the current report's and the previous one


class Worker(process.WorkerProcess):
    """A process that analyses runs for the workbench."""

    def __init__(self, low_priority: bool = False) -> None:
        super().__init__(low_priority, __name__)


def serve(connection: int, low_priority: int) -> None:
    """Run the analysis process: answer calls on `connection` until the parent process has gone."""
    from outpace import api

    api.load(None, "html")
    process.serve(connection, low_priority)


# open profiles, by folder and state; only in the worker's process
_open: OrderedDict[tuple[str, str], Profile] = OrderedDict()


def load_profile(folder: str, state: str) -> Profile:
    """Return the opened profile of a run, from the process's cache where possible; `state`
    identifies the version of the folder's files.
    """
    from outpace import api

    key = folder, state
    if key not in _open:
        for old in [old for old in _open if old[0] == folder]:
            _open.pop(old).close()
        while len(_open) >= _MOST_OPEN:
            _open.popitem(last=False)[1].close()
        _open[key] = api.open(folder)
    _open.move_to_end(key)
    return _open[key]


class OpenedReport(NamedTuple):
    """The result of an analysis.

    report: the report of a part of a run.
    choices: the parts of the run that a user can choose.
    summary: the run's summary, where no part was asked for; else None.
    hosts: the hosts on which the page opens by itself; "" for all.
    """

    report: Report
    choices: PartChoices
    summary: RunSummary | None
    hosts: str = ""


def open_report(folder: str, state: str, query: Mapping[str, str]) -> OpenedReport:
    """Return the report of the part that an address's query selects, and without a query of the
    part on which the run opens. Raises UsageError where the run has no such part.
    """
    from outpace import api
    from outpace.ui.first_part import open_first_part
    from outpace.ui.part_choice import build_choices

    profile = load_profile(folder, state)
    choices = build_choices(profile.run)
    if not query:
        first = open_first_part(profile, choices)
        return OpenedReport(first.report, choices, first.summary, first.hosts)
    part = choices.parse_part(query).select_from(profile.run)
    report = profile.report() if part is profile.run else api.Profile(part).report()
    return OpenedReport(report, choices, None)


def open_comparison(sides: Sequence[tuple[str, str, str]]) -> OpenedReport:
    """Return the comparison of two runs; each side is (name, folder, state of its files)."""
    from outpace.compare import Side, build_report, compare
    from outpace.ui.part_choice import NO_CHOICES

    one, two = (Side.from_runs(name, load_profile(folder, state).run) for name, folder, state in sides)
    report = build_report(compare(one, two))
    short = f"{report.headline.split(': ')[0].rstrip('.')}."
    # a short headline, because the page itself shows the whole sentence
    return OpenedReport(replace(report, headline=short), NO_CHOICES, None)


def open_preview(folder: str, state: str) -> OpenedReport:
    """Return the first part of a run's report, the picture of its step. `open_report` reuses the
    work that this costs.
    """
    from outpace.ui.part_choice import build_choices

    profile = load_profile(folder, state)
    return OpenedReport(profile.first_look(), build_choices(profile.run), None)
