# SPDX-License-Identifier: Apache-2.0
"""What of a script goes on behind its end: threads, processes, and objects that do something when
the interpreter takes them away.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from outpace.tune.same.state import modules_of

_TRACKER = b"resource_tracker"  # Python's own, which ends with the process


def lasting_threads() -> list[threading.Thread]:
    """Return the threads that keep the process from ending."""
    ours = (threading.main_thread(), threading.current_thread())
    return [each for each in threading.enumerate() if not each.daemon and each not in ours]


def find_lasting(users: Callable[[str], bool], processes: Collection[int]) -> list[str]:
    """Return what goes on, in words. processes: those that were there before the script."""
    found = ["a thread"] if lasting_threads() else []
    found += ["a process"] if any(_is_of_script(each) for each in find_processes() - frozenset(processes)) else []
    return found + [f"{kind}.__del__" for kind in sorted(_deleters(users))]


def find_processes() -> frozenset[int]:
    """Return the ids of this process's children; none where the system does not tell."""
    with contextlib.suppress(OSError):
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
        return frozenset(int(each) for text in texts for each in text.split())
    return frozenset()


def _is_of_script(process: int) -> bool:
    with contextlib.suppress(OSError):
        stat, command = (Path(f"/proc/{process}/{name}").read_bytes() for name in ("stat", "cmdline"))
        return stat.rpartition(b")")[2].split()[0] != b"Z" and _TRACKER not in command
    return False


def _deleters(users: Callable[[str], bool]) -> Iterator[str]:
    """Yield the user's classes whose objects do something at their end."""
    for module in modules_of(users):
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__ and "__del__" in vars(value):
                yield value.__qualname__
