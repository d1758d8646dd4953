"""The one way to open what others have made: a regular file, no larger than one of its kind may be,
in the folders that were named.

A folder of profiles may hold anything under any name. A pipe waits for whoever writes into it, a
device has no end, opening one may do something, and a link leads anywhere. So nothing is opened
that is no file, no more is read than it held when it was opened, and where `confine_reads` says so,
nothing outside of some folders, wherever links lead. Standard library only: records are read in
training processes.
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
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # what takes its place meanwhile may be a pipe
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
    """What a file should be: its `name` in a sentence, and how many bytes one may have at most."""

    name: str
    max_bytes: int


PROFILE = FileKind("profile", 1 << 40)  # a large one stays in its file, and what it claims has a budget of its own
RECORD = FileKind("capture record", 64 * _MIB)
MONITOR_SERIES = FileKind("file of a monitor", 64 * _MIB)  # a year of lines
REPORT = FileKind("stored report", 512 * _MIB)
BASELINE = FileKind("baseline", 512 * _MIB)
RACE = FileKind("record of a race", 512 * _MIB)
SCRIPT = FileKind("script", 16 * _MIB)
VERDICT = FileKind("verdict", _MIB)


def open_file(path: str | os.PathLike[str], kind: FileKind) -> BufferedReader:
    """A file that is open for reading. Raises OSError, whose `strerror` says why, for what is no
    file, is too large, or lies elsewhere.

    It is looked at before it is opened, because opening a device may have an effect, and again as
    it is open.
    """
    _require_file(os.stat(path))
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115  # the caller's
    try:
        found = os.fstat(file.fileno())
        _require_file(found)
        if found.st_size > kind.max_bytes:
            raise OSError(
                errno.EFBIG, f"it has {found.st_size:,} bytes, more than the {kind.max_bytes:,} that a {kind.name} may have"
            )
        if _folders.get() is not None and not is_inside(_place_of(file.fileno(), path), _folders.get() or ()):
            raise OSError(errno.EACCES, "a link leads to it, out of the folders that were named")
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: str | os.PathLike[str], kind: FileKind) -> bytes:
    """What a file held when it was opened: files of the kernel, which have no size, hold nothing.
    Raises OSError as `open_file` does.
    """
    with open_file(path, kind) as file:
        return file.read(min(os.fstat(file.fileno()).st_size, kind.max_bytes)) or b""


def allocated_size(descriptor: int) -> int:
    """How many bytes of an open file are no hole: a hole takes no room, however long. All, where
    its file system knows of no holes.
    """
    size, found, end = os.fstat(descriptor).st_size, 0, 0
    if sys.platform == "win32":
        return size
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            found += end - begin
    except OSError as error:
        return found if error.errno == errno.ENXIO else size  # ENXIO: a hole is last
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return found


def format_error(error: Exception) -> str:
    """Why a file cannot be read, in the words of a sentence."""
    return getattr(error, "strerror", None) or str(error)


def special_file_type(path: str | os.PathLike[str]) -> str:
    """What is at a path that is neither file nor folder, as in "a pipe"; empty where nothing is."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "")
    except (OSError, ValueError):
        return ""


def allowed_folders() -> tuple[str, ...] | None:
    """The folders outside of which nothing is opened here; None for no such limit. Threads begin
    without one, and other processes.
    """
    return _folders.get()


@contextlib.contextmanager
def confine_reads(folders: Sequence[str] | None) -> Iterator[None]:
    """Within the block, open nothing that lies outside of some folders, whose links have been
    followed; None for no limit.
    """
    before = _folders.set(None if folders is None else tuple(folders))
    try:
        yield
    finally:
        _folders.reset(before)


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a path without links is that of one of the folders, or lies below one."""
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _require_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file")


def _place_of(file: int, path: str | os.PathLike[str]) -> str:
    """Where an open file lies: as the kernel has it, since the links of its path may lead elsewhere
    by now.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{file}")
    return os.path.realpath(os.fspath(path))
