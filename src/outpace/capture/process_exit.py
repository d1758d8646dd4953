# SPDX-License-Identifier: Apache-2.0
"""Ends a script's process, or follows its own end, and writes the outcome for the waiting command.
Standard library only.

A script that is stopped ends at once, and runs none of its own code. An exception would run the
script's `finally` blocks, context managers and exit handlers: a model that is half trained, or not
at all, would be saved over a good one. What the script has written so far is flushed; nothing else
happens.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
import threading
from dataclasses import replace
from typing import NoReturn

from outpace.capture.messages import print_message
from outpace.capture.options import ScriptOutcome
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE

FLUSH_TIMEOUT_S = 3.0  # time limit in seconds for flushing open files


def end_process(code: int) -> NoReturn:
    """End this process with an exit code, whichever thread calls."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]  # None in a process without that stream
    flushing = threading.Thread(target=flush_files, name="outpace-ending", daemon=True)
    try:
        # in a thread of its own: a thread of the script may hold a file's lock and wait for this
        # one
        flushing.start()
        flushing.join(FLUSH_TIMEOUT_S)
    except RuntimeError:  # no memory for a thread
        with contextlib.suppress(Exception):
            flush_files()
    remove_graph_sources()
    os._exit(code)


def flush_files() -> None:
    """Flush the script's open files."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for item in gc.get_objects():
        if issubclass(type(item), kinds):
            with contextlib.suppress(Exception):
                item.flush()


def remove_graph_sources() -> None:
    """Remove the source files of graphs that TensorFlow wrote into the folder for temporary files,
    and would remove in an exit handler.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(AUTOGRAPH_FILE):
            with contextlib.suppress(Exception):
                os.remove(str(module.__file__))


_final_outcomes: list[tuple[str, ScriptOutcome, int]] = []


def register_final_hook() -> None:
    """Register the exit handler that runs after all of the script's: after it, only the
    interpreter's own shutdown is left. Must be called before the script registers any.
    """
    atexit.register(_write_ending_outcomes)


def write_final_outcome(path: str, outcome: ScriptOutcome) -> None:
    """Write the outcome of a script that came to its own end; once all exit handlers have run,
    write it again as `ending`.
    """
    write_outcome(path, outcome)
    _final_outcomes.append((path, replace(outcome, ending=True), os.getpid()))


def _write_ending_outcomes() -> None:
    """Last exit handler: write the outcome as `ending`."""
    for path, outcome, process in _final_outcomes:
        if os.getpid() == process:
            flush_files()  # nothing is lost when the parent kills an interpreter that hangs
            write_outcome(path, outcome)


def write_outcome(path: str, outcome: ScriptOutcome) -> None:
    """Write the outcome where the parent looks for it, whole or not at all."""
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(outcome.to_json())
        os.replace(f"{path}.part", path)
    except OSError as error:
        print_message(f"the outcome could not be written: {error}")


def exit_code(code: object) -> int:
    """Return the process's exit code for `SystemExit(code)`."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
