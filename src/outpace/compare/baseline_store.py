# SPDX-License-Identifier: Apache-2.0
"""Folder, names and paths of baselines."""

from __future__ import annotations

from pathlib import Path

from outpace._lazy import compile_lazily
from outpace.model.errors import NotFoundError, UsageError
from outpace.model.input_files import special_file_type
from outpace.model.text import format_suggestion

FOLDER = "outpace-baselines"
"""Folder of baselines in the working directory, next to `outpace-logs`; it is meant to be
committed.
"""

ENDING = ".json"

_NAME = compile_lazily(r"(?!.*\.json$)[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def find_baselines(folder: str = FOLDER) -> list[str]:
    """Return the paths of a folder's baselines, sorted by name."""
    names = (path.name.removesuffix(ENDING) for path in Path(folder).glob(f"*{ENDING}") if path.is_file())
    return sorted(name for name in names if _NAME.fullmatch(name))


def baseline_path(name: str, folder: str = FOLDER) -> Path:
    """Return the path of a baseline's file, which need not exist.

    Raises UsageError for a name that could lead to another folder or be mistaken for a path, and
    where something other than a file has this path.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r:.120} cannot name a baseline. Use at most 100 letters, digits, '.', '_' and '-', no '.' or '-' first, no {ENDING}."
        )
    path = Path(folder, name + ENDING)
    if kind := special_file_type(path):
        raise UsageError(f"{path} is {kind}, and a baseline is a file. Move it away, or give another name.")
    return path


def require_free(name: str, folder: str = FOLDER, *, force: bool = False) -> Path:
    """Return the path of a baseline that is about to be written. Raises UsageError where it exists
    already, unless `force` is set and it will be replaced.
    """
    path = baseline_path(name, folder)
    if path.exists() and not force:
        raise UsageError(f"{path} exists. Give another name, or --force to replace it.")
    return path


def require_existing(name: str, folder: str = FOLDER) -> Path:
    """Return the path of an existing baseline. Raises NotFoundError where it does not exist."""
    path = baseline_path(name, folder)
    if not path.is_file():
        names = find_baselines(folder)
        says = (
            f"{format_suggestion(name, names)} There are: {', '.join(names)}."
            if names
            else " 'outpace baseline save' makes one."
        )
        raise NotFoundError(f"There is no baseline {name} in {folder}.{says}")
    return path


def find_baseline(source: str) -> Path | None:
    """Return the path of the baseline that `source` names, by its name or its path; None where
    `source` is anything else.

    Raises UsageError for a name that is also a path.
    """
    if source.endswith(ENDING) and "://" not in source:
        return Path(source)
    if not _NAME.fullmatch(source) or not baseline_path(source).is_file():
        return None
    if Path(source).exists():
        raise UsageError(f"{source} is a path and a baseline. Give ./{source} or {baseline_path(source)}.")
    return baseline_path(source)
