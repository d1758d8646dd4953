# SPDX-License-Identifier: Apache-2.0
"""What is mounted where, and what a guard does with it. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from outpace._dataclass import dataclass

# File systems in which no files of the user's are: they show the kernel, devices, or belong to a
# daemon.
_KERNELS = frozenset(
    {
        *(
            "autofs",
            "binfmt_misc",
            "bpf",
            "cgroup",
            "cgroup2",
            "configfs",
            "debugfs",
            "devpts",
            "devtmpfs",
            "efivarfs",
            "fusectl",
            "hugetlbfs",
        ),
        *("mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"),
    }
)
REAL = ("/proc", "/sys", "/dev")  # with all that is mounted there, but for SHARED
SHARED = "/dev/shm"
DAEMONS = "/run"  # sockets can be connected to in a read-only place, and not behind an overlay


@dataclass(frozen=True)
class Mount:
    """One mount that can be seen. options: of the mount itself, as `rw` and `nosuid`."""

    place: str
    kind: str
    options: frozenset[str]

    @property
    def writable(self) -> bool:
        """Whether files of the user's can be written there."""
        return "ro" not in self.options and self.kind not in _KERNELS


def mounts() -> tuple[Mount, ...]:
    """All mounts of this process, outer ones first; of several at one place, the last, which is
    seen.
    """
    with open("/proc/self/mountinfo", "rb") as file:
        found = {each.place: each for each in map(_mount, file.read().splitlines())}
    return tuple(found[place] for place in sorted(found, key=lambda place: (place.count("/") if place != "/" else 0, place)))


def _mount(line: bytes) -> Mount:
    head, _, tail = line.partition(b" - ")
    parts = head.split(b" ")
    place = parts[4].decode("unicode_escape").encode("latin-1")  # spaces and the like stand as octal numbers
    own, file_system = parts[5].decode().split(","), tail.split(b" ")[2].decode(errors="replace").split(",")
    return Mount(os.fsdecode(place), tail.split(b" ")[0].decode(), frozenset({*own, *({"ro"} & set(file_system))}))


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def ancestors(path: str, folder: str) -> Iterator[str]:
    """Folders from below `folder` down to `path` itself, outer ones first."""
    parts = os.path.relpath(path, folder).split(os.sep)
    for at in range(len(parts)):
        yield os.path.join(folder, *parts[: at + 1])


def outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie in no other."""
    found: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(below(path, other) for other in found):
            found.append(path)
    return found
