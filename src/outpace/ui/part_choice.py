# SPDX-License-Identifier: Apache-2.0
"""The part of a run that a page shows: its hosts, device and steps, selected by the query of the
page's address, and the parts that can be selected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import program_groups
from outpace.model import UsageError
from outpace.timeline.run_part import RunPart, StepRange, parse_step_range
from outpace.timeline.steps import Steps

if TYPE_CHECKING:
    from outpace.timeline import Run

ALL_HOSTS = "all"  # value of `hosts` for the whole run, where a page without it opens on one program

_QUERY_KEYS = ("hosts", "device", "steps")
_MOST_STEPS = 2_000  # maximum number of columns in the strip of steps; it shows the first ones


@dataclass(frozen=True)
class PartChoices:
    """The parts of a run that can be selected.

    hosts: names of the hosts.
    programs: for each program, the indices of its hosts.
    devices: names of the devices.
    steps: for each host, (number, duration in ps, whether it is excluded from means) of each step.
    """

    hosts: tuple[str, ...]
    programs: tuple[tuple[int, ...], ...]
    devices: tuple[str, ...]
    steps: tuple[tuple[tuple[int, int, bool], ...], ...]

    def parse_part(self, query: Mapping[str, str]) -> RunPart:
        """Return the part that a query selects. Raises UsageError where the query is not valid."""
        numbers = self._numbers(query.get("hosts", ""))
        device = query.get("device", "")
        return RunPart(tuple(self.hosts[number] for number in numbers), (device,) if device else (), _steps(query))

    def steps_of(self, hosts: str) -> tuple[tuple[int, int, bool], ...]:
        """Return the steps of the hosts that a query's `hosts` selects: those of the one with most
        of them.
        """
        return max((self.steps[number] for number in self._numbers(hosts) or range(len(self.steps))), key=len, default=())

    def _numbers(self, chosen: str) -> list[int]:
        """Return the indices of the hosts that a query's `hosts` names; none for all."""
        if chosen in ("", ALL_HOSTS):
            return []
        if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", chosen):
            raise UsageError(f"hosts={chosen!r} names no hosts: write their numbers, as in hosts=0,2.")
        numbers = [int(text) for text in chosen.split(",")]
        if any(number >= len(self.hosts) for number in numbers):
            raise UsageError(f"The run has {len(self.hosts)} hosts: hosts={chosen} names another one.")
        return numbers


def _steps(query: Mapping[str, str]) -> StepRange | None:
    """Return the steps that a query selects; None for all."""
    return parse_step_range(query["steps"]) if query.get("steps") else None


NO_CHOICES = PartChoices((), (), (), ())
"""The choices of a report that has no parts."""


def part_query(query: Mapping[str, str]) -> str:
    """Return the part of a query string that selects what is shown, for links; "" for the whole
    run.
    """
    return urlencode({name: query[name] for name in _QUERY_KEYS if query.get(name)})


def build_choices(run: Run) -> PartChoices:
    """Return the parts of a run that can be selected."""
    hosts = tuple(timeline.host for timeline in run.hosts)
    programs = tuple(tuple(hosts.index(host) for host in group) for group in program_groups(run).groups)
    devices = tuple(dict.fromkeys(plane.name for timeline in run.hosts for plane in timeline.device_planes))
    return PartChoices(hosts, programs, devices, tuple(_lengths(timeline.steps) for timeline in run.hosts))


def _lengths(steps: Steps) -> tuple[tuple[int, int, bool], ...]:
    """Return (number, duration in ps, whether excluded) of each step."""
    rows = zip(steps.number.tolist(), steps.duration.tolist(), steps.exclusions, strict=True)
    return tuple((number, length, bool(reason.value)) for number, length, reason in list(rows)[:_MOST_STEPS])


def build_part_view(choices: PartChoices, query: Mapping[str, str], first_hosts: str = "") -> dict[str, Any]:
    """Return the data for a page's head: the choices, and the selected part. first_hosts: the hosts
    on which the run's page opened by itself.
    """
    hosts, (first, last) = query.get("hosts", ""), _steps(query) or (None, None)
    host_options = [(str(index), name) for index, name in enumerate(choices.hosts)]
    whole = ALL_HOSTS if len(choices.programs) > 1 else ""
    steps = choices.steps_of(hosts)
    programs = _program_options(choices, first_hosts) if whole else []
    return {
        "query": part_query(query),
        "whole": whole,
        "hosts": _options(hosts, [*programs, *host_options]) if len(host_options) > 1 else [],
        "devices": _options(query.get("device", ""), [(name, name) for name in choices.devices])
        if len(choices.devices) > 1
        else [],
        "steps": steps if len(steps) > 1 else (),
        "first": "" if first is None else first,
        "last": "" if last is None else last,
        "part": part_query(query) not in ("", part_query({"hosts": whole})),
    }


def _program_options(choices: PartChoices, first_hosts: str) -> list[tuple[str, str]]:
    """Return (value, text) of each program; the one on which the page opened by itself says why."""
    options = []
    for index, group in enumerate(choices.programs):
        value = ",".join(map(str, group))
        names = ", ".join([*(choices.hosts[i] for i in group[:3]), *("…" for _ in group[3:4])])
        options.append((value, f"program {index + 1}{', most to gain' if value == first_hosts else ''} ({names})"))
    return options


def _options(chosen: str, options: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the entries of a list, each once: a program of one host is that host, whose own name
    is `name`.
    """
    texts, names = dict(options[::-1]), dict(options)
    return [{"value": value, "text": texts[value], "name": names[value], "chosen": value == chosen} for value in names]
