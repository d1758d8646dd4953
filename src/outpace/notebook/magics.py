"""`%load_ext outpace`: `%%outpace` captures a cell and shows its report below it, `%outpace LOGDIR`
shows the newest run of a folder.
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

_LONGEST = 30.0  # seconds that a cell is captured: a profiler keeps every event in memory


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A sentence instead of an exit."""
        raise UsageError(f"%%outpace: {message}. {self.format_usage().strip()}")


def _options() -> _Options:
    from outpace.capture.options import DEFAULT_LOGDIR

    options = _Options(prog="%%outpace", add_help=False)
    options.add_argument("--logdir", default=DEFAULT_LOGDIR, help="where the run is kept")
    options.add_argument("--delay", type=float, default=0.0, help="seconds to wait before the capture begins")
    options.add_argument("--duration", type=float, default=_LONGEST, help="seconds that are captured at most")
    return options


def register(shell: InteractiveShell) -> None:
    """Make the magics known to a notebook."""
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
    with _said():
        display(api.open(place))


def _cell(shell: InteractiveShell) -> Any:
    def outpace(line: str, cell: str) -> None:
        """Run the cell, capture it (the first 30 seconds; --delay, --duration), keep the run in
        --logdir, and show the report.
        """
        from IPython.display import display

        from outpace import api
        from outpace.capture.manual import Capture, capture

        taken: Capture | None = None
        with _said():
            asked = _options().parse_args(shlex.split(line))
            _import(shell.transform_cell(cell))
            begun = capture(asked.logdir, delay=asked.delay, duration=asked.duration)
            begun.start()
            taken = begun
        if taken is None:
            return
        try:
            with _under_its_number(shell):
                shell.run_cell(cell)  # prints the traceback of a cell that raises
        finally:
            taken.stop()
        with _said():
            display(api.open(taken.profile))

    return outpace


@contextlib.contextmanager
def _under_its_number(shell: InteractiveShell) -> Iterator[None]:
    """What is run within a cell is told under the number of that cell, and not under the next
    one's.
    """
    names: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    before, number = dict(names), max(names.values(), default=0)
    try:
        yield
    finally:
        names.update({name: number for name, given in names.items() if before.get(name) != given})


def _import(cell: str) -> None:
    """Import what a cell imports: the profiler is a framework's, which must be there, and imports
    are none of the work that is asked about.
    """
    with contextlib.suppress(SyntaxError):  # the cell itself will say so
        for node in ast.walk(ast.parse(cell)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                with contextlib.suppress(Exception):  # the cell itself will meet it
                    importlib.import_module(name)


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """What is wrong is said in a sentence; a notebook's cell goes on."""
    try:
        yield
    except OutpaceError as error:
        _say(str(error))


def _say(sentence: str) -> None:
    from IPython.display import display

    display({"text/plain": f"outpace: {sentence}"}, raw=True)
