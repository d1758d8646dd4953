"""The one door through which the doctor sees the machine, so that a test can show it the recorded
texts of another one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from outpace._dataclass import dataclass

_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


@dataclass(frozen=True)
class CommandResult:
    """A command that ended: exit code (minus the number of the signal that ended it, 127 when it is
    not there), its output, seconds.
    """

    code: int
    out: str
    err: str
    seconds: float = 0.0
    timed_out: bool = False


class System:
    """The machine that Outpace runs on."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables."""
        return os.environ

    @property
    def uid(self) -> int:
        """The user's number; 0 is root."""
        if sys.platform == "win32":  # which has none
            return 1
        return os.geteuid()

    def run(self, command: Sequence[str], timeout: float = 30.0, variables: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command without input, with `variables` environment variables; one that takes too
        long is ended with its children.
        """
        start = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(variables or {})},
                start_new_session=True,
            )
        except OSError as error:
            return CommandResult(127, "", str(error))
        late = False
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            late = True
            out, err = _end(process)
        except BaseException:  # Ctrl-C: the command has a session of its own and would live on
            _end(process)
            raise
        seconds = time.monotonic() - start
        return CommandResult(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), seconds, late)

    def read(self, path: str) -> str | None:
        """Text of a file; None when it is not there or may not be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def list_folder(self, folder: str) -> tuple[str, ...]:
        """Names in a folder, sorted; none when it is not there."""
        try:
            return tuple(sorted(os.listdir(folder)))
        except OSError:
            return ()

    def real_path(self, path: str) -> str:
        """The path that symbolic links lead to."""
        return os.path.realpath(path)

    def load_error(self, library: str) -> str | None:
        """What the dynamic linker says against a library, None when it loads; tried in a process of
        its own, which it may crash.
        """
        done = self.run([sys.executable, "-c", _LOAD, library], 30.0)
        if done.code == 0:
            return None
        return (done.err.strip().splitlines() or [f"loading it ended with code {done.code}"])[-1].removeprefix("OSError: ")

    def write_error(self, folder: str) -> int | None:
        """The `errno` of making a folder (with its parents) and writing 64 KiB there, None when
        that works; leaves no trace.
        """
        made = _first_missing(folder)
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"\0" * 65536)
                file.flush()
                os.fsync(file.fileno())
            return None
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            while made is not None and folder.startswith(made):
                with contextlib.suppress(OSError):  # somebody else may have put something there meanwhile
                    os.rmdir(folder)
                folder = os.path.dirname(folder)

    def free_bytes(self, folder: str) -> int | None:
        """Free space in bytes of the file system that a folder is on, or would be on; None when it
        cannot be told.
        """
        while not os.path.exists(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            return None


def _first_missing(folder: str) -> str | None:
    """The topmost folder on the way to `folder` that does not exist yet."""
    missing = None
    while not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """End a process and everything it started; returns what it had written."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    out, err = process.communicate()
    return out, err
