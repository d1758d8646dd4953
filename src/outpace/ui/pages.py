# SPDX-License-Identifier: Apache-2.0
"""Renders the workbench's own pages: the list of runs, and two runs side by side. Texts of runs
are cleaned here; templates escape them.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from outpace.model import Unit
from outpace.model.text import clean, clean_prose, format_cell
from outpace.report import html
from outpace.report.html_data import embed_json
from outpace.ui import run_summaries
from outpace.ui.folders import resolve_path
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import ListedRun
from outpace.ui.trainings import TrainingFile

_ASSETS = Path(__file__).parent / "assets"
_PROGRAMS = 30  # number of recent programs among which a run's previous run is searched
_SAME = 0.01  # fraction of the step time below which a difference is reported as the same


def render_run_list(roots: Sequence[str], can_capture: bool) -> str:
    """Render the list of runs, whose lines come from `build_run_lines`; with a capture dialog
    where `can_capture` is set.
    """
    return (
        html.template_environment(_ASSETS)
        .get_template("runs.html.j2")
        .render(roots=[clean(root) for root in roots], captures=can_capture)
    )


def render_side_by_side(left: ListedRun, right: ListedRun) -> str:
    """Render two runs side by side."""
    runs = [{"id": run.id, "name": _name(run)} for run in (left, right)]
    return html.template_environment(_ASSETS).get_template("side.html.j2").render(runs=runs)


def render_program(run: ListedRun) -> str:
    """Render the page of a run's compiled programs; the page requests its contents itself."""
    return html.template_environment(_ASSETS).get_template("program.html.j2").render(name=_name(run))


def render_training(training: TrainingFile) -> str:
    """Render the page of a monitored training; the page requests its curves itself."""
    return (
        html.template_environment(_ASSETS)
        .get_template("watch.html.j2")
        .render(name=clean(training.name), place=clean(training.logdir))
    )


def render_sign_in(address: str) -> tuple[str, str]:
    """Return (page, its content security policy) for a browser without the token: it explains how
    to sign in, and leads to the requested `address`. The page loads no files, since a browser
    without the token may load none.
    """
    from markupsafe import Markup

    script, style = f"{_asset_text('wanted.js')}Wanted.keep({embed_json(address)});", html.all_styles(_asset_text("runs.css"))
    fields = {"asked": clean(address), "script": Markup(script), "style": Markup(style)}
    return html.template_environment(_ASSETS).get_template("stranger.html.j2").render(fields), html.content_security_policy(
        (script,), style
    )


class RunLines:
    """Cache of the list's lines. A line is built again where its run, the run's summary, or the
    previous run of the program has changed.
    """

    def __init__(self, cache: SummaryCache) -> None:
        self._cache, self._lock = cache, threading.Lock()
        self._encoded: dict[str, tuple[tuple[object, ...], str]] = {}
        self._last: tuple[Sequence[ListedRun], object, bytes] = ((), None, b"[]")

    def encode(self, runs: Sequence[ListedRun], unread: Mapping[str, str]) -> bytes:
        """Return as JSON the lines of all runs, which are passed newest first, and of the folders
        that cannot be read (`build_failure_lines`).
        """
        with self._lock:
            state = self._cache.version, dict(unread)
            if self._last[0] is not runs or self._last[1] != state:
                lines = [*self._encode_lines(runs), *map(_json, build_failure_lines(unread))]
                self._last = runs, state, f"[{','.join(lines)}]".encode()
            return self._last[2]

    def _encode_lines(self, runs: Sequence[ListedRun]) -> list[str]:
        """Return the encoded line of each run, newest first, from the cache where nothing has
        changed.
        """
        encoded = {}
        for run, verdict, before in _with_predecessors(runs, self._cache):
            inputs = (run, verdict, before and before[1], before and before[0])
            cached = self._encoded.get(run.info.folder)
            if cached is None or any(one is not other for one, other in zip(cached[0], inputs, strict=True)):
                cached = inputs, _json(_line(run, verdict, before))
            encoded[run.info.folder] = cached  # two links to one run are two lines with the same id
        self._encoded = encoded
        return [text for _, text in encoded.values()][::-1]


def _json(line: Mapping[str, Any]) -> str:
    """Return a line as JSON."""
    return json.dumps(line, allow_nan=False, separators=(",", ":"))


def build_run_lines(runs: Sequence[ListedRun], cache: SummaryCache) -> list[dict[str, Any]]:
    """Return the list's line of each run; `runs` are newest first."""
    return [_line(*entry) for entry in _with_predecessors(runs, cache)][::-1]


_Before = tuple[ListedRun, RunSummary]


def _with_predecessors(
    runs: Sequence[ListedRun], cache: SummaryCache
) -> Iterator[tuple[ListedRun, RunSummary | None, _Before | None]]:
    """Yield the runs, oldest first, each with its summary and with the last earlier run of the
    same program that has steps.
    """
    latest: dict[str, _Before] = {}  # last run so far of each program, by the run's id
    for run in reversed(runs):
        verdict = RunSummary(error=format_outside(run)) if run.escaping_link else cache.get(run.info)
        if verdict is None:
            yield run, None, None
            continue
        key = _program(latest, run, verdict)
        yield run, verdict, latest.get(key)
        if verdict.step:
            latest.pop(key, None)
            latest[run.id] = run, verdict


def _program(latest: dict[str, _Before], run: ListedRun, verdict: RunSummary) -> str:
    """Return the id of the last run of the same program, among the programs that ran last; ""
    where there is none.
    """
    keys = itertools.islice(reversed(latest), _PROGRAMS)
    return next((key for key in keys if _same_program((run, verdict), latest[key])), "")


def _line(run: ListedRun, verdict: RunSummary | None, before: _Before | None) -> dict[str, Any]:
    """Return the list's line of a run; `verdict` is None while its summary is being computed."""
    line = {
        "id": run.id,
        "name": clean(run.info.run),
        "place": clean(run.logdir),
        "when": run.info.sort_key[0],
        "hosts": run.info.hosts,
    }
    return {**line, "waits": True} if verdict is None else {**line, **_verdict(verdict, before)}


def _same_program(one: tuple[ListedRun, RunSummary], other: tuple[ListedRun, RunSummary]) -> bool:
    """Whether two runs are of one program."""
    places = {(run.root, run.logdir) for run, _ in (one, other)}
    return run_summaries.same_program(one[1], other[1], same_logdir=len(places) == 1)


def format_outside(run: ListedRun) -> str:
    """Return the sentence that explains why a run with a link out of the folders is not opened."""
    place = resolve_path(run.escaping_link) or "another place"
    return f"Not opened: {run.escaping_link} leads to {place}, out of the folders that this workbench was started with. Name that one, too."


def build_failure_lines(reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a line for each folder that cannot be read: the user's spelling of its path, and the
    reason.
    """
    lines = ({"name": clean(root), "error": clean_prose(f"This folder cannot be read: {why}")} for root, why in reasons.items())
    return [{"id": "", "place": "", "when": 0, "hosts": 1, **line} for line in lines]


def _verdict(verdict: RunSummary, before: _Before | None) -> dict[str, Any]:
    """Return the part of a line that comes from the summary, with the difference of its step time
    from the previous run.
    """
    if verdict.error:
        return {"error": clean_prose(verdict.error)}
    line: dict[str, Any] = {
        "headline": clean_prose(verdict.headline),
        "verdict": clean(verdict.verdict),
        "parts": [(clean(name), key, round(share, 4)) for name, key, share in verdict.parts],
        "step": format_cell(verdict.step, Unit.PS) if verdict.step else "",
        "ps": verdict.step,
        "change": clean_prose(verdict.change),
        "details": clean_prose(verdict.details),
        "saves": clean(verdict.saves),
        "saved": verdict.saved_share,
        "script": clean(verdict.script),
        "program": clean(verdict.program),
        "part": verdict.part,
    }
    if verdict.step and before is not None:
        line["against"] = {
            "share": verdict.step / before[1].step - 1,
            "same": _SAME,
            "name": clean(before[0].info.run),
            "id": before[0].id,
        }
    return line


def _name(run: ListedRun) -> str:
    """Return a run's name with its log directory."""
    return clean(f"{run.logdir}/{run.info.run}" if run.logdir else run.info.run)


@cache
def read_asset(name: str) -> str | None:
    """Return a static file of the pages; None where there is none with that name."""
    if name == "report.js":
        return (
            html.all_scripts(*map(_asset_text, ("timeline.js", "chips.js", "rest.js", "run_choice.js")))
            + "\n"
            + _asset_text("whole.js")
        )
    if name == "report.css":
        return html.all_styles(_asset_text("report.css"))
    if name == "runs.js":
        return "\n".join(
            (
                html.join_scripts("dom.js", "theme.js"),
                _asset_text("wanted.js"),
                _asset_text("capture.js"),
                _asset_text("runs.js"),
            )
        )
    if name == "side.js":
        return _asset_text("side.js")
    if name == "watch.js":
        return "\n".join((html.join_scripts("dom.js", "units.js", "axis.js", "theme.js"), _asset_text("watch.js")))
    if name == "program.js":
        return "\n".join((html.join_scripts("dom.js", "units.js", "theme.js"), _asset_text("program.js")))
    if name == "program.css":
        return html.all_styles(_asset_text("program.css"))
    if name == "dagre.js":
        return _asset_text("vendor/dagre.min.js")
    if name == "runs.css":
        return html.all_styles(_asset_text("runs.css"))
    return None


def _asset_text(name: str) -> str:
    """Return the text of an asset file."""
    return (_ASSETS / name).read_text(encoding="utf-8")
