# SPDX-License-Identifier: Apache-2.0
"""Opening of untrusted files: only regular files, no larger than their kind allows, and only in
allowed folders.

A folder of profiles may contain anything under any name. A pipe waits for its writer, a device has
no end, opening a device may have an effect, and a link may lead anywhere. So only regular files are
opened, no more is read than a file's size at its opening, and within `confine_reads` nothing is
opened outside of the allowed folders, wherever links lead. Standard library only: records are read
in training processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from io import BufferedReader

from outpace._dataclass import dataclass

_MIB = 1 << 20
# Flags that open a pipe without waiting: one may replace the file between its check and its opening
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_folders: ContextVar[tuple[str, ...] | None] = ContextVar("folders", default=None)


@dataclass(frozen=True)
class FileKind:
    """Kind of an expected file: its `name` for sentences, and the maximum size in bytes."""

    name: str
    max_bytes: int


PROFILE = FileKind("profile", 1 << 40)  # a large profile is not loaded, and its decoding has a memory budget of its own
RECORD = FileKind("capture record", 64 * _MIB)
MONITOR_SERIES = FileKind("file of a monitor", 64 * _MIB)  # enough for the lines of a year
REPORT = FileKind("stored report", 512 * _MIB)
BASELINE = FileKind("baseline", 512 * _MIB)
RACE = FileKind("record of a race", 512 * _MIB)
LOG = FileKind("log", 64 * _MIB)
SCRIPT = FileKind("script", 16 * _MIB)
VERDICT = FileKind("verdict", _MIB)
CPU_PEAKS = FileKind("file of measured peaks", _MIB)


def open_file(path: str | os.PathLike[str], kind: FileKind) -> BufferedReader:
    """Return the file opened for reading. Raises OSError, whose `strerror` says why, for what is no
    regular file, is too large, or lies outside of the allowed folders.

    The type is checked before the file is opened, because opening a device may have an effect, and
    again when it is open.
    """
    _require_file(os.stat(path))
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115  # the caller closes it
    try:
        status = os.fstat(file.fileno())
        _require_file(status)
        if status.st_size > kind.max_bytes:
            raise OSError(
                errno.EFBIG, f"it has {status.st_size:,} bytes, more than the {kind.max_bytes:,} that a {kind.name} may have"
            )
        if _folders.get() is not None and not is_inside(_place_of(file.fileno(), path), _folders.get() or ()):
            raise OSError(errno.EACCES, "a link leads to it, out of the folders that were named")
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: str | os.PathLike[str], kind: FileKind) -> bytes:
    """Return the content of a file, up to its size when it was opened; empty for the kernel's
    virtual files, whose size is 0. Raises OSError as `open_file` does.
    """
    with open_file(path, kind) as file:
        return file.read(min(os.fstat(file.fileno()).st_size, kind.max_bytes)) or b""


def allocated_size(descriptor: int) -> int:
    """Return how many bytes of an open file are allocated, not part of a hole (holes take no space
    on the disk); the whole size where the file system does not report holes.
    """
    size, allocated, end = os.fstat(descriptor).st_size, 0, 0
    if sys.platform == "win32":
        return size
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            allocated += end - begin
    except OSError as error:
        return allocated if error.errno == errno.ENXIO else size  # ENXIO: the file ends in a hole
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return allocated


def format_error(error: Exception) -> str:
    """Return the reason why a file cannot be read, as a part of a sentence."""
    return getattr(error, "strerror", None) or str(error)


def special_file_type(path: str | os.PathLike[str]) -> str:
    """Return the type of a path that is no regular file, as in "a pipe"; empty for a regular file
    and where nothing exists.
    """
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "")
    except (OSError, ValueError):
        return ""


def allowed_folders() -> tuple[str, ...] | None:
    """Return the folders outside of which nothing may be opened in this context; None for no limit.
    New threads and processes start without a limit.
    """
    return _folders.get()


@contextlib.contextmanager
def confine_reads(folders: Sequence[str] | None) -> Iterator[None]:
    """Within the block, allow files to be opened only in `folders`, which are paths without links;
    None for no limit.
    """
    before = _folders.set(None if folders is None else tuple(folders))
    try:
        yield
    finally:
        _folders.reset(before)


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether `path`, which has no links, is one of the folders or lies below one."""
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _require_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a file")


def _place_of(file: int, path: str | os.PathLike[str]) -> str:
    """Return the path of an open file. On Linux the kernel reports it, because the links of `path`
    may lead elsewhere by now.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{file}")
    return os.path.realpath(os.fspath(path))
