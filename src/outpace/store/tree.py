# SPDX-License-Identifier: Apache-2.0
"""A small interface to folder trees, local (os) or remote (fsspec), with only what a log directory
needs.

Local paths do not go through fsspec: it costs 100 ms of import, and it makes every path absolute.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import math
import os
import shutil
import stat
from typing import Any, Protocol

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model.errors import NotFoundError, UsageError
from outpace.model.input_files import FileKind, read_file

_PACKAGES = {
    "http": "aiohttp requests",
    "https": "aiohttp requests",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "s3": "s3fs",
    "abfs": "adlfs",
    "az": "adlfs",
}
_LOCAL = compile_lazily(r"^(file|local)://")
_URL = compile_lazily(r"^[A-Za-z][A-Za-z0-9+.-]*(::|://)")


@dataclass(frozen=True)
class FileEntry:
    """A file of a folder.

    name: file name.
    size: size, bytes.
    modified: time of last change, seconds since 1970; 0 where unknown.
    """

    name: str
    size: int
    modified: float


class Tree(Protocol):
    """A location in a file system. `root` is that location, in the form that the methods expect."""

    root: str

    def is_file(self, path: str) -> bool:
        """Whether there is a file at the path."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at the path."""

    def files(self, folder: str) -> list[FileEntry]:
        """Return the files directly in a folder."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder."""

    def modified_time(self, folder: str) -> float:
        """Return when an entry of the folder was last added, removed or renamed, in seconds since
        1970; infinity where the store does not report it.
        """

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: str, kind: FileKind) -> bytes:
        """Return the content of a file of the given kind. Raises OSError where the path is no file,
        or the file is larger than that kind may be.
        """

    def download(self, path: str, target: str) -> None:
        """Copy a file to a local path."""

    def upload(self, path: str, target: str) -> None:
        """Copy a local file to a path."""

    def remove(self, folder: str) -> None:
        """Remove a folder with all its content."""

    def with_scheme(self, path: str) -> str:
        """Return a path as the user writes it, with its scheme."""

    def without_scheme(self, path: str) -> str:
        """Return a path as the methods of this tree expect it, without its scheme."""


def relative_path(path: str) -> str:
    """Return a path relative to the working directory, where that is shorter. URLs are returned
    unchanged.
    """
    if not os.path.isabs(path):
        return path
    with contextlib.suppress(OSError, ValueError):  # the working directory may be gone
        return min(path, os.path.relpath(path), key=len)
    return path


def is_url(path: str) -> bool:
    """Whether a location is a URL rather than a local path."""
    return bool(_URL.match(path))


def local_path(path: str) -> str | None:
    """Return the local path of a location, which may be written as a `file://` or `local://` URL;
    None for a remote one.
    """
    plain = _LOCAL.sub("", path)
    return None if is_url(plain) else os.path.expanduser(plain)


def open_tree(path: str) -> Tree:
    """Return the tree at a local path or URL. Raises UsageError when no installed package
    understands the URL, NotFoundError when it cannot be reached.
    """
    return _Remote(path) if is_url(path) else _Local(path)


class _Local:
    """A local folder; paths are used as the user wrote them."""

    def __init__(self, place: str) -> None:
        self.root = os.path.expanduser(place)

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def files(self, folder: str) -> list[FileEntry]:
        entries = []
        for name in self._names(folder):
            with contextlib.suppress(OSError):  # the file has been removed, or is a link to nothing or to itself
                status = os.stat(os.path.join(folder, name))
                if stat.S_ISREG(status.st_mode):
                    entries.append(FileEntry(name, status.st_size, status.st_mtime))
        return entries

    def folders(self, folder: str) -> list[str]:
        names = []
        # scandir() knows the type of each entry without a further system call.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # a link to itself
                    if not entry.name.startswith(".") and entry.is_dir():
                        names.append(entry.name)
        return sorted(names)

    def modified_time(self, folder: str) -> float:
        try:
            return os.stat(folder).st_mtime
        except OSError:
            return math.inf

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def read(self, path: str, kind: FileKind) -> bytes:
        return read_file(path, kind)

    def download(self, path: str, target: str) -> None:
        shutil.copyfile(path, target)

    def upload(self, path: str, target: str) -> None:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        shutil.copyfile(path, target)

    def remove(self, folder: str) -> None:
        shutil.rmtree(folder)

    def with_scheme(self, path: str) -> str:
        return path

    def without_scheme(self, path: str) -> str:
        return path

    @staticmethod
    def _names(folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except OSError:
            return []


def required_packages(url: str) -> str:
    """Return the packages that pip must install for fsspec to open a URL."""
    protocol = url.split(":", 1)[0]
    return _PACKAGES.get(protocol, f"fsspec[{protocol}]")


class _Remote:
    """A location that fsspec opens; paths inside have no protocol, `with_scheme` adds it."""

    def __init__(self, place: str) -> None:
        import fsspec  # imported here, because a local report must not pay for it

        try:
            self.fs, self.root = fsspec.core.url_to_fs(place)
        except ImportError:
            packages = required_packages(place)
            raise UsageError(
                f"{place} cannot be opened: a package is missing, which 'pip install {packages}' installs."
            ) from None
        except ValueError as error:
            raise UsageError(f"{place} cannot be opened: {error}.") from None
        except OSError as error:
            raise NotFoundError(f"{place} cannot be reached: {error}.") from error
        # fsspec caches its file systems, some of which would otherwise return their first listing
        # for ever.
        self.fs.invalidate_cache()

    def is_file(self, path: str) -> bool:
        return bool(self.fs.isfile(path))

    def is_folder(self, path: str) -> bool:
        return bool(self.fs.isdir(path))

    def files(self, folder: str) -> list[FileEntry]:
        named = [(self._name(info), info) for info in self._list(folder) if info.get("type") == "file"]
        return [
            FileEntry(name, int(info.get("size") or 0), _modified_time(info))
            for name, info in sorted(named, key=lambda x: x[0])
        ]

    def folders(self, folder: str) -> list[str]:
        names = (self._name(info) for info in self._list(folder) if info.get("type") == "directory")
        return sorted(name for name in names if not name.startswith("."))

    def modified_time(self, folder: str) -> float:
        return math.inf

    def size(self, path: str) -> int:
        return int(self.fs.size(path) or 0)

    def read(self, path: str, kind: FileKind) -> bytes:
        info = self.fs.info(path)
        if info["type"] != "file":  # some stores are local folders
            raise OSError(errno.EINVAL, "it is not a file")
        with self.fs.open(path, "rb") as file:
            data = bytes(file.read(kind.max_bytes + 1))
        if len(data) > kind.max_bytes:
            raise OSError(errno.EFBIG, f"it has more than the {kind.max_bytes:,} bytes that a {kind.name} may have")
        return data

    def download(self, path: str, target: str) -> None:
        self.fs.get_file(path, target)

    def upload(self, path: str, target: str) -> None:
        self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        self.fs.put_file(path, target)

    def remove(self, folder: str) -> None:
        self.fs.rm(folder, recursive=True)

    def with_scheme(self, path: str) -> str:
        return str(self.fs.unstrip_protocol(path))

    def without_scheme(self, path: str) -> str:
        return str(self.fs._strip_protocol(path))

    def _list(self, folder: str) -> list[dict[str, Any]]:
        try:
            return list(self.fs.ls(folder, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return []

    @staticmethod
    def _name(info: dict[str, Any]) -> str:
        return str(info["name"]).rstrip("/").rpartition("/")[2]


def _modified_time(info: dict[str, Any]) -> float:
    """Return a file's time from whichever key its store uses, in seconds since 1970; 0 where it has
    none.
    """
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, str):
            try:
                return datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
            except ValueError:
                continue
    return 0.0
