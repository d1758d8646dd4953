# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of a file: the old content stays until the new one is complete, and no temporary
file is left behind. Also the reading of JSON files.
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

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # flags that refuse an existing file and a link
_LEFT = 3600  # seconds since the last change after which a temporary file counts as abandoned


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str], subject: str) -> Iterator[IO[bytes]]:
    """Yield a file to write into, which appears at `path` when the block ends. Missing folders are
    created.

    The file is written in the same folder under a name that nobody can guess, and removed where the
    block fails. A link at `path` stays and its target is replaced; a pipe or a device is written to
    directly. Raises OutputError ("`subject` cannot be written to ...") for every OSError.
    """
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target):
            with open(target, "wb") as file:
                yield file
            return
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        name = os.path.basename(target)[:50]  # file systems limit the whole name to 255 bytes
        _sweep(folder, name)
        temporary = os.path.join(folder, f".writing-{os.urandom(8).hex()}-{name}.tmp")
        try:  # begins before the file is created, since a signal may come at the moment of its creation
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
    """Remove abandoned temporary files of `name`, which killed processes left in the folder."""
    for path in glob.glob(os.path.join(glob.escape(folder), f".writing-{'[0-9a-f]' * 16}-{glob.escape(name)}.tmp")):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(path).st_mtime > _LEFT:
                os.unlink(path)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text from an untrusted source. Raises ValueError for invalid JSON,
    also for JSON that is nested more deeply than Python reads.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str], kind: FileKind) -> Any:
    """Return the value of a JSON file of the given kind. Raises NotFoundError where the file cannot
    be read, ProfileError where it is no JSON.
    """
    try:
        return parse_json(read_file(path, kind).decode("utf-8"))
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ProfileError(f"{path} is no JSON: {error}.") from error


def umask() -> int:
    """Return the process's umask. It can only be read by setting it; the value that is set for that
    moment (0o077) creates no file that others can read.
    """
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
