# SPDX-License-Identifier: Apache-2.0
"""Starts processes of a tuning, and waits for them: `Forks` where a process with the frameworks can
be forked, else plainly.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import IO, Any, Protocol

from outpace._dataclass import dataclass
from outpace.tune.starts.imports import Imports

SERVER = "outpace.tune.starts.server"
NONE = b"none"  # its answer where it can fork none


class Process(Protocol):
    """A process that was started, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it is over. Raises subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """End it."""


def _plainly(
    module: str,
    arguments: Sequence[str],
    output: IO[bytes],
    errors: IO[bytes],
    environment: Mapping[str, str],
    folder: str | None = None,
    passed: Sequence[int] = (),
    session: bool = False,
) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL, stdout=output, stderr=errors, pass_fds=passed, start_new_session=session, cwd=folder, env=dict(environment),
    )  # fmt: skip


@dataclass(eq=False)
class _Fork:
    """A process that another one forked, which tells of it."""

    pid: int
    _told: socket.socket
    _code: int | None = None

    def poll(self) -> int | None:
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def kill(self) -> None:
        if self.poll() is None:  # its number is not given away before we have read that it is over
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self._code is None:
            self._told.settimeout(timeout)
            try:
                said = self._told.recv(16)
            except (BlockingIOError, TimeoutError):
                return None
            self._code = int(said or -signal.SIGKILL)  # who tells of it was ended
            self._told.close()
        return self._code


@dataclass(eq=False)
class Forks:
    """What starts processes of one script. imports: what it was seen to import; as long as that is
    nothing they start plainly. Ends with its context, and the processes that can be forked with it.
    """

    imports: Imports = Imports()
    _servers: dict[frozenset[tuple[str, str]], _Server | None] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *details: object) -> None:
        for each in filter(None, self._servers.values()):
            each.close()
        self._servers.clear()

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        output: IO[bytes],
        errors: IO[bytes],
        environment: Mapping[str, str],
        folder: str | None = None,
        passed: Sequence[int] = (),
        session: bool = False,
    ) -> Process:
        """`python -m MODULE ARGUMENTS`. passed: descriptors that it inherits. session: whether it
        begins one. Raises OSError.
        """
        server = self._server(environment) if self.imports.names and sys.platform == "linux" else None
        request = {
            "module": module, "arguments": list(arguments), "environment": dict(environment), "folder": folder or os.getcwd(),
            "passed": [1, 2, *passed], "session": session,
        }  # fmt: skip
        made = server.fork(request, [output.fileno(), errors.fileno(), *passed]) if server is not None else None
        return made or _plainly(module, arguments, output, errors, environment, folder, passed, session)

    def _server(self, environment: Mapping[str, str]) -> _Server | None:
        key = frozenset(environment.items())
        with self._making:
            if key not in self._servers:
                with contextlib.suppress(OSError):
                    self._servers[key] = _Server.begun(environment, self.imports)
            return self._servers.get(key)


@dataclass(eq=False)
class _Server:
    """A process that has imported the frameworks, or is about to."""

    process: subprocess.Popen[bytes]
    asked: socket.socket

    @classmethod
    def begun(cls, environment: Mapping[str, str], imports: Imports) -> _Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            plan = json.dumps({"asked": theirs.fileno(), "names": imports.names, "changed": dict(imports.changed)})
            process = subprocess.Popen(
                [sys.executable, "-m", SERVER, plan], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),), env=dict(environment), start_new_session=True,
            )  # fmt: skip
        return cls(process, ours)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> _Fork | None:
        """A process as asked for; None where this one can make none (any more)."""
        told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with (
                theirs,
                open(os.memfd_create("request"), "r+b") as file,
            ):  # a message has a limit, and an environment may be long
                file.write(json.dumps(request).encode())
                file.flush()
                socket.send_fds(self.asked, [b"fork"], [theirs.fileno(), file.fileno(), *descriptors])
            said = told.recv(16)
        except OSError:
            said = b""
        if said in (b"", NONE):
            told.close()
            return None
        return _Fork(int(said), told)

    def close(self) -> None:
        """Let it end."""
        self.asked.close()
        self.process.kill()
        self.process.wait()
