# SPDX-License-Identifier: Apache-2.0
"""The doctor's only access to the machine, so that a test can replace it by the recorded output of
another machine.
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
    """Result of a command that ended: exit code (minus the signal number where a signal ended it,
    127 when the command does not exist), its output, and its duration in seconds.
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
        """The environment variables."""
        return os.environ

    @property
    def uid(self) -> int:
        """The user's numeric id; 0 is root."""
        if sys.platform == "win32":  # Windows has no numeric user ids
            return 1
        return os.geteuid()

    def run(self, command: Sequence[str], timeout: float = 30.0, variables: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command without input, with the environment variables `variables` added; a command
        that exceeds its time limit is ended with its children.
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
        """Return the text of a file; None when it does not exist or may not be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def list_folder(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted; none when it does not exist."""
        try:
            return tuple(sorted(os.listdir(folder)))
        except OSError:
            return ()

    def real_path(self, path: str) -> str:
        """Return the path with all symbolic links resolved."""
        return os.path.realpath(path)

    def load_error(self, library: str) -> str | None:
        """Return the dynamic linker's error for a library; None when it loads. Loading is tried in
        a process of its own, which it may crash.
        """
        result = self.run([sys.executable, "-c", _LOAD, library], 30.0)
        if result.code == 0:
            return None
        return (result.err.strip().splitlines() or [f"loading it ended with code {result.code}"])[-1].removeprefix("OSError: ")

    def write_error(self, folder: str) -> int | None:
        """Return the `errno` of creating a folder (with its parents) and writing 64 KiB there;
        None when that works. Everything written is removed.
        """
        created = _first_missing(folder)
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
            while created is not None and folder.startswith(created):
                with contextlib.suppress(OSError):  # another process may have written a file there meanwhile
                    os.rmdir(folder)
                folder = os.path.dirname(folder)

    def free_bytes(self, folder: str) -> int | None:
        """Return the free space in bytes of the file system that a folder is on, or would be on;
        None when it is unknown.
        """
        while not os.path.exists(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            return None


def _first_missing(folder: str) -> str | None:
    """Return the topmost folder on the path to `folder` that does not exist yet."""
    missing = None
    while not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """End a process and everything it started; return what it had written."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    out, err = process.communicate()
    return out, err
