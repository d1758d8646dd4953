"""What the process that analyses for the workbench answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from outpace.hosts import worker as process

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.ui.parts import Choice
    from outpace.ui.verdicts import Verdict

_MOST_OPEN = 2  # profiles that a worker keeps open: a report's, and the one that was read before it


class Worker(process.Worker):
    """The process that analyses for the workbench."""

    def __init__(self, idle: bool = False) -> None:
        super().__init__(idle, __name__)


def serve(connection: int, idle: int) -> None:
    """The worker's process: answers until whoever asks has gone."""
    from outpace import api

    api.load(None, "html")
    process.serve(connection, idle)


_open: OrderedDict[tuple[str, str], Profile] = OrderedDict()  # in the worker's process


def profile(folder: str, state: str) -> Profile:
    """The opened profile of a run; `state` tells a folder whose files have changed from what it was."""
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


class Opened(NamedTuple):
    """A report of a part of a run, what there is to choose from, and of all of a run its verdict."""

    report: Report
    choice: Choice
    verdict: Verdict | None


def opened(folder: str, state: str, query: Mapping[str, str]) -> Opened:
    """The report that an address asks for. Raises UsageError where the run has no such part."""
    from outpace import api
    from outpace.ui.parts import choice
    from outpace.ui.verdicts import of

    whole = profile(folder, state)
    there = choice(whole.run)
    part = there.part(query).of(whole.run)
    if part is whole.run:
        report = whole.report()
        return Opened(report, there, of(whole, report))
    return Opened(api.Profile(part).report(), there, None)


def compared(sides: Sequence[tuple[str, str, str]]) -> Opened:
    """The comparison of two runs, each by its name, its folder and its state."""
    from outpace.compare import Side, compare, report_of
    from outpace.ui.parts import NOTHING

    one, two = (Side.of(name, profile(folder, state).run) for name, folder, state in sides)
    report = report_of(compare(one, two))
    short = f"{report.headline.split(': ')[0].rstrip('.')}."
    return Opened(replace(report, headline=short), NOTHING, None)  # the page says it in full


def glimpsed(folder: str, state: str) -> Opened:
    """What is known first of a run: the picture of its step. What it costs, `opened` then finds done."""
    from outpace.ui.parts import choice

    whole = profile(folder, state)
    return Opened(whole.first_look(), choice(whole.run), None)
