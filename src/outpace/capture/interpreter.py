"""Starts Python again for a user's script: the interpreter that runs Outpace, with its flags, on a
module of Outpace that runs the script.

A command that becomes the script's process itself does three things, in this order::

    require_script(script, module)  # before any work
    ...                             # read the options
    become(python_command("outpace.capture.remote.served_script", host, port, script))

A command that waits for the process starts `python_command(...)` itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from outpace.model.errors import NotFoundError, UsageError
from outpace.model.input_files import SCRIPT, open_file


def require_script(script: str, module: bool) -> None:
    """Raise NotFoundError when there is no file `script`, or folder with a `__main__.py`;
    UsageError for what nobody could read to its end.

    A module is left for the interpreter to find.
    """
    if module:
        return
    path = os.path.join(script, "__main__.py") if os.path.isdir(script) else script
    if not os.path.exists(path):
        raise NotFoundError(f"There is no script {path}. Give the path of a Python file, or a module with -m.")
    try:
        open_file(path, SCRIPT).close()
    except OSError as error:
        raise UsageError(f"{path} cannot be run: {error.strerror}.") from error


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line of `python -m module arguments`, with the flags that this interpreter was
    started with.
    """
    return [*_interpreter(), "-m", module, *arguments]


def script_command(script: str, argv: Sequence[str], module: bool) -> list[str]:
    """The command line that runs a script as the user would, without anything of ours, with the
    same flags.
    """
    return [*_interpreter(), *(["-m"] if module else []), script, *argv]


def _interpreter() -> list[str]:
    python: Any = subprocess  # what multiprocessing starts its processes with, and no other way is as complete
    return [sys.executable, *python._args_from_interpreter_flags()]


def flush_output() -> None:
    """Write out what was printed, so that it stands before what the script prints."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a stream that is closed, or that somebody has replaced
            stream.flush()


def exec_command(command: Sequence[str]) -> NoReturn:
    """Replace this process by a command of Python's: terminal, signals and exit code are that one's
    own from here on.
    """
    flush_output()
    os.execv(sys.executable, list(command))
