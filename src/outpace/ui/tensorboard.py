# SPDX-License-Identifier: Apache-2.0
"""The workbench as a tab of TensorBoard, which finds it by the entry point `tensorboard_plugins`.
The tab shows the runs below TensorBoard's log directory, for reading only.

TensorBoard requires no token, and notebooks show it in frames. Therefore no request of the tab has
an effect, and any page may frame it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tensorboard.plugins import base_plugin

from outpace.store.logdir import has_run
from outpace.ui.http import Request, Response, text_response
from outpace.ui.site import Site
from outpace.ui.wsgi import Environment, Start, build_application

_NAME = "outpace"
_PATIENCE = 1.0  # maximum time in seconds that a page waits for the search for runs
_BELOW = "/data/plugin/outpace/app"
_ENTRY = "export function render() { document.location.replace(new URL('./app/', import.meta.url)); }\n"


class Loader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Creates the tab where TensorBoard reads a log directory."""

    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin | None:
        """Return the tab; None where TensorBoard reads no log directory."""
        roots = _roots(context)
        return Tab(roots) if roots else None


class Tab(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    """The TensorBoard tab: an entry script that leads to the workbench's own pages."""

    plugin_name = _NAME

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots, self._active = roots, False
        self._site: Site | None = None
        self._lock = threading.Lock()
        self._look: threading.Thread | None = None

    def get_plugin_apps(self) -> Mapping[str, Callable[[Environment, Start], Iterable[bytes]]]:
        """Return the WSGI applications by address below TensorBoard's own."""
        pages = build_application(self._answer)
        entry = build_application(lambda _: Response(_ENTRY.encode(), "text/javascript; charset=utf-8"))

        def app(environment: Environment, start: Start) -> Iterable[bytes]:
            """Serve a request below the tab's address. TensorBoard passes whole addresses, from
            which the part before the tab's own is cut. `If-None-Match` is dropped, because
            TensorBoard warns about responses without a type, such as "not modified".
            """
            filtered = {name: value for name, value in environment.items() if name != "HTTP_IF_NONE_MATCH"}
            return pages({**filtered, "PATH_INFO": environment["PATH_INFO"].partition(_BELOW)[2]}, start)

        return {"/index.js": entry, "/*": app}

    def is_active(self) -> bool:
        """Whether the log directory contains a run. TensorBoard asks often; True is stored for
        good.

        While it is False, one thread at a time searches the folders, and each call waits
        `_PATIENCE` seconds at most for it, which TensorBoard's page can wait. The result of a large
        tree, or of a slow store, is returned by a later call.
        """
        if not self._active:
            with self._lock:
                if self._look is None or not self._look.is_alive():
                    self._look = threading.Thread(target=self._find, daemon=True)
                    self._look.start()
            self._look.join(_PATIENCE)
        return self._active

    def _find(self) -> None:
        """Search the folders for a run."""
        for root in self._roots:
            with contextlib.suppress(Exception):  # every store has errors of its own
                self._active = self._active or has_run(root)

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the tab's name and its script. The pages look for new runs themselves."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Outpace", disable_reload=True)

    def _answer(self, request: Request) -> Response:
        """Return the response to a request, which any page may frame."""
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "There is nothing to do here.")
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return text_response(403, "Pages of other sites get nothing here.")
        with self._lock:
            self._site = self._site or Site(self._roots, captures=False)
        answer = self._site.answer(request)
        policy = answer.all_headers()["Content-Security-Policy"].partition("; frame-ancestors")[0]
        return replace(answer, headers={**answer.headers, "Content-Security-Policy": policy})


def _roots(context: Any) -> tuple[str, ...]:
    """Return the folders that TensorBoard was started with: its log directory, or those of
    `--logdir_spec` (`name:folder,folder,...`).
    """
    if context.logdir:
        return (str(context.logdir),)
    spec = getattr(context.flags, "logdir_spec", "") or ""
    folders = []
    for entry in filter(None, map(str.strip, spec.split(","))):
        name, colon, folder = entry.partition(":")
        # otherwise the colon belongs to a path or a URL
        is_named = bool(colon) and "/" not in name and not folder.startswith("//")
        folders.append(folder if is_named else entry)
    return tuple(folders)
