"""The processes that a command starts, and those that they start: none outlives it, however it
ends. Standard library only.

Every member carries the family's folder in its environment, so that workers, daemons and
grandchildren are found after their parents have ended. The family ends with the command; where the
command is killed, a guard does it: this file as a program in a session of its own, which waits for
the end of a pipe. Members note folders that they made for a while (`register_folder`), which then
go too.
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
_MADE = "made"
_WELL = b"."  # what the guard reads where nothing is left to do
_GRACE = 25  # tries that Python's tracker of shared memory has, which removes what the others held and then ends by itself
_LOOKS = 2  # that find nobody: a process that has just been started shows no environment for a moment
_TRIES, _REST = 100, 0.02  # looks at the system's processes, seconds between two of them


class ProcessTree:
    """A context with a folder for the command's own files: processes started inside are members.
    When it is left all of them are ended, and what they noted is removed, unless they were
    released.
    """

    def __init__(self, detached: bool = False) -> None:
        """`detached`: what is started goes on by itself, and only the folder goes."""
        self.folder = ""
        self._released = detached
        self._outer: str | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ProcessTree:
        self.folder = tempfile.mkdtemp(prefix="outpace-")
        if self._released:
            return self
        self._outer = os.environ.pop(FAMILY_VARIABLE, None)  # the guard is no member
        with contextlib.suppress(OSError):  # without one a `kill -9` of this process leaves what it started
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
        """Let the members that still run go on by themselves: the script ended as it would have
        without this command.
        """
        self._released = True
        if os.environ.get(FAMILY_VARIABLE) == self.folder:
            del os.environ[FAMILY_VARIABLE]
            if self._outer is not None:
                os.environ[FAMILY_VARIABLE] = self._outer
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.write(_WELL)
                self._guard.stdin.close()
            self._guard.wait()
            self._guard = None


def register_folder(folder: str) -> str:
    """Note a folder that is to go when the family ends; returns it. Does nothing
    outside a family.
    """
    family = os.environ.get(FAMILY_VARIABLE)
    if family:
        with contextlib.suppress(OSError), open(os.path.join(family, _MADE), "ab") as file:
            file.write(os.fsencode(os.path.abspath(folder)) + b"\0")
    return folder


def kill_tree(family: str) -> None:
    """Kill the members of a family until none is left, then remove the folders that they noted."""
    missed = 0
    for tries in range(_TRIES):
        found = list(_members(family))
        for process in found:
            with contextlib.suppress(OSError):
                if tries > _GRACE or not _tracks(process):
                    os.kill(process, signal.SIGKILL)
        missed = 0 if found else missed + 1
        if missed == _LOOKS:
            break
        time.sleep(_REST)
    with contextlib.suppress(OSError), open(os.path.join(family, _MADE), "rb") as file:
        for path in filter(None, file.read().split(b"\0")):
            shutil.rmtree(path, ignore_errors=True)


def _members(family: str) -> Iterator[int]:
    """Processes that run and carry the family in the environment that they were started with, but
    for this one.
    """
    wanted = f"\0{FAMILY_VARIABLE}={family}\0".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in b"\0" + file.read():  # of a process that has ended, and is not yet waited for, it is empty
                    yield int(name)


def _tracks(process: int) -> bool:
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return b"resource_tracker" in file.read()


if __name__ == "__main__":
    if sys.stdin.buffer.read() != _WELL:
        kill_tree(sys.argv[1])
        shutil.rmtree(sys.argv[1], ignore_errors=True)
