# SPDX-License-Identifier: Apache-2.0
"""IPython magics, loaded with `%load_ext outpace`: `%%outpace` captures a cell and shows its report
below it, `%outpace LOGDIR` shows the newest run of a folder.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from outpace.model.errors import OutpaceError, UsageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LONGEST = 30.0  # maximum duration of a cell's capture, s: a profiler keeps every event in memory


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise an error with the message instead of exiting the process."""
        raise UsageError(f"%%outpace: {message}. {self.format_usage().strip()}")


def _options() -> _Options:
    from outpace.capture.options import DEFAULT_LOGDIR

    options = _Options(prog="%%outpace", add_help=False)
    options.add_argument("--logdir", default=DEFAULT_LOGDIR, help="where the run is kept")
    options.add_argument("--delay", type=float, default=0.0, help="seconds to wait before the capture begins")
    options.add_argument("--duration", type=float, default=_LONGEST, help="seconds that are captured at most")
    return options


def register(shell: InteractiveShell) -> None:
    """Register the magics with a notebook's shell."""
    shell.register_magic_function(_show, "line", "outpace")
    shell.register_magic_function(_cell(shell), "cell", "outpace")


def _show(line: str) -> None:
    """Show the report of a profile, a run's folder, or the newest run of a log directory."""
    from IPython.display import display

    from outpace import api

    place = line.strip()
    if not place:
        _say("Give a folder: '%outpace LOGDIR' shows its newest run. '%%outpace' at the top of a cell captures that cell.")
        return
    with _errors_displayed():
        display(api.open(place))


def _cell(shell: InteractiveShell) -> Any:
    def outpace(line: str, cell: str) -> None:
        """Run the cell, capture it (the first 30 seconds; --delay, --duration), keep the run in
        --logdir, and show the report.
        """
        from IPython.display import display

        from outpace import api
        from outpace.capture.manual import Capture, capture

        running: Capture | None = None
        with _errors_displayed():
            options = _options().parse_args(shlex.split(line))
            _import(shell.transform_cell(cell))
            begun = capture(options.logdir, delay=options.delay, duration=options.duration)
            begun.start()
            running = begun
        if running is None:
            return
        try:
            with _under_its_number(shell):
                shell.run_cell(cell)  # prints the traceback of a cell that raises
        finally:
            running.stop()
        with _errors_displayed():
            display(api.open(running.profile))

    return outpace


@contextlib.contextmanager
def _under_its_number(shell: InteractiveShell) -> Iterator[None]:
    """Context manager that attributes code compiled within a cell to the number of that cell
    instead of the next one's.
    """
    names: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    before, number = dict(names), max(names.values(), default=0)
    try:
        yield
    finally:
        names.update({name: number for name, value in names.items() if before.get(name) != value})


def _import(cell: str) -> None:
    """Import the modules that a cell imports, before the capture: the profiler belongs to a
    framework, which must be imported, and the time of imports is not to be measured.
    """
    with contextlib.suppress(SyntaxError):  # running the cell reports a syntax error
        for node in ast.walk(ast.parse(cell)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                with contextlib.suppress(Exception):  # running the cell reports an import that fails
                    importlib.import_module(name)


@contextlib.contextmanager
def _errors_displayed() -> Iterator[None]:
    """Context manager that displays an OutpaceError as a sentence, so that the notebook's cell
    continues.
    """
    try:
        yield
    except OutpaceError as error:
        _say(str(error))


def _say(sentence: str) -> None:
    from IPython.display import display

    display({"text/plain": f"outpace: {sentence}"}, raw=True)
