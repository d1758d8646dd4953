# SPDX-License-Identifier: Apache-2.0
"""Export of the tables of many runs as files for other programs."""

from __future__ import annotations

import datetime
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from outpace import api
from outpace._dataclass import dataclass
from outpace.compare.facts import EXAMPLES_FACT, compute_facts
from outpace.metrics.facts.workload import find_workload
from outpace.model import NotFoundError, Page, ProfileError, Report, Table, TableType, UsageError
from outpace.model.redaction import Redaction
from outpace.report import parquet as parquet_
from outpace.report.first_screen import build_first_screen
from outpace.store.atomic_folder import write_folder_atomically
from outpace.store.logdir import PROFILE_FOLDER, find_runs, host_of
from outpace.store.tree import is_url
from outpace.tools import require_tool

ProgressCallback = Callable[[str, int, int], object]
"""Called with the name of the run being read, its position from 1, and the number of runs."""

# Parts of a table, one per run, by (id of the tool, name of the table); the id is empty for tables
# of `RUN_TABLES`
_Parts = dict[tuple[str, str], list[Table]]

RUN_TABLES = ("runs", "findings")
"""Tables that belong to no tool."""

_VERSIONS = ("tensorflow", "keras", "jax", "jaxlib", "cuda")
_RUNS = TableType("runs", "Runs", shared=(parquet_.RUN_FIELD,)).columns("""
        run
        source         | text     | where the run was read
        captured       | text     | when it was captured, as ISO 8601 writes it: by the capture's record, else by the name of its folder
        framework      | text     | whose training it is: Keras, TensorFlow, JAX, Keras on JAX, or unknown
        program        | text     | the kind of program, in words
        script         | text     | the script, where Outpace captured it
        arguments      | text     | the script's arguments, with dots for keys and passwords
        tensorflow     | text     | version of TensorFlow
        keras          | text     | version of Keras
        jax            | text     | version of JAX
        jaxlib         | text     | version of jaxlib
        cuda           | text     | version of CUDA
        python         | text     | version of Python
        captured_with  | text     | version of Outpace that captured it
        outpace        | text     | version of Outpace that says all this
        hosts          | count    | hosts with steps, of the same program
        devices        | text     | accelerators of the first host
        device_model   | text     | what these are
        cores          | count    | cores that the process could use
        examples       | count    | examples of a step
        steps          | count    | steps of the first host with some, as many as were captured whole
        steps_found_by | text     | how its steps were found
        step_ps        | ps       | the steady step, as the report draws it
        headline       | text     | the one sentence to take away
        finding        | text     | rule of the first thing to change
        finding_says   | text     | what is the case
        finding_asks   | text     | what to do about it
        saving_low     | fraction | share of the steady step that this saves: the lower end of a prediction; 0 of a bound
        saving_high    | fraction | the upper end, or the bound ("at most")
        warnings       | count    | what a reader must know first, in sentences
""")
_FINDINGS = TableType("findings", "Findings").columns("""
    * place       | count    | place in the order of what to change first, from 1
    rule          | text     | the rule's name
    severity      | text     | high, moderate, potential or info
    certainty     | text     | how sure it is that this is the cause: certain, likely or possible
    effort        | text     | what it asks for: small, medium or large
    says          | text     | what is the case
    asks          | text     | what to do about it
    location      | text     | the line of the source, where it is known
    host          | text     | the host, where it speaks of one
    saving_low    | fraction | share of the steady step that this saves: the lower end of a prediction; 0 of a bound
    saving_high   | fraction | the upper end, or the bound ("at most")
    assumes       | text     | under which assumption
    caveats       | text     | what limits it
""")


@dataclass(frozen=True)
class Exported:
    """Result of an export.

    files: paths of the files that were written.
    runs: names of the runs whose rows are in the files.
    remarks: sentences on what is missing or doubtful.
    failed: pages of tools that raised, whose tables are missing.
    """

    files: tuple[Path, ...]
    runs: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    failed: tuple[Page, ...] = ()


def export(
    *paths: str | os.PathLike[str],
    parquet: str | os.PathLike[str],
    tables: Sequence[str] = (),
    progress: ProgressCallback = lambda name, at, of: None,
    redact: bool = False,
) -> Exported:
    """Write every table of some runs into the folder `parquet`: one Parquet file per table, with
    the rows of all runs. The tables `runs` and `findings` describe each run and its findings.

    The folder appears complete, in place of an earlier export, or not at all.

    paths: profiles, run folders, or log directories, of which all runs are exported.
    tables: names of tables (`overview.steps`, `runs`) or tools (`overview`) to export; all by
        default.
    progress: see `ProgressCallback`.
    redact: see `outpace.open`; the runs are then named by their number in the order of the paths.

    A run that cannot be read is left out, unless no run can be read. Raises UsageError for a table
    that no run has, OutputError where the folder cannot be written or holds something else than an
    export, OutpaceError where pyarrow is missing.

    >>> outpace.export("logs", parquet="tables", tables=["overview.steps"])
    """
    parquet_.require_pyarrow()
    requests = [_parse_request(name) for name in tables]
    with write_folder_atomically(parquet, "The tables", parquet_.is_export) as folder:
        exported = _export_runs(paths, folder, requests, progress, redact)
    return replace(exported, files=tuple(Path(parquet) / path.name for path in exported.files))


def _export_runs(
    paths: Sequence[str | os.PathLike[str]],
    folder: Path,
    requests: Sequence[tuple[str, str]],
    progress: ProgressCallback,
    redact: bool,
) -> Exported:
    sources = [place for path in paths for place in _places(path)]
    places = list({place if is_url(place) else os.path.realpath(place): place for place in sources}.values())
    parts: _Parts = defaultdict(list)
    runs: list[str] = []
    remarks: list[str] = []
    failed: list[Page] = []
    redaction = Redaction() if redact else None
    names = (
        unique_run_names(places)
        if redaction is None
        else [f"run{number:0{len(str(len(places)))}}" for number in range(1, len(places) + 1)]
    )
    for number, (place, name) in enumerate(zip(places, names, strict=True), 1):
        progress(name, number, len(places))
        try:
            profile = api.open(place, redact=redaction or False)
        except (ProfileError, NotFoundError) as error:
            if number == len(places) and not runs:
                raise
            remarks.append(f"{name} is left out: {error}" if redaction is None else f"{name} is left out.")
            continue
        with profile:
            remarks += [f"{name}: {warning}" for warning in profile.warnings]
            failed += _add(profile, name, requests, parts)
        runs.append(name)
    _require_tables(requests, parts)
    return Exported(tuple(parquet_.write(parts, folder)), tuple(runs), tuple(remarks), tuple(failed))


def unique_run_names(paths: Sequence[str]) -> list[str]:
    """Return a unique name per path: the part after the folders that all paths share, without the
    ending of a profile; the absolute paths themselves where these names are not unique.
    """
    whole = [place if is_url(place) else Path(place).absolute().as_posix() for place in paths]
    parts = [place.rstrip("/").replace(f"/{PROFILE_FOLDER}/", "/").split("/") for place in whole]
    folders = zip(*(part[:-1] for part in parts), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, folders))
    names = ["/".join((*part[shared:-1], host_of(part[-1]))) for part in parts]
    return names if len(set(names)) == len(names) else whole


def _places(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the folders of the runs at a path, oldest first; the path itself where it is a profile
    or does not exist (opening it then raises the error).
    """
    try:
        yield from (run.folder for run in reversed(find_runs(path)))
    except NotFoundError:
        yield os.fspath(path)


def _parse_request(name: str) -> tuple[str, str]:
    """Return (tool id, table name) for a name of `export(tables=...)`. The table name is empty
    where all tables of a tool are wanted, the tool id where it is a table of `RUN_TABLES`. Raises
    UsageError for an unknown tool.
    """
    if name in RUN_TABLES:
        return "", name
    tool, _, table = name.partition(".")
    return require_tool(tool).id, table


def _add(profile: api.Profile, name: str, requests: Sequence[tuple[str, str]], parts: _Parts) -> list[Page]:
    """Append the tables of a run to `parts`; return the pages of tools that raised."""
    hosts = profile.run.hosts
    host = hosts[0].host if len(hosts) == 1 else None
    tools = list(dict.fromkeys(tool for tool, _ in requests if tool))
    pages = profile.pages(tools) if tools or not requests else ()
    for page in pages:
        for table in page.tables():
            if not requests or {(page.id, ""), (page.id, table.name)} & set(requests):
                parts[page.id, table.name].append(parquet_.add_run_columns(table, name, host))
    if not requests or any(not tool for tool, _ in requests):
        report = profile.report()
        pages = pages or report.pages
        run_tables = {
            "runs": _run_table(profile, name, report),
            "findings": parquet_.add_run_columns(_findings(report), name, host),
        }
        for table_name, table in run_tables.items():
            if not requests or ("", table_name) in requests:
                parts["", table_name].append(table)
    return [page for page in pages if page.failure is not None]


def _run_table(profile: api.Profile, name: str, report: Report) -> Table:
    """Return the table `runs` with one row, which describes this run."""
    run = profile.run
    facts, screen = compute_facts(run), build_first_screen(report)
    record = next((details for details in run.records.values() if details), {})
    first = screen.changes[0] if screen.changes else None
    saving = first.saving if first is not None else None
    stepping = next((timeline for timeline in run.hosts if len(timeline.steps)), None)
    row: dict[str, Any] = {
        "run": name,
        "source": run.source,
        "captured": str(record.get("created") or "") or _time_of(run.source),
        "framework": find_workload(run).framework.value,
        **{fact: facts.get(fact) for fact in ("program", "script", "arguments", *_VERSIONS)},
        "python": facts["Python"],
        "captured_with": record.get("outpace"),
        "outpace": facts["Outpace"],
        "hosts": _number(facts["hosts"]),
        "devices": facts["devices"],
        "device_model": facts["device model"],
        "cores": _number(facts["cores"]),
        "examples": _number(facts[EXAMPLES_FACT]),
        "steps": len(stepping.steps.complete_rows) if stepping is not None else 0,
        "steps_found_by": facts["steps found by"],
        "step_ps": screen.step_ps or None,
        "headline": report.headline,
        "finding": first.id if first is not None else None,
        "finding_says": first.sentence if first is not None else None,
        "finding_asks": first.action if first is not None else None,
        "saving_low": saving.low if saving is not None else None,
        "saving_high": saving.high if saving is not None else None,
        "warnings": len(report.warnings),
    }
    return _RUNS.build([{name: None if value == "" else value for name, value in row.items()}])


def _findings(report: Report) -> Table:
    """Return the table `findings` of a report, one row per finding in the report's order."""
    rows = [
        _FINDINGS.row(
            place=place,
            rule=finding.id,
            severity=finding.severity.value,
            certainty=finding.certainty.value,
            effort=finding.effort.value,
            says=finding.sentence,
            asks=finding.action,
            location=finding.location or None,
            host=finding.host or None,
            saving_low=finding.saving.low if finding.saving is not None else None,
            saving_high=finding.saving.high if finding.saving is not None else None,
            assumes=finding.saving.assumes if finding.saving is not None else None,
            caveats="; ".join(finding.counter_evidence) or None,
        )
        for place, finding in enumerate(report.findings, start=1)
    ]
    return _FINDINGS.build(rows)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _time_of(source: str) -> str:
    """Return the time in the name of a run's folder (in the format of TensorFlow and Outpace) as
    ISO 8601; empty where there is none.
    """
    times = re.findall(r"(?<!\d)(\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)(?!\d)", source)
    try:
        return datetime.datetime.strptime(times[-1], "%Y_%m_%d_%H_%M_%S").isoformat() if times else ""
    except ValueError:  # the digits are no valid date
        return ""


def _require_tables(requests: Sequence[tuple[str, str]], parts: _Parts) -> None:
    """Raise UsageError where a requested table exists in no run."""
    names = {*parts, *((tool, "") for tool, _ in parts)}
    missing = next((request for request in requests if request not in names), None)
    if missing is not None:
        raise UsageError(
            f"No run here has a table {'.'.join(filter(None, missing))}. Leave --table out to see which there are, or give a tool alone."
        )
