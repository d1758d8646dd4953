"""How much memory processes take, and how many more of a kind fit."""

from __future__ import annotations

import contextlib
import os

RESERVE = 0.2  # of the free memory is left to everything else


def resident(session: int) -> int:
    """Resident bytes of all processes of a session, pages that they share counted for each; 0 where the system does not say."""
    total = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended while we looked
            after_name = _text(f"/proc/{name}/stat").rsplit(")", 1)[1].split()  # state, parent, group, session, ...
            if int(after_name[3]) == session:
                total += int(_text(f"/proc/{name}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def fitting(each: int, free: int | None) -> int | None:
    """How many more processes of `each` bytes fit into `free` bytes, with a reserve; None where either is not known."""
    return int(free * (1 - RESERVE)) // each if each > 0 and free is not None else None


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / 2**30:.1f} GiB"


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
