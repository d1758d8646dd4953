"""The tables of many runs, as files for other programs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from outpace import api
from outpace._dataclass import dataclass
from outpace.model import NotFoundError, Page, ProfileError, Table, UsageError
from outpace.model.redact import Redaction
from outpace.report import parquet as parquet_
from outpace.store.logdir import PROFILE_FOLDER, host_of, runs_at
from outpace.store.tree import is_url
from outpace.tools import find

Told = Callable[[str, int, int], object]
"""Hears the name of the run that is read now, its place from 1, and how many there are."""

_Parts = dict[tuple[str, str], list[Table]]  # by tool and name of the table


@dataclass(frozen=True)
class Exported:
    """`files`: what was written. `runs`: names of the runs whose rows stand in them. `remarks`: sentences on what is missing or doubtful.

    `failed`: pages of tools that raised, whose tables are missing.
    """

    files: tuple[Path, ...]
    runs: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    failed: tuple[Page, ...] = ()


def export(
    *paths: str | os.PathLike[str],
    parquet: str | os.PathLike[str],
    tables: Sequence[str] = (),
    progress: Told = lambda name, at, of: None,
    redact: bool = False,
) -> Exported:
    """Write every table of some runs into the folder `parquet`, one Parquet file per table, which holds the rows of all runs.

    A path is a profile, the folder of a run, or a log directory, of which all runs are taken. `tables` chooses some (`overview.steps`), or
    all of a tool (`overview`). `redact`: see `outpace.open`; runs are numbered, in the order of the paths. A run that
    cannot be read is left out, unless no other can. Raises UsageError for a table that no run has,
    OutpaceError where pyarrow is missing.
    """
    parquet_.needed()
    wanted = [_wanted(name) for name in tables]
    found = [place for path in paths for place in _places(path)]
    places = list({place if is_url(place) else os.path.realpath(place): place for place in found}.values())
    parts: _Parts = defaultdict(list)
    runs: list[str] = []
    remarks: list[str] = []
    failed: list[Page] = []
    redaction = Redaction() if redact else None
    names = names_of(places) if redaction is None else [f"run{at:0{len(str(len(places)))}}" for at in range(1, len(places) + 1)]
    for at, (place, name) in enumerate(zip(places, names, strict=True), 1):
        progress(name, at, len(places))
        try:
            profile = api.open(place, redact=redaction or False)
        except (ProfileError, NotFoundError) as error:
            if at == len(places) and not runs:
                raise
            remarks.append(f"{name} is left out: {error}" if redaction is None else f"{name} is left out.")
            continue
        with profile:
            remarks += [f"{name}: {warning}" for warning in profile.warnings]
            failed += _add(profile, name, wanted, parts)
        runs.append(name)
    _all_there(wanted, parts)
    return Exported(tuple(parquet_.write(parts, parquet)), tuple(runs), tuple(remarks), tuple(failed))


def names_of(places: Sequence[str]) -> list[str]:
    """What tells places apart: of each path what follows the folders that all share, without the ending of a profile; else the paths."""
    whole = [place if is_url(place) else Path(place).absolute().as_posix() for place in places]
    parts = [place.rstrip("/").replace(f"/{PROFILE_FOLDER}/", "/").split("/") for place in whole]
    folders = zip(*(part[:-1] for part in parts), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, folders))
    names = ["/".join((*part[shared:-1], host_of(part[-1]))) for part in parts]
    return names if len(set(names)) == len(names) else whole


def _places(path: str | os.PathLike[str]) -> Iterator[str]:
    """Folders of the runs at a path, oldest first; the path itself where it is a profile, or nothing, which opening it says."""
    try:
        yield from (run.folder for run in reversed(runs_at(path)))
    except NotFoundError:
        yield os.fspath(path)


def _wanted(name: str) -> tuple[str, str]:
    """The tool and the table that a name means, the table empty for all of the tool; UsageError for an unknown tool."""
    tool, _, table = name.partition(".")
    return find(tool).id, table


def _add(profile: api.Profile, name: str, wanted: Sequence[tuple[str, str]], parts: _Parts) -> list[Page]:
    """Add the tables of a run to those before; the pages of tools that raised."""
    hosts = profile.run.hosts
    pages = profile.pages(list(dict.fromkeys(tool for tool, _ in wanted)))
    for page in pages:
        for table in page.tables():
            if not wanted or {(page.id, ""), (page.id, table.name)} & set(wanted):
                parts[page.id, table.name].append(parquet_.of_run(table, name, hosts[0].host if len(hosts) == 1 else None))
    return [page for page in pages if page.failure is not None]


def _all_there(wanted: Sequence[tuple[str, str]], parts: _Parts) -> None:
    """UsageError where a table was asked for that no run has."""
    known = {*parts, *((tool, "") for tool, _ in parts)}
    missing = next((each for each in wanted if each not in known), None)
    if missing is not None:
        raise UsageError(
            f"No run here has a table {'.'.join(filter(None, missing))}. Leave --table out to see which there are, or give a tool alone."
        )
