"""A folder of files that belong together: it appears as a whole, in the place of an earlier one, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from outpace.model.errors import OutputError
from outpace.store.staging import sweep, unfinished


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str], what: str, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder to write into, which is renamed to `path` when the block ends; folders above it are made.

    What stood there before goes then: it is empty, or holds nothing but files that are `ours`. Where the block fails, or the process is ended,
    it stays as it was. Raises OutputError ("`what` cannot be written to ...") for everything else that stands there, and for every OSError.
    """
    target = os.path.realpath(path)
    try:
        _require_replaceable(target, path, what, ours)
        above = os.path.dirname(target)
        os.makedirs(above, exist_ok=True)
        sweep(above)
        prefix, suffix = unfinished()
        folder = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=above)
        try:
            yield Path(folder)
            _require_replaceable(target, path, what, ours)
            shutil.copymode(target if os.path.isdir(target) else above, folder)
            _put(folder, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{what} cannot be written to {path}: {error.strerror or error}. Choose another place.") from error


def _require_replaceable(target: str, path: str | os.PathLike[str], what: str, ours: Callable[[Path], bool]) -> None:
    if not os.path.lexists(target):
        return
    if not os.path.isdir(target):
        raise OutputError(f"{what} cannot be written to {path}: it is no folder. Choose another place.")
    if os.path.ismount(target) or os.path.samefile(target, os.getcwd()):
        raise OutputError(f"{what} cannot be written to {path}, which has to stay where it is. Give a folder inside of it.")
    other = next(
        (each for each in sorted(Path(target).iterdir()) if each.is_symlink() or not each.is_file() or not ours(each)), None
    )
    if other is not None:
        raise OutputError(
            f"{what} cannot be written to {path}: it holds {other.name}, and would be replaced as a whole. Give a new folder, or one "
            "that this command wrote."
        )


def _put(folder: str, target: str) -> None:
    """Rename a folder to a place; what stood there is put aside before, comes back where that fails, and goes where it does not."""
    if not os.path.isdir(target):
        os.rename(folder, target)
        return
    prefix, suffix = unfinished()
    aside = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=os.path.dirname(target))
    try:
        os.rename(target, os.path.join(aside, "before"))
        try:
            os.rename(folder, target)
        except BaseException:
            os.rename(os.path.join(aside, "before"), target)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
