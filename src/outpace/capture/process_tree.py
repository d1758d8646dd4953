# SPDX-License-Identifier: Apache-2.0
"""Ends all processes that a command started, and those that they started, however the command ends.
Standard library only.

Every member of the family carries the family's folder in its environment, so that workers, daemons
and grandchildren are found after their parents have ended. The family ends with the command. Where
the command is killed, a guard ends the family: this file, run as a program in a session of its own,
which waits for the end of a pipe. Members register temporary folders (`register_folder`), which are
then removed too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

FAMILY_VARIABLE = "OUTPACE_FAMILY"
_FOLDERS_FILE = "made"
_DONE_MESSAGE = b"."  # message to the guard that nothing is left to do
# number of looks before Python's resource tracker is killed: it removes shared memory that the
# others had, and then ends by itself
_TRACKER_TRIES = 25
# successive looks without a member, after which the family counts as ended: a process that has just
# been started shows no environment for a moment
_EMPTY_LOOKS = 2
# maximum number of looks at the system's processes, and seconds between two looks
_MAX_TRIES, _PAUSE_S = 100, 0.02


class ProcessTree:
    """Context manager with a folder for the command's own files. Processes that are started inside
    are members of the family.

    At the end of the context all members are killed and their registered folders removed, unless
    they were released.

    folder: the family's folder.
    """

    def __init__(self, detached: bool = False) -> None:
        """Create the context. `detached`: members are not killed at the end; only the folder is
        removed.
        """
        self.folder = ""
        self._released = detached
        self._outer_family: str | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ProcessTree:
        self.folder = tempfile.mkdtemp(prefix="outpace-")
        if self._released:
            return self
        # removed, so that the guard is no member
        self._outer_family = os.environ.pop(FAMILY_VARIABLE, None)
        # without a guard, `kill -9` of this process leaves its members running
        with contextlib.suppress(OSError):
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", os.path.abspath(__file__), self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        os.environ[FAMILY_VARIABLE] = self.folder
        return self

    def __exit__(self, *_: object) -> None:
        if not self._released:
            kill_tree(self.folder)
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def release(self) -> None:
        """Let the running members continue: the script ended as it would have without this
        command.
        """
        self._released = True
        if os.environ.get(FAMILY_VARIABLE) == self.folder:
            del os.environ[FAMILY_VARIABLE]
            if self._outer_family is not None:
                os.environ[FAMILY_VARIABLE] = self._outer_family
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.write(_DONE_MESSAGE)
                self._guard.stdin.close()
            self._guard.wait()
            self._guard = None


def register_folder(folder: str) -> str:
    """Register a folder that is removed when the family ends, and return it. Does nothing outside a
    family.
    """
    family = os.environ.get(FAMILY_VARIABLE)
    if family:
        with contextlib.suppress(OSError), open(os.path.join(family, _FOLDERS_FILE), "ab") as file:
            file.write(os.fsencode(os.path.abspath(folder)) + b"\0")
    return folder


def kill_tree(family: str) -> None:
    """Kill the members of a family until none is left, then remove their registered folders."""
    empty_looks = 0
    for tries in range(_MAX_TRIES):
        members = list(_iter_members(family))
        for process in members:
            with contextlib.suppress(OSError):
                if tries > _TRACKER_TRIES or not _is_resource_tracker(process):
                    os.kill(process, signal.SIGKILL)
        empty_looks = 0 if members else empty_looks + 1
        if empty_looks == _EMPTY_LOOKS:
            break
        time.sleep(_PAUSE_S)
    with contextlib.suppress(OSError), open(os.path.join(family, _FOLDERS_FILE), "rb") as file:
        for path in filter(None, file.read().split(b"\0")):
            shutil.rmtree(path, ignore_errors=True)


def _iter_members(family: str) -> Iterator[int]:
    """Yield the ids of running processes, without this one, whose environment at their start names
    the family.
    """
    variable = f"\0{FAMILY_VARIABLE}={family}\0".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                # empty for a process that has ended and was not waited for
                if variable in b"\0" + file.read():
                    yield int(name)


def _is_resource_tracker(process: int) -> bool:
    """Whether a process is Python's resource tracker."""
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return b"resource_tracker" in file.read()


if __name__ == "__main__":
    if sys.stdin.buffer.read() != _DONE_MESSAGE:
        kill_tree(sys.argv[1])
        shutil.rmtree(sys.argv[1], ignore_errors=True)
