# SPDX-License-Identifier: Apache-2.0
"""The workbench's addresses and their handlers. Handlers are functions of a request that has
already passed the guard.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from outpace.model import NotFoundError, Report, UsageError
from outpace.report import html
from outpace.ui import pages, part_choice, programs, timeline, worker
from outpace.ui.capture_job import CaptureJob
from outpace.ui.folders import Folders
from outpace.ui.http import BYTES, JSON, Request, Response, text_response
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.runs import ListedRun, RunList, path_id
from outpace.ui.trainings import Trainings
from outpace.ui.worker import OpenedReport
from outpace.ui.worker_pool import BusyError, SummaryFiller, WorkerPool
from outpace.viewer.perfetto import find_interface, is_installed

_FRESH = 1.0  # seconds before the list of runs is read again
_MOST_REPORTS = 4  # maximum number of reports in memory


class Site:
    """The site of the runs below some folders; `close` ends all processes that the site has
    started.

    roots: the served folders, in the user's spelling. Captures are saved into the first of them.
    """

    def __init__(self, roots: Sequence[str], cache: SummaryCache | None = None, *, captures: bool = True) -> None:
        """Create the site.

        roots: folders to serve, local or URLs.
        cache: cache of summaries; by default the user's.
        captures: whether captures can be started from the site.
        """
        self._folders = Folders(roots)
        self.roots = self._folders.roots
        self._captures = CaptureJob(self.roots[0]) if captures else None
        self._cache = cache or SummaryCache()
        self._analysts, self._filler = WorkerPool(self._folders), SummaryFiller(self._all, self._cache, self._folders)
        self._reports: OrderedDict[tuple[str, str, str], OpenedReport] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[tuple[str, str, str], threading.Lock] = {}
        self._list, self._lines = RunList(self.roots, self._folders.find_escaping_link), pages.RunLines(self._cache)
        self._trainings = Trainings(self._folders)
        self._last_scan: tuple[float, tuple[ListedRun, ...]] = (-_FRESH, ())
        self._routes: tuple[tuple[re.Pattern[str], Callable[..., Response]], ...] = tuple(
            (re.compile(pattern), handler)
            for pattern, handler in (
                (r"", self._home),
                (r"runs", self._runs),
                (r"watched", self._list_trainings),
                (r"watched/([0-9a-f]{12})/", self._watch),
                (r"watched/([0-9a-f]{12})/curves", self._curves),
                (r"capture", self._capture),
                (r"capture/stop", self._stop_capture),
                (r"assets/(\w+\.\w+)", self._asset),
                (r"side/([0-9a-f]{12})/([0-9a-f]{12})/", self._side),
                (r"compare/([0-9a-f]{12})/([0-9a-f]{12})/", self._compare),
                (r"compare/([0-9a-f]{12})/([0-9a-f]{12})/view/([\w-]+)", self._compare_view),
                (r"run/([0-9a-f]{12})/", self._report),
                (r"run/([0-9a-f]{12})/view/([\w-]+)", self._view),
                (r"run/([0-9a-f]{12})/rows/([\w-]+/[\w-]+)", self._rows),
                (r"run/([0-9a-f]{12})/report\.html", self._file),
                (r"run/([0-9a-f]{12})/sight", self._sight),
                (r"run/([0-9a-f]{12})/trace", self._trace),
                (r"run/([0-9a-f]{12})/program/", self._program),
                (r"run/([0-9a-f]{12})/program/near", self._neighbours),
                (r"run/([0-9a-f]{12})/program/text", self._program_text),
                (r"viewer/(.*)", self._viewer),
            )
        )

    def answer(self, request: Request) -> Response:
        """Return the response to a request; an error becomes a response with one sentence.
        Requests with an effect must be POST, and only these may.
        """
        if request.method == "POST" and not request.path.startswith("capture"):
            return text_response(405, "There is nothing to do here.")
        for pattern, handler in self._routes:
            match = pattern.fullmatch(request.path)
            if match is not None:
                try:
                    return handler(request, *match.groups())
                except NotFoundError as error:
                    return text_response(404, str(error))
                except UsageError as error:
                    return text_response(400, str(error))
                except BusyError as error:
                    return replace(text_response(503, str(error)), headers={"Retry-After": "5"})
                # any error of a store or a profile becomes a sentence, and the server continues
                except Exception as error:
                    return text_response(500, str(error) or type(error).__name__)
        return text_response(404, "There is nothing here.")

    def close(self) -> None:
        """End the analysis processes and a running capture."""
        if self._captures is not None:
            self._captures.stop()
        self._analysts.close()
        self._filler.close()

    # Handlers of the addresses.

    def _home(self, request: Request) -> Response:
        """Return the page with the list of runs."""
        return Response(pages.render_run_list(self.roots, self._captures is not None).encode())

    def _runs(self, request: Request) -> Response:
        """Return the lines of the list. A page that asks for `names` needs no summaries, so that
        none are computed for it.
        """
        if "names" not in request.query:
            self._filler.notify_viewed()
        return Response(self._lines.encode(self._all(), self._list.failures), JSON)

    def _list_trainings(self, request: Request) -> Response:
        """Return the list of monitored trainings."""
        with self._folders.confined():
            return _json(self._trainings.list_trainings(time.time()))

    def _watch(self, request: Request, one: str) -> Response:
        """Return the page of a monitored training."""
        return Response(pages.render_training(self._trainings.find(one)).encode("utf-8", "replace"))

    def _curves(self, request: Request, one: str) -> Response:
        """Return the curves of a monitored training."""
        with self._folders.confined():
            return _json(self._trainings.curves(one))

    def _capture(self, request: Request) -> Response:
        """Return the progress of the capture; by POST, start one."""
        if self._captures is None:
            return text_response(404, "Nothing is captured from here.")
        if request.method == "POST":
            self._captures.begin(request.body)
        state = dict(self._captures.poll())
        folder = state.pop("folder", None)
        if folder is not None:
            state["run"] = path_id(folder)
        return _json(state)

    def _stop_capture(self, request: Request) -> Response:
        """Stop the capture, and return its state."""
        if self._captures is None or request.method != "POST":
            return text_response(404, "Nothing is stopped so.")
        self._captures.stop()
        return self._capture(Request("capture"))

    def _asset(self, request: Request, name: str) -> Response:
        """Return a static file of the pages."""
        content = pages.read_asset(name)
        return (
            text_response(404, "There is no such file.")
            if content is None
            else Response(content.encode(), timeline.TYPES[Path(name).suffix])
        )

    def _side(self, request: Request, left: str, right: str) -> Response:
        """Return the page with two runs side by side."""
        runs = self._run(left), self._run(right)
        return Response(pages.render_side_by_side(*runs).encode("utf-8", "replace"))

    def _compare(self, request: Request, before: str, after: str) -> Response:
        """Return the page that compares two runs, with one verdict."""
        app = html.AppLinks(
            "../../../assets/", "view/", "../../../", "", "", part_choice.build_part_view(part_choice.NO_CHOICES, {})
        )
        return Response(html.render_app(self._comparison_report(before, after), app).encode("utf-8", "replace"))

    def _compare_view(self, request: Request, before: str, after: str, view: str) -> Response:
        """Return a view of a comparison."""
        page = html.render_view(self._comparison_report(before, after), view, None)
        return (
            text_response(404, "This comparison has no such view.")
            if page is None
            else Response(page.encode("utf-8", "replace"))
        )

    def _report(self, request: Request, run: str) -> Response:
        """Return the page of a run's report: the whole one, or at first only the picture of its
        step, while the rest is computed.
        """
        listed, part = self._run(run), part_choice.part_query(request.query)
        is_preview = not part and "whole" not in request.query and not self._has(listed, part)
        opened = self._open_preview(listed) if is_preview else self._open_report(listed, request.query)
        query = request.query if part or not opened.hosts else {"hosts": opened.hosts}
        part = part_choice.part_query(query)
        gains = opened.summary is not None and opened.summary.saved_share > 0
        chips = part_choice.build_part_view(opened.choices, query, opened.hosts if gains else "")
        app = html.AppLinks(
            "../../assets/",
            "view/",
            "../../",
            "sight",
            f"?{part}" if part else "",
            chips,
            "?whole=1" if is_preview else "",
            "program/",
        )
        return Response(html.render_app(opened.report, app).encode("utf-8", "replace"))

    def _view(self, request: Request, run: str, view: str) -> Response:
        """Return a view of a report."""
        part = part_choice.part_query(request.query)
        page = html.render_view(
            self._open_report(self._run(run), request.query).report,
            view,
            lambda table: f"rows/{table}?{part}{'&' if part else ''}from=",
        )
        return (
            text_response(404, "This report has no such view.") if page is None else Response(page.encode("utf-8", "replace"))
        )

    def _rows(self, request: Request, run: str, table: str) -> Response:
        """Return further rows of a large table."""
        begin = request.query.get("from", "")
        if not re.fullmatch(r"\d{1,9}", begin):
            raise UsageError("Which rows? 'from' is the number of the first one.")
        page = html.render_rows(self._open_report(self._run(run), request.query).report, table, int(begin))
        return text_response(404, "This report has no such table.") if page is None else Response(page.encode(), JSON)

    def _file(self, request: Request, run: str) -> Response:
        """Return the report as one self-contained file, of the whole run where no part is asked
        for.
        """
        listed = self._run(run)
        opened = self._open_report(listed, request.query)
        if opened.hosts and not part_choice.part_query(request.query):
            opened = self._open_report(listed, {"hosts": part_choice.ALL_HOSTS})
        name = re.sub(r"[^\w.-]", "_", listed.info.run, flags=re.ASCII)
        headers = {"Content-Disposition": f'attachment; filename="outpace-{name}.html"'}
        return Response(html.render(opened.report).encode("utf-8", "replace"), headers=headers)

    def _sight(self, request: Request, run: str) -> Response:
        """Return the time range that the timeline viewer shows, and the address of its trace."""
        info, step = self._run(run).info, request.query.get("step", "")
        number = int(step) if re.fullmatch(r"-?\d{1,18}", step) else None
        part = dict(parse_qsl(part_choice.part_query(request.query)))
        with self._analysts.reserve([info.folder]):
            sight, steps = self._analysts.ask(
                [info.folder], timeline.select_view, info.folder, info.state, number, request.query.get("host"), part
            )
        trace = "trace" if steps is None else f"trace?first={steps[0]}&last={steps[1]}"
        has_viewer = is_installed()
        return _json({"trace": trace, "begin": sight.begin_ns, "end": sight.end_ns, "title": sight.title, "viewer": has_viewer})

    def _trace(self, request: Request, run: str) -> Response:
        """Return the trace file of a run, or of some of its steps."""
        info, (first, last) = self._run(run).info, (request.query.get(name, "") for name in ("first", "last"))
        chosen = (int(first), int(last)) if re.fullmatch(r"(-?\d{1,18}) (-?\d{1,18})", f"{first} {last}") else None
        with self._analysts.reserve([info.folder]), tempfile.TemporaryDirectory(prefix="outpace-") as folder:
            path = os.path.join(folder, "trace")
            self._analysts.ask([info.folder], timeline.write_trace_file, info.folder, info.state, path, chosen)
            return Response(open(path, "rb"), BYTES)

    def _program(self, request: Request, run: str) -> Response:
        """Return the page of a run's compiled programs."""
        return Response(pages.render_program(self._run(run)).encode("utf-8", "replace"))

    def _neighbours(self, request: Request, run: str) -> Response:
        """Return the instructions around one of a program."""
        asked = request.query
        radius = asked.get("radius", "2")
        if radius not in map(str, range(1, programs.MOST_RADIUS + 1)):
            raise UsageError(f"The radius is 1 to {programs.MOST_RADIUS}.")
        return self._ask(run, programs.describe_neighbours, asked.get("program", ""), asked.get("op", ""), int(radius))

    def _program_text(self, request: Request, run: str) -> Response:
        """Return the lines of a program's text."""
        return self._ask(run, programs.list_program_text, request.query.get("program", ""))

    def _ask(self, run: str, function: Callable[..., Any], *arguments: Any) -> Response:
        """Return what a function of the analysis process says of a run, as JSON."""
        info = self._run(run).info
        with self._analysts.reserve([info.folder]):
            return _json(self._analysts.ask([info.folder], function, info.folder, info.state, *arguments))

    def _viewer(self, request: Request, name: str) -> Response:
        """Return a file of the timeline viewer."""
        return timeline.viewer_file(find_interface(), name)

    # Data for the handlers.

    def _all(self) -> tuple[ListedRun, ...]:
        """Return all runs; the list is read again after `_FRESH` seconds."""
        when, runs = self._last_scan
        if time.monotonic() - when > _FRESH:
            runs = self._list.refresh()
            self._last_scan = (time.monotonic(), runs)
        return runs

    def _run(self, run_id: str) -> ListedRun:
        """Return the run with an id; only listed runs have one."""
        match = next((run for run in self._all() if run.id == run_id), None)
        if match is None:
            raise NotFoundError("This run is not, or no longer, below the workbench's folders.")
        if match.escaping_link:
            raise NotFoundError(pages.format_outside(match))
        return match

    def _has(self, run: ListedRun, part: str) -> bool:
        """Whether the report of a part of a run is in memory."""
        with self._lock:
            return (run.info.folder, run.info.state, part) in self._reports

    def _open_preview(self, run: ListedRun) -> OpenedReport:
        """Return the part of a report that can be shown first, while the rest is computed."""
        with self._analysts.reserve([run.info.folder]):
            return self._analysts.ask([run.info.folder], worker.open_preview, run.info.folder, run.info.state)

    def _comparison_report(self, before: str, after: str) -> Report:
        """Return the comparison of two runs, the first requested one as the earlier side."""
        listed = self._run(before), self._run(after)
        key = tuple("\n".join(getattr(run.info, what) for run in listed) for what in ("folder", "state"))
        sides = [(run.info.run, run.info.folder, run.info.state) for run in listed]
        runs = [folder for _, folder, _ in sides]
        return self._stored_report(
            (key[0], key[1], ""), runs, lambda: self._analysts.ask(runs, worker.open_comparison, sides)
        ).report

    def _open_report(self, run: ListedRun, query: Mapping[str, str]) -> OpenedReport:
        """Return the report of the part that a query selects, from memory or computed now."""
        folder, state, part = run.info.folder, run.info.state, part_choice.part_query(query)

        def analyse() -> OpenedReport:
            opened = self._analysts.ask([folder], worker.open_report, folder, state, dict(parse_qsl(part)))
            if opened.summary is not None:
                self._cache.put(run.info, opened.summary)
            if opened.hosts:  # the page asks for its views by these hosts
                with self._lock:
                    self._reports[folder, state, part_choice.part_query({"hosts": opened.hosts})] = opened
            return opened

        return self._stored_report((folder, state, part), [folder], analyse)

    def _stored_report(self, key: tuple[str, str, str], runs: Sequence[str], make: Callable[[], OpenedReport]) -> OpenedReport:
        """Return the stored result for some runs, or compute it now."""
        with self._lock:
            stored = self._reports.get(key)
            if stored is not None:
                self._reports.move_to_end(key)
                return stored
            making = self._making.setdefault(key, threading.Lock())
        # locked, because a page requests its views at the same time
        with self._analysts.reserve(runs), making:
            with self._lock:
                if key in self._reports:
                    return self._reports[key]
            try:
                opened = make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._reports[key] = opened
                while len(self._reports) > _MOST_REPORTS:
                    self._reports.popitem(last=False)
            return opened


def _json(value: Any) -> Response:
    """Return a JSON response."""
    return Response(json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode(), JSON)
