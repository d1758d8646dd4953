# SPDX-License-Identifier: Apache-2.0
"""Facade for the command line and notebooks: open a profile, get its pages, reports and files. The
module does no analysis of its own.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outpace._cpus import available_cpus
from outpace.advice import Ranking, build_headline, drop_unsupported_findings, rank_findings, suggest_commands
from outpace.hosts.host_reader import format_trace_warnings
from outpace.hosts.missing import missing_device_warnings
from outpace.hosts.open import MAX_FULL_HOSTS, open_run
from outpace.metrics.savings.budget import budgets
from outpace.model import Page, Report, ToolFailure, UsageError
from outpace.model.text import clean
from outpace.store.log_file import read_log
from outpace.store.logdir import find_profiles
from outpace.store.profile_source import ProfileSource
from outpace.store.profiles import ProfileFile
from outpace.timeline import Run
from outpace.timeline.run_part import RunPart, StepRange
from outpace.tools import Tool, discover_tools, require_tool
from outpace.tools.tool_methods import ToolMethods
from outpace.trace import MemoryLimit, ReadLimits, Window, parse_size, parse_window

if TYPE_CHECKING:
    from outpace.hosts.map import Mapper
    from outpace.model.redaction import Redaction
    from outpace.timeline.hlo.module import HloModule

_LONGEST = 300  # maximum length of a tool failure's message, in characters; its traceback is not cut


class Profile(ToolMethods):
    """An opened profile. Every tool is a method: `outpace.open(path).overview()` returns the tool's
    `Page`.

    A profile owns the decoded events and caches its results. `close()`, or the end of a `with`
    block, frees both; pages that were returned stay valid.

    older: number of older runs in the log directory that the profile was opened from.

    >>> with outpace.open("logs/run") as profile:
    ...     print(profile.report().headline)
    """

    def __init__(self, run: Run, older: int = 0, redaction: Redaction | None = None) -> None:
        self._run: Run | None = run
        self.older = older
        self._redaction = redaction
        self._pages: dict[str, Page] = {}
        self._repr = f"<outpace.Profile {run.source!r}: {run.events:,} events of {', '.join(t.host for t in run.hosts)}>"

    def __repr__(self) -> str:
        return self._repr if self._run is not None else f"{self._repr[:-1]}, closed>"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the report's summary, and every page folded."""
        from outpace.report.html import render_notebook

        return render_notebook(self.report())

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def run(self) -> Run:
        """The timelines of all hosts. Raises UsageError once the profile is closed."""
        if self._run is None:
            raise UsageError("The profile is closed. Open it again with outpace.open(path).")
        return self._run

    def close(self) -> None:
        """Free the events and all results that were computed from them; a second call does
        nothing.
        """
        self._run = None
        self._pages.clear()
        vars(self).pop("warnings", None)

    def page(self, tool: str, **options: Any) -> Page:
        """Return the page of the tool with the id `tool`. Raises UsageError for an unknown tool.

        `options` are passed to the tool's `analyse` function; `help` of it lists them.
        """
        registered = require_tool(tool)
        if options:
            return registered.analyse(self.run, **options)
        if registered.id not in self._pages:
            self._pages[registered.id] = registered.analyse(self.run)
        return self._pages[registered.id]

    def programs(self) -> dict[str, HloModule]:
        """Return the compiled programs of all hosts by name and number: `jit_step(8)`. Raises
        UsageError where the profile holds none.

        >>> text = "\\n".join(profile.programs()["jit_step(8)"].iter_text())
        """
        found: dict[str, HloModule] = {}
        for timeline in self.run.hosts:
            for number, name, module in timeline.hlo_modules.items():
                found.setdefault(f"{name}({number})", module)
        if not found:
            raise UsageError(
                f"{self.run.source} holds no compiled program: JAX compiles jitted functions, TensorFlow those with jit_compile=True, and "
                "the profiler keeps the programs that ran in a capture."
            )
        return found

    def part(self, *, hosts: Sequence[str] = (), devices: Sequence[str] = (), steps: StepRange | None = None) -> Profile:
        """Return a profile of some hosts, some devices (names of planes) and some steps.

        `steps` is (first, last) step number, both included; None means no bound. All tools of the
        returned profile analyse that part alone. Raises UsageError where the part is empty.
        """
        part = RunPart(tuple(hosts), tuple(devices), steps).select_from(self.run)
        return self if part is self.run else Profile(part, self.older, self._redaction)

    @functools.cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a reader must know first: lost bytes, messages of the profiler, doubtful
        hosts.
        """
        return (
            *self.run.remarks,
            *missing_device_warnings(self.run),
            *(w for t in self.run.hosts for w in format_trace_warnings(t.trace)),
        )

    def pages(self, tools: Sequence[str] | None = None) -> tuple[Page, ...]:
        """Return the pages of the named tools (all by default), computed in parallel on all cores.
        The page of a tool that raised has its `failure` set.
        """
        self.run.prepare()
        return _on_all_cores(self._page_or_failure, [require_tool(tool) for tool in tools] if tools else list(discover_tools()))

    @property
    def made(self) -> str:
        """Progress of a report as text for a reader: "5 of 14 tools"."""
        return f"{len(self._pages)} of {len(discover_tools())} tools"

    def report(self, tools: Sequence[str] | None = None) -> Report:
        """Return a report with the pages of the named tools (all by default) and ranked findings.

        All tools are run in every case, because each can change the saving and the severity of a
        finding: a report of one tool and a report of all tools state the same.
        """
        ids = [require_tool(tool).id for tool in tools or ()]
        ranking = self._rank(self.pages())
        pages, findings, struck = ranking.pages(), ranking.findings, ranking.struck
        commands = suggest_commands(self.run, pages, findings)
        if ids:
            stated = {f.key for page in ranking.stated if page.id in ids for f in page.findings}
            struck = tuple(f for f in struck if f.key in stated)
            pages = tuple(page for tool in ids for page in pages if page.id == tool)
            by_key = {f.key: f for page in pages for f in page.findings}
            # Findings that the ranking left out as symptoms of others follow the ranked ones
            findings = tuple(({f.key: f for f in findings if f.key in by_key} | by_key).values())
        headline, verdict = build_headline(self.run, pages, findings)
        return Report(self.run.source, headline, self.warnings, findings, pages, struck, commands, verdict=verdict)

    def first_look(self) -> Report:
        """Return a quick report: the page of the first tool, which has the picture of the step.

        It has no findings, because these depend on all tools.
        """
        self.run.prepare()
        page = self._page_or_failure(discover_tools()[0])
        pages = (replace(page, findings=()),)
        return Report(self.run.source, page.headline, self.warnings, (), pages, verdict=page.verdict)

    def report_of(self, page: Page) -> Report:
        """Return a report that holds only `page`, with its findings ranked."""
        ranking = self._rank((page,))
        pages, findings = ranking.stated, ranking.findings
        commands = suggest_commands(self.run, pages, findings)
        headline, verdict, struck = page.headline, page.verdict, ranking.struck
        return Report(self.run.source, headline, self.warnings, findings, pages, struck, commands, verdict=verdict)

    def html(self, path: str | os.PathLike[str], tools: Sequence[str] | None = None) -> Path:
        """Write the report of the named tools (all by default) as one offline HTML file; return the
        path.
        """
        from outpace.report import html

        return html.write(self.report(tools), Path(path))

    def _rank(self, pages: Sequence[Page]) -> Ranking:
        step_budgets = budgets(self.run)
        return rank_findings(drop_unsupported_findings(pages, step_budgets), step_budgets)

    def _page_or_failure(self, tool: Tool) -> Page:
        try:
            return self.page(tool.id)
        except (Exception, SystemExit) as error:
            message, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
            if self._redaction is not None:  # messages and tracebacks name files of this machine
                message, trace = map(self._redaction.redact_text, (message, trace))
            return tool.page(failure=ToolFailure(clean(message, _LONGEST), trace))


def open(
    source: ProfileSource,
    *,
    use_marks: bool = True,
    redact: bool | Redaction = False,
    window: str | Window | None = None,
    memory: str | int | None = None,
    on: Mapper | None = None,
) -> Profile:
    """Open a profile: the path or fsspec URL of a file, of a run folder or of a log directory (its
    newest run), or an object in memory.

    Objects in memory are bytes (any buffer, gzipped or not), a file object open for reading in
    binary mode, an `XSpace` message, and what profilers return: the bytes of
    `ProfilerSession.stop()` of JAX and TensorFlow, or a `jax.profiler.ProfileData`, which lacks the
    compiled programs.

    use_marks: False ignores step marks, so that steps come from step inference alone.
    redact: True replaces paths, hosts, users and the script's arguments by stand-ins; a `Redaction`
        gives the same names the same stand-ins in several profiles.
    window: part of the time to decode, measured from the earliest event of each host, as in
        `"1.2s:1.5s"`. The profile is the same as if only that part had been captured.
    memory: maximum memory of the fully decoded events of all hosts together, as in `"4GB"` or in
        bytes; by default there is no limit.
    on: where the hosts are read when there are very many, such as `outpace.ray.tasks`; by default
        in processes of this machine.

    Raises UsageError for an object of another type, NotFoundError where nothing exists,
    ProfileError where the data is no profile, and TooLargeError where its events need more memory
    than allowed.

    >>> profile = outpace.open("logs/run", window="1.2s:1.5s")
    """
    profiles = find_profiles(source)
    redaction = _new_redaction() if redact is True else redact or None
    part = parse_window(window, "window") if isinstance(window, str) else window
    max_bytes = parse_size(memory, "memory") if isinstance(memory, str) else memory
    limits = ReadLimits(part, MemoryLimit(max_bytes, min(len(profiles.files), MAX_FULL_HOSTS)))
    run, profiles = open_run(
        profiles,
        use_marks=use_marks,
        redaction=redaction,
        mapper=on,
        limits=limits,
        is_reopenable=_opens_again(profiles.files[0]),
    )
    return Profile(run, profiles.older, redaction)


def _new_redaction() -> Redaction:
    from outpace.model.redaction import Redaction  # few reports are redacted

    return Redaction()


def _opens_again(file: ProfileFile) -> bool:
    """Whether a command can open the source again, which is false for data in memory only."""
    return file.in_memory is None or os.path.isfile(file.path)


def is_stored(path: str) -> bool:
    """Whether a local file is a report stored as JSON."""
    from outpace.report.json_reader import is_report_file

    return is_report_file(path)


def stored(path: str | os.PathLike[str], tools: Sequence[str] | None = None) -> Report:
    """Return the report that is stored in a JSON file, with the pages of the named tools (all by
    default). Raises UsageError for a tool whose page is not stored there.
    """
    from outpace.report.json_reader import read_report

    return select_pages(read_report(Path(path)), path, tools)


def select_pages(report: Report, path: str | os.PathLike[str], tools: Sequence[str] | None) -> Report:
    """Return a report with the pages of the named tools (all by default). Raises UsageError for a
    tool whose page it does not have. path: what the report is about, for the error's words.
    """
    ids = {page.id for page in report.pages}
    chosen = [tool if tool in ids else require_tool(tool).id for tool in tools or ()]
    missing = [tool for tool in chosen if tool not in ids]
    if missing:
        raise UsageError(f"{path} holds no page of {', '.join(missing)}. There are: {', '.join(p.id for p in report.pages)}.")
    return replace(report, pages=tuple(map(report.page, chosen))) if chosen else report


def report_of_log(path: str, text: str = "", program: bytes = b"") -> Report | None:
    """Return the report about a local text file in which a program says why it ended, such as that
    memory ran out; None for any other file. text: its content, where that is known. program: the
    compiled program that ran (`HloProto`), where that is known.
    """
    text = text or read_log(path)
    pages = [page for tool in discover_tools() if text and (page := tool.of_log(text, program)) is not None]
    findings = tuple(finding for page in pages for finding in page.findings)
    return Report(path, pages[0].headline, (), findings, tuple(pages)) if pages else None


def load(tools: Sequence[str] | None, renderer: str) -> None:
    """Import the modules that every report needs: the renderer's, and those that each tool asks
    first, because each tool can change the findings. Raises UsageError where `tools` names an
    unknown tool.
    """
    for tool in tools or ():
        require_tool(tool)  # an unknown tool must be an error before any work is done
    importlib.import_module(f"outpace.report.{renderer}")
    for registered in discover_tools():
        registered.load_first()


def tools() -> tuple[Tool, ...]:
    """Return all analysis tools."""
    return discover_tools()


def _on_all_cores(page: Callable[[Tool], Page], tools: Sequence[Tool]) -> tuple[Page, ...]:
    """Return the pages of several tools, computed in parallel by threads: most of the work is in
    the core and in NumPy, which let other threads run.

    Threads take tools alternately from both ends of the list, because neighbouring tools often wait
    for the same derived table.
    """
    queue = [tools[place // 2] if place % 2 == 0 else tools[-1 - place // 2] for place in range(len(tools))][::-1]
    pages: dict[str, Page] = {}

    def work() -> None:
        while True:
            try:
                tool = queue.pop()
            except IndexError:  # another thread has taken the last one
                return
            pages[tool.id] = page(tool)

    threads = [threading.Thread(target=copy_context().run, args=(work,)) for _ in range(min(available_cpus(), len(tools)) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return tuple(pages[tool.id] for tool in tools)
