# SPDX-License-Identifier: Apache-2.0
"""`outpace ui`: shows all runs in a browser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.console import print_note

if TYPE_CHECKING:
    from outpace.ui.server import Server


def ui(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOGDIR]...",
            help="Folders with runs: log directories (also of several experiments), or single runs; local or URLs.",
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser, or only print its address.")
    ] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; any free one by default.")] = 0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name by which this machine is asked, as behind a proxy; can be repeated."),
    ] = None,
) -> None:
    """Look at all runs below some folders: what bounds each, how long its step takes, and what
    changed since the run before.

    A run opens on its report, with the timeline inside. New runs appear by themselves. Everything
    comes from this machine and goes to nobody else: the address that is printed holds a token, and
    nothing outside the folders is shown. End it with Ctrl-C.
    """
    from outpace.model import UsageError
    from outpace.ui.folders import Folders
    from outpace.ui.server import Server
    from outpace.ui.site import Site

    if not folders:
        raise UsageError(
            "Give the folder with your runs: 'outpace ui LOGDIR'. There are three ways to a run: 'outpace profile train.py' for a script as it "
            "is, outpace.ProfilerCallback(LOGDIR) among the callbacks of fit, and 'outpace capture HOST:PORT' for a program that is running."
        )
    Folders(folders).require_exists(
        "Give the folder with your runs. One to which a training is going to write, make first: mkdir -p PATH"
    )
    site = Site(folders)
    try:
        server = Server(site.answer, port, frozenset(allow_host or ()))
        print_note(f"The runs are at {server.address} (end it with Ctrl-C)")
        run_server(server, browser)
    finally:
        site.close()


def run_server(server: Server, browser: bool, idle: float = math.inf) -> None:
    """Serve until Ctrl-C or a signal, or until no page was requested for `idle` seconds; opens the
    first page in the browser, or prints how to reach it.
    """
    import webbrowser

    try:  # from here on somebody may see the page, and press Ctrl-C
        server.start()  # a browser of the terminal comes back when its reader has left it
        if browser and not webbrowser.open(server.one_time_address()):
            forward = f"{server.port}:localhost:{server.port}"
            print_note(
                f"No browser could be started here: open the address yourself (over SSH, after 'ssh -L {forward} HOST')."
            )
        if server.wait(idle):
            print_note(f"Nobody has looked for {idle / 60:.0f} minutes: the server has ended.")
    except KeyboardInterrupt:
        print_note("")
    finally:
        server.stop()
