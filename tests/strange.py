"""What stands under the name of a file and is none, or none that anybody should read: each as a
function that makes it at a path.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def _socket(path: Path) -> None:
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(path.parent)  # the address of a socket is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def _to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "a pipe")
    path.symlink_to("a pipe")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


def link(place: str) -> Callable[[Path], None]:
    """Makes a link that leads to a place."""
    return lambda path: path.symlink_to(place)


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link to a pipe": _to_a_pipe,
    "socket": _socket,
    "folder": os.mkdir,
    "endless device": link("/dev/zero"),
    "device without content": link("/dev/null"),
    "terminal": link("/dev/tty"),
    "own input": link("/dev/stdin"),
    "own environment": link("/proc/self/environ"),
    "memory of the process": link("/proc/self/mem"),
    "endless file of the kernel": link("/proc/self/pagemap"),
    "memory of the machine": link("/proc/kcore"),
    "messages of the kernel": link("/proc/kmsg"),
    "link in a circle": lambda path: path.symlink_to(path.name),
    "link to nothing": link("/nowhere/at/all"),
    "link to its folder": link("."),
    "four terabytes of nothing": _sparse,
}
"""By what each is."""
