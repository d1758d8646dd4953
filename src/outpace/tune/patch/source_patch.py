"""The patch of a program: every changed file, before and after, and what no patch can say."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.model.errors import OutputError
from outpace.model.files import whole


@dataclass(frozen=True)
class FileChange:
    """A file as it is and as it becomes; texts with the file's own line ends, `encoding` as the file declares it."""

    path: str
    old: str
    new: str
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Left:
    """A change that the patch does not hold: its title, why not, and how to make it by hand, in sentences."""

    title: str
    reason: str
    recipe: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        how = f" By hand: {'; '.join(self.recipe)}." if self.recipe else ""
        return f"{self.title} is not in the patch: {self.reason.rstrip('.')}.{how}"


@dataclass(frozen=True)
class SourcePatch:
    """What was proven, in the user's own source.

    titles: the changes that it holds. left: those that it does not. stages: the operations of the patched
    pipeline, from its source on. compiled: the arguments that compile gets, as source text.
    """

    files: tuple[FileChange, ...]
    titles: tuple[str, ...]
    left: tuple[Left, ...]
    stages: tuple[str | None, ...] = ()
    compiled: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The folder that names in the diff start from: the present one, or that of the files where one lies outside (patch takes no `..`)."""
        here, folders = os.getcwd(), [os.path.dirname(os.path.abspath(change.path)) for change in self.files]
        return here if not folders or os.path.commonpath([here, *folders]) == here else os.path.commonpath(folders)

    @property
    def command(self) -> str:
        """The command that applies the diff, given on its standard input."""
        return "patch -p0" if self.root == os.getcwd() else f"patch -p0 -d {shlex.quote(self.root)}"

    def diff(self, root: str | None = None) -> str:
        """A unified diff, which `patch -p0` and `git apply -p0` take in the folder `root` (`self.root` by default)."""
        return "".join(line for change in self.files for line in _diff(change, root or self.root))


def write_patch(patch: SourcePatch, path: Path, root: str | None = None) -> None:
    """Write the diff. No file of the user's is touched. Raises OutputError where `path` exists or cannot be written."""
    _write(path, patch.diff(root).encode("utf-8"))


def write_copies(patch: SourcePatch, folder: Path) -> tuple[Path, ...]:
    """Write the patched files, under their own names, into a folder that the caller gives. Raises OutputError where one exists."""
    base = os.path.commonpath([os.path.dirname(os.path.abspath(change.path)) for change in patch.files]) if patch.files else ""
    written = []
    for change in patch.files:
        target = folder / os.path.relpath(os.path.abspath(change.path), base)
        _write(target, change.new.encode(change.encoding))
        written.append(target)
    return tuple(written)


def require_new(path: Path) -> None:
    """Raise OutputError where a patch could not be written at this place: best asked before the work that it is the result of."""
    if path.exists():
        raise OutputError(f"{path} exists and is not overwritten. Give another place, or remove it.")
    if path.parent.exists() and not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path} cannot be written: {path.parent} is read-only. Give another place.")


def _write(path: Path, content: bytes) -> None:
    require_new(path)
    with whole(path, "The patch") as file:
        file.write(content)


def _diff(change: FileChange, root: str) -> Iterator[str]:
    name = Path(os.path.relpath(change.path, root)).as_posix()
    name += "\t" if " " in name else ""  # where patch takes a name with spaces to end
    old, new = (text.split("\n") for text in (change.old, change.new))
    lines = [[f"{line}\n" for line in text[:-1]] + ([text[-1]] if text[-1] else []) for text in (old, new)]
    for line in difflib.unified_diff(lines[0], lines[1], name, name):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
