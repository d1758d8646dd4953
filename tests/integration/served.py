"""The workbench's command as a user starts it, over folders with real profiles."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import outpace
from tests.support import profile_path

SOURCE = str(Path(outpace.__file__).parents[1])
NAMES = ("keras_fit", "jax_loop")


def logdir(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    for name in names:
        shutil.copytree(profile_path(name), folder / "plugins" / "profile" / name)
    return folder


def children(own: str, *, asked: bool | None = None) -> list[int]:
    """Processes of a process: all, or those for what is asked for, or those for verdicts."""
    found = [each for each in os.listdir("/proc") if each.isdigit() and _parent(each) == own]
    return [int(each) for each in found if asked is None or _arguments(each)[-1:] == ["0" if asked else "1"]]


def _arguments(process: str) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def _parent(process: str) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


class Served:
    """`outpace ui` as a user starts it."""

    def __init__(self, folder: Path | str, cache: Path, *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "outpace.cli", "ui", str(folder), "--no-browser", *more],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": SOURCE},
        )  # fmt: skip
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line)
        assert found is not None, line
        self.port, self.token = int(found[1]), found[2]

    def children(self, *, asked: bool | None = None) -> list[int]:
        """Its processes: all, or those for what is asked for, or those for verdicts."""
        return children(str(self.process.pid), asked=asked)

    def raw(self, data: bytes, seconds: float = 10) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            connection.sendall(data)
            connection.settimeout(seconds)
            answer = b""
            try:
                while not _whole(answer) and (block := connection.recv(1 << 16)):
                    answer += block
            except (TimeoutError, ConnectionResetError):
                pass
            return answer

    def get(self, path: str, seconds: float = 20, **headers: str) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)) as connection:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()


def _whole(answer: bytes) -> bool:
    """Whether all of an answer has come that says its length."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])
