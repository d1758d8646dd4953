"""The end of a script's process, by itself or because it is stopped, and what it leaves for the
command that waits. Standard library only.

A script that is stopped ends at once, and through none of its code. An exception would run the
script's `finally` and context managers, and its exit handlers: a model that is half trained, or not
at all, would be saved over a good one. What the script has written so far is written out; nothing
else happens.
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

FLUSH_TIMEOUT_S = 3.0  # seconds, for writing out what files hold


def end_process(code: int) -> NoReturn:
    """End this process with that exit code, whichever thread calls."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]  # None where the process has none
    flushing = threading.Thread(target=flush_files, name="outpace-ending", daemon=True)
    try:
        flushing.start()  # a thread of the script's may hold a file, and wait for us
        flushing.join(FLUSH_TIMEOUT_S)
    except RuntimeError:  # there is no memory for a thread
        with contextlib.suppress(Exception):
            flush_files()
    remove_graph_sources()
    os._exit(code)


def flush_files() -> None:
    """Write out what the script's open files still buffer."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for item in gc.get_objects():
        if issubclass(type(item), kinds):
            with contextlib.suppress(Exception):
                item.flush()


def remove_graph_sources() -> None:
    """Remove what TensorFlow wrote into the folder for temporary files, and would remove in an exit
    handler: the source of each graph.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(AUTOGRAPH_FILE):
            with contextlib.suppress(Exception):
                os.remove(str(module.__file__))


_last: list[tuple[str, ScriptOutcome, int]] = []


def register_final_hook() -> None:
    """Call it before the script registers any exit handler: from what runs last of them on, only
    the interpreter's own end is left.
    """
    atexit.register(_at_the_end)


def write_final_outcome(path: str, outcome: ScriptOutcome) -> None:
    """Leave the outcome of a script that came to its own end; once all exit handlers have run, say
    that too.
    """
    write_outcome(path, outcome)
    _last.append((path, replace(outcome, ending=True), os.getpid()))


def _at_the_end() -> None:
    for path, outcome, process in _last:
        if os.getpid() == process:
            flush_files()  # so that ending a hanging interpreter loses nothing
            write_outcome(path, outcome)


def write_outcome(path: str, outcome: ScriptOutcome) -> None:
    """Put the outcome where the parent looks for it, whole or not at all."""
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(outcome.to_json())
        os.replace(f"{path}.part", path)
    except OSError as error:
        print_message(f"the outcome could not be written: {error}")


def exit_code(code: object) -> int:
    """The process exit code that `SystemExit(code)` makes."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
