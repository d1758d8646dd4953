"""Writing a file whole: what stood there before stays until the new one is complete, and nothing
else is left behind. Reading one of JSON.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from collections.abc import Iterator
from typing import IO, Any

from outpace.model.errors import NotFoundError, OutputError, ProfileError
from outpace.model.input_files import FileKind, read_file

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # which no link gets past
_LEFT = 3600  # seconds without a change, after which nobody writes a file any more


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str], subject: str) -> Iterator[IO[bytes]]:
    """A file to write into, which appears at `path` when the block ends; folders that are missing
    are made.

    It is written beside its place under a name that nobody can guess, and removed where the block
    fails. A link keeps pointing where it does; a pipe or a device is written to as it is. Raises
    OutputError ("`subject` cannot be written to ...") for every OSError.
    """
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target):
            with open(target, "wb") as file:
                yield file
            return
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        name = os.path.basename(target)[:50]  # file systems allow 255 bytes in all
        _sweep(folder, name)
        temporary = os.path.join(folder, f".writing-{os.urandom(8).hex()}-{name}.tmp")
        try:  # from before it is there: a signal may come at the moment in which it is made
            with open(os.open(temporary, _NEW, 0o600), "wb") as file:
                yield file
            os.chmod(temporary, 0o666 & ~umask())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise OutputError(f"{subject} cannot be written to {path}: {error.strerror or error}. Choose another place.") from error


def _sweep(folder: str, name: str) -> None:
    """Remove what processes that were killed have left of a file."""
    for path in glob.glob(os.path.join(glob.escape(folder), f".writing-{'[0-9a-f]' * 16}-{glob.escape(name)}.tmp")):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(path).st_mtime > _LEFT:
                os.unlink(path)


def parse_json(text: str | bytes) -> Any:
    """What JSON from elsewhere says. ValueError for whatever is none, also for what is nested more
    deeply than Python reads.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str], kind: FileKind) -> Any:
    """What a file of JSON holds, of some kind. NotFoundError where it cannot be read, ProfileError
    where it is none.
    """
    try:
        return parse_json(read_file(path, kind).decode("utf-8"))
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ProfileError(f"{path} is no JSON: {error}.") from error


def umask() -> int:
    """The process's umask, which can only be read by setting it; the new file is one that nobody
    else can read.
    """
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
