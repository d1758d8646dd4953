"""Where baselines lie, and what they are called."""

from __future__ import annotations

import re
from pathlib import Path

from outpace.model.errors import NotFoundError, UsageError
from outpace.model.input_files import special_file_type
from outpace.model.text import format_suggestion

FOLDER = "outpace-baselines"
"""In the working directory, beside `outpace-logs`, and meant to be committed."""

ENDING = ".json"

_NAME = re.compile(r"(?!.*\.json$)[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def find_baselines(folder: str = FOLDER) -> list[str]:
    """The baselines of a folder, in the order of their names."""
    found = (path.name.removesuffix(ENDING) for path in Path(folder).glob(f"*{ENDING}") if path.is_file())
    return sorted(name for name in found if _NAME.fullmatch(name))


def baseline_path(name: str, folder: str = FOLDER) -> Path:
    """The file of a baseline, there or not. UsageError for a name that could lead elsewhere, or be
    taken for a path, and where what has it is no file.
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
    """The file of a baseline that is to be written; UsageError where one is there, unless `force`
    replaces it.
    """
    path = baseline_path(name, folder)
    if path.exists() and not force:
        raise UsageError(f"{path} exists. Give another name, or --force to replace it.")
    return path


def require_existing(name: str, folder: str = FOLDER) -> Path:
    """The file of a baseline that is there; NotFoundError where none is."""
    path = baseline_path(name, folder)
    if not path.is_file():
        there = find_baselines(folder)
        says = (
            f"{format_suggestion(name, there)} There are: {', '.join(there)}."
            if there
            else " 'outpace baseline save' makes one."
        )
        raise NotFoundError(f"There is no baseline {name} in {folder}.{says}")
    return path


def find_baseline(source: str) -> Path | None:
    """The file of the baseline that a side of a comparison is given by, its name or its path; None
    for anything else.

    UsageError for a name that is a path, too.
    """
    if source.endswith(ENDING) and "://" not in source:
        return Path(source)
    if not _NAME.fullmatch(source) or not baseline_path(source).is_file():
        return None
    if Path(source).exists():
        raise UsageError(f"{source} is a path and a baseline. Give ./{source} or {baseline_path(source)}.")
    return baseline_path(source)
