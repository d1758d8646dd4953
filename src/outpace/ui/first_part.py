# SPDX-License-Identifier: Apache-2.0
"""The part of a run that its page opens on, and its summary for the list of runs: all of it, or, of
several programs, the one with the most to gain, because no mean over unrelated programs says
anything of either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from outpace.ui.run_summaries import RunSummary, build_summary

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.ui.part_choice import PartChoices

_MOST_PROGRAMS = 8  # maximum number of programs whose reports are made to find the one with the most to gain


class FirstPart(NamedTuple):
    """What a run's page opens on.

    hosts: the query's `hosts` that selects it; "" for the whole run.
    report: its report.
    summary: its summary.
    """

    hosts: str
    report: Report
    summary: RunSummary


def open_first_part(profile: Profile, choices: PartChoices) -> FirstPart:
    """Return the part on which the page of an opened run opens.

    Of several programs it is the one whose first change may save the most time in all steps of its
    hosts; of equal ones, the one with the most time in steps. Of very many, only those with the
    most time in steps are looked at.
    """
    if len(choices.programs) < 2:
        report = profile.report()
        return FirstPart("", report, build_summary(profile, report))
    stepping = [_steps_ps(profile, program) for program in choices.programs]
    longest = sorted(range(len(choices.programs)), key=lambda number: -stepping[number])[:_MOST_PROGRAMS]
    found = [(stepping[number], _open_program(profile, choices, number)) for number in longest]
    return max(found, key=lambda each: each[1].summary.saved_share * each[0])[1]


def _steps_ps(profile: Profile, program: tuple[int, ...]) -> float:
    """Return the time in ps of all steps of a program's hosts."""
    return float(sum(profile.run.hosts[index].steps.duration.sum() for index in program))


def _open_program(profile: Profile, choices: PartChoices, number: int) -> FirstPart:
    program = choices.programs[number]
    part = profile.part(hosts=[choices.hosts[index] for index in program])
    report = part.report()
    summary = replace(build_summary(part, report), part=f"program {number + 1} of {len(choices.programs)}")
    return FirstPart(",".join(map(str, program)), report, summary)


def summarize_run(folder: str) -> RunSummary:
    """Return the summary of a run that nobody has opened; runs in a worker process, and leaves no
    profile open.
    """
    from outpace import api
    from outpace.ui.part_choice import build_choices

    with api.open(folder) as profile:
        return open_first_part(profile, build_choices(profile.run)).summary
