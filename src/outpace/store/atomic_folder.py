# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of a folder of files that belong together: it appears as a whole, possibly in
place of an earlier one, or not at all.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from outpace.model.errors import OutputError
from outpace.model.files import umask
from outpace.store.staging import NEW_FOLDER, PREVIOUS_FOLDER, create_hidden_folder, remove_hidden_folder, remove_stale_folders


@contextlib.contextmanager
def write_folder_atomically(
    path: str | os.PathLike[str], subject: str, is_replaceable: Callable[[Path], bool]
) -> Iterator[Path]:
    """Yield a folder to write into, which is renamed to `path` when the block ends. Missing parent
    folders are created.

    A folder that exists at `path` is then replaced: it must be empty, or contain only files for
    which `is_replaceable` is true. It stays as it was where the block fails or the process ends
    before. Raises OutputError ("`subject` cannot be written to ...") where anything else exists at
    `path`, and where the folder cannot be created or renamed.
    """
    target = os.path.realpath(path)
    with _output_errors(path, subject):
        _require_replaceable(target, path, subject, is_replaceable)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        remove_stale_folders(os.path.dirname(target))
        hidden, lock = create_hidden_folder(os.path.dirname(target))
    new, aside = os.path.join(hidden, NEW_FOLDER), os.path.join(hidden, PREVIOUS_FOLDER)
    try:
        with _output_errors(path, subject):
            os.mkdir(new)
        yield Path(new)
        with _output_errors(path, subject):
            _require_replaceable(target, path, subject, is_replaceable)
            os.chmod(new, stat.S_IMODE(os.stat(target).st_mode) if os.path.isdir(target) else 0o777 & ~umask())
            if os.path.isdir(target):
                os.mkdir(aside)
                os.rename(target, os.path.join(aside, os.path.basename(target)))
            os.rename(new, target)
    # A signal may arrive between the two renames: the previous folder is then moved back. After a
    # kill, the next sweep does that, where files can be locked.
    finally:
        with _output_errors(path, subject):
            remove_hidden_folder(hidden, lock)


@contextlib.contextmanager
def _output_errors(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn an OSError of the block into an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{what} cannot be written to {path}: {error.strerror or error}. Choose another place.") from error


def _require_replaceable(target: str, path: str | os.PathLike[str], what: str, ours: Callable[[Path], bool]) -> None:
    """Raise OutputError where `target` exists and must not be replaced: it is no folder, a mount
    point or the working directory, or it contains anything other than files for which `ours` is
    true.
    """
    if not os.path.lexists(target):
        return
    if not os.path.isdir(target):
        raise OutputError(f"{what} cannot be written to {path}: it is no folder. Choose another place.")
    if os.path.ismount(target) or os.path.samefile(target, os.getcwd()):
        raise OutputError(f"{what} cannot be written to {path}, which has to stay where it is. Give a folder inside of it.")
    other = next(
        (entry for entry in sorted(Path(target).iterdir()) if entry.is_symlink() or not entry.is_file() or not ours(entry)),
        None,
    )
    if other is not None:
        raise OutputError(
            f"{what} cannot be written to {path}: it holds {other.name}, and would be replaced as a whole. Give a new folder, or one "
            "that this command wrote."
        )
