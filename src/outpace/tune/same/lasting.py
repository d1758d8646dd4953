# SPDX-License-Identifier: Apache-2.0
"""What of a script is in no record: threads and processes that go on behind its end, objects that
do something when the interpreter takes them away, and what is sent over a network; and with what
arguments it starts other programs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from outpace.tune.same.state import modules_of

_LOOKS, _PAUSE_S = 2, 0.05
_TRACKER = b"resource_tracker"  # Python's own, which ends with the process


def lasting_threads() -> list[threading.Thread]:
    """Return the threads that keep the process from ending."""
    ours = (threading.main_thread(), threading.current_thread())
    return [each for each in threading.enumerate() if not each.daemon and each not in ours]


def find_lasting(users: Callable[[str], bool], processes: Collection[int]) -> list[str]:
    """Return what goes on, in words. processes: those that were there before the script."""
    found = ["a thread"] if lasting_threads() else []
    started = find_processes() - frozenset(processes)
    for _ in range(_LOOKS):  # one that has just been started shows no environment for a moment
        time.sleep(_PAUSE_S)
        started |= find_processes() - frozenset(processes)
    found += ["a process"] if any(map(_is_of_script, started)) else []
    return found + [f"{kind}.__del__" for kind in sorted(_deleters(users))]


def find_processes() -> frozenset[int]:
    """Return the ids of this process's children, among them those that it adopts
    (`kernel.adopt_orphans`); none where the system does not tell.
    """
    return frozenset(int(each) for path in Path("/proc/self/task").glob("*/children") for each in _read(path).split())


def _is_of_script(process: int) -> bool:
    """Whether a process still runs, and is none of Python's own."""
    state = _read(Path(f"/proc/{process}/stat")).rpartition(b")")[2].split()[:1]
    return bool(state) and state != [b"Z"] and _TRACKER not in _read(Path(f"/proc/{process}/cmdline"))


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


class Sending:
    """Listens to what this process gives to others. users: whether a file is one of the user's.
    places: where it sent something over a network. started: the commands of the programs that the
    user's code started.
    """

    def __init__(self, users: Callable[[str], bool]) -> None:
        self._users = users
        self.places = set[str]()
        self.started: list[str] = []

    def begin(self) -> None:
        """Listen."""
        sys.addaudithook(self._heard)

    def _heard(self, event: str, details: tuple[object, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = details[1]
            if isinstance(address, tuple) and address:
                self.places.add(f"what it sends to {address[0]}")
        elif event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec") and self._is_users():
            command = details[0] if event == "os.system" else details[1]
            words = command if isinstance(command, (list, tuple)) else [command]
            self.started.append(
                " ".join(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in words)
            )

    def _is_users(self) -> bool:
        """Whether the user's code calls Python's functions that start a program."""
        frame = sys._getframe(2)
        while frame.f_back is not None and os.path.basename(frame.f_code.co_filename) in ("subprocess.py", "os.py"):
            frame = frame.f_back
        return self._users(frame.f_code.co_filename)


def _deleters(users: Callable[[str], bool]) -> Iterator[str]:
    """Yield the user's classes whose objects do something at their end."""
    for module in modules_of(users):
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__ and "__del__" in vars(value):
                yield value.__qualname__
