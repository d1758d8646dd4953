# SPDX-License-Identifier: Apache-2.0
"""From an optimisation to the user's source with it, and the same in words, for those who make it
by hand; and what is kept as a unified diff.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from outpace._dataclass import dataclass
from outpace.capture.frames import CallSite
from outpace.capture.pipeline import PipelineRecorder
from outpace.model.errors import OutputError, UsageError
from outpace.model.files import write_atomically
from outpace.model.text import clean
from outpace.store.tree import relative_path
from outpace.tune.optimisations.knob import is_knob
from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import Unpatchable, row_of
from outpace.tune.program.program import Program

if TYPE_CHECKING:
    from outpace.tune.optimisations.knob import LoopKnob, ReaderKnob
    from outpace.tune.optimisations.optimisation import Optimisation, Rewrite
    from outpace.tune.patch.written import Edits


@dataclass(frozen=True)
class FileChange:
    """A file as it is and as it becomes."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class SourcePatch:
    """What is kept, in the user's own source. titles: the changes that it holds. said: what is
    known of them, in lines; they stand above the diff, where programs that apply it pass them over.
    """

    files: tuple[FileChange, ...]
    titles: tuple[str, ...]
    said: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, sources: Mapping[str, str], texts: Mapping[str, str], titles: tuple[str, ...], said: tuple[str, ...] = ()
    ) -> SourcePatch:
        """From what files were and become, by absolute path."""
        files = ((path, sources[path], new) for path, new in sorted(texts.items()))
        return cls(tuple(FileChange(path, old, new) for path, old, new in files if old != new), titles, said)

    @property
    def root(self) -> str:
        """The folder that names in the diff start from: the present one, or that of the files where
        one lies outside (patch takes no `..`).
        """
        here, folders = os.getcwd(), [os.path.dirname(os.path.abspath(change.path)) for change in self.files]
        return here if not folders or os.path.commonpath([here, *folders]) == here else os.path.commonpath(folders)

    @property
    def command(self) -> str:
        """The command that applies the diff, given on its standard input."""
        return "patch -p0" if self.root == os.getcwd() else f"patch -p0 -d {shlex.quote(self.root)}"

    def diff(self, root: str | None = None) -> str:
        """A unified diff, which `patch -p0` and `git apply -p0` take in the folder `root`
        (`self.root` by default).
        """
        head = "".join(f"# {clean(line)}\n" for line in self.said)
        return head + "".join(line for change in self.files for line in _diff(change, root or self.root))


def write_patch(patch: SourcePatch, path: Path, root: str | None = None) -> None:
    """Write the diff. No file of the user's is touched. Raises OutputError where `path` exists or
    cannot be written.
    """
    _write(path, patch.diff(root).encode("utf-8"))


def require_new(path: Path) -> None:
    """Raise OutputError where a patch could not be written at this place: best asked before the
    work that it is the result of.
    """
    if path.exists():
        raise OutputError(f"{path} exists and is not overwritten. Give another place, or remove it.")
    if path.parent.exists() and not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path} cannot be written: {path.parent} is read-only. Give another place.")


def _write(path: Path, content: bytes) -> None:
    require_new(path)
    with write_atomically(path, "The patch") as file:
        file.write(content)


def _diff(change: FileChange, root: str) -> Iterator[str]:
    name = Path(os.path.relpath(change.path, root)).as_posix()
    name += "\t" if " " in name else ""  # where patch takes a name with spaces to end
    old, new = (text.split("\n") for text in (change.old, change.new))
    lines = [[f"{line}\n" for line in text[:-1]] + ([text[-1]] if text[-1] else []) for text in (old, new)]
    for line in difflib.unified_diff(lines[0], lines[1], name, name):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def recipe(program: Program, each: Optimisation[Any], subject: Any, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """How to make a change in the source, in sentences."""
    if is_knob(each):
        words = each.keywords(program)
        if program.loop is not None:
            keywords = ", ".join(f"{name}={value}" for name, value in words.items())
            return (
                *(f"{place}: {each.practice}" for place in cast("LoopKnob", each).places(program)),
                *(f"compile(..., {keywords})" for _ in program.loop.models() if keywords),
            )
        said = ", ".join(f"{name}={value}" for name, value in words.items())
        return (f"{each.title}: {each.practice}" if each.reads or not words else f"compile(..., {said})",)
    return tuple(_in_words(patch, each.title, recorder) for patch in cast("Rewrite", each).patch(subject))


def _in_words(patch: Patch, title: str, recorder: PipelineRecorder | None) -> str:
    stage = next((s for s in recorder.stages if s.id == patch.call), None) if recorder is not None else None
    where = f"{relative_path(stage.file)}:{stage.line} {stage.op}" if stage is not None else title
    parts = [f"add {', '.join(f'{k}={v}' for k, v in patch.keywords.items())}"] if patch.keywords else []
    if patch.insert:
        parts.append(f"put {patch.insert} after it")
    if patch.after is not None:
        parts.append("take it out here")
    if patch.note:
        parts.append(patch.note)
    return f"{where}: {'; '.join(parts) or title}"


def edited(
    program: Program, each: Optimisation[Any], subject: Any, recorder: PipelineRecorder | None, called: CallSite | None
) -> tuple[FileChange, ...]:
    """An optimisation as an edit of the user's files; nothing is written. `subject`: what it is
    asked about. `called`: the line that calls fit. Raises Unpatchable where it cannot be written,
    UsageError when libcst is not installed.
    """
    try:
        from outpace.tune.patch.edit import Editor
        from outpace.tune.patch.source import SourceFile
        from outpace.tune.patch.step_edit import edit_class, write_compile
        from outpace.tune.patch.written import Edits
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        raise UsageError("Writing a patch needs libcst, which keeps the file's formatting. Run: pip install libcst") from None
    edits = dict[str, Edits]()

    def edits_of(path: str) -> Edits:
        path = os.path.abspath(path)
        if path not in edits:
            edits[path] = Edits(SourceFile(path))
        return edits[path]

    if not is_knob(each):
        patches = cast("Rewrite", each).patch(subject)
        if not patches:
            raise Unpatchable(each.practice)
        recorder = recorder or PipelineRecorder(False)  # without records no call of the pipeline is found
        edits = Editor.of(subject, recorder, called).edits(row_of(subject), patches)
    elif each.loops:
        cast("LoopKnob", each).edit(program, edits_of)
    elif each.reads:
        decorators = cast("ReaderKnob", each).decorators(program)
        edit_class(type(program.source.py_dataset), decorators, each.keywords(program), edits_of)
    else:
        write_compile(program.model, each.keywords(program), edits_of, called.file if called is not None else None)
    files = (_changed(edit) for _, edit in sorted(edits.items()))
    return tuple(file for file in files if file.old != file.new)


def _changed(edit: Edits) -> FileChange:
    path, new = edit.file.path, edit.text()
    compile(new, path, "exec", dont_inherit=True)  # an edit that does not parse is a fault of ours: it must not pass silently
    return FileChange(path, edit.file.text, new)
