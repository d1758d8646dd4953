# SPDX-License-Identifier: Apache-2.0
"""Starts Python again for a user's script: the interpreter that runs Outpace, with its flags, on a
module of Outpace that runs the script.

A command that becomes the script's process itself does three things, in this order::

    require_script(script, module)  # before any work
    ...                             # read the options
    exec_command(python_command("outpace.capture.remote.served_script", host, port, kind, script))

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
    """Check that the script can be read, before any work is done; a module is left for the
    interpreter to find.

    Raises NotFoundError when there is no file `script`, or folder with a `__main__.py`, and
    UsageError for a file that cannot be read.
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
    """Return the command line of `python -m module arguments`, with the flags of this
    interpreter.
    """
    return [*_interpreter_command(), "-m", module, *arguments]


def script_command(script: str, argv: Sequence[str], module: bool) -> list[str]:
    """Return the command line that runs a script as the user would, without Outpace, with the flags
    of this interpreter.
    """
    return [*_interpreter_command(), *(["-m"] if module else []), script, *argv]


def _interpreter_command() -> list[str]:
    """Return the path of this interpreter, followed by its flags."""
    # multiprocessing uses the same private function; no public way is as complete
    python: Any = subprocess
    return [sys.executable, *python._args_from_interpreter_flags()]


def flush_output() -> None:
    """Flush stdout and stderr, so that printed text comes before what the script prints."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the stream may be closed or replaced
            stream.flush()


def exec_command(command: Sequence[str]) -> NoReturn:
    """Replace this process by a Python command, which from then on owns the terminal, signals and
    exit code.
    """
    flush_output()
    os.execv(sys.executable, list(command))
