"""`patch_of`: from the changes of a variant to the user's source with them, as a unified diff; and the same in words, for those who make them
by hand.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.capture.pipeline import PipelineRecorder
from outpace.model.errors import OutputError, UsageError
from outpace.model.files import whole
from outpace.store.tree import near
from outpace.tune.climb.variant import Variant
from outpace.tune.data.tree import describe
from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import Unpatchable, follow
from outpace.tune.program.program import Program, compiled_at

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Change
    from outpace.tune.optimisations.knob import LoopKnob, ReaderKnob
    from outpace.tune.patch.edit import Editor
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


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


def recipe(program: Program, best: Variant, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """How to make the changes of a variant in the source, one sentence each, with the line where it is known."""
    said = []
    dataset = describe(program.dataset, recorder) if program.dataset is not None else None
    for change in best.changes:
        if change.knob is not None and program.loop is not None:
            said += [f"{place}: {change.knob.practice}" for place in cast("LoopKnob", change.knob).places(program)]
            keywords = ", ".join(f"{name}={value}" for name, value in change.knob.keywords(program).items())
            said += [f"compile(..., {keywords})" for _ in program.loop.models() if keywords]
        elif change.knob is not None:
            words = [f"{name}={value}" for name, value in change.knob.keywords(program).items()]
            by_hand = change.knob.reads or not words
            said.append(f"{change.title}: {change.knob.practice}" if by_hand else f"compile(..., {', '.join(words)})")
        elif change.rewrite is not None and dataset is not None:
            patches = change.rewrite.patch(dataset)
            said += [_in_words(patch, change.title, recorder) for patch in patches] or [f"{change.title}: {change.why}"]
    return tuple(said)


def _in_words(patch: Patch, title: str, recorder: PipelineRecorder | None) -> str:
    stage = (
        next((s for s in recorder.stages if s.id == patch.call), None)
        if recorder is not None and patch.call is not None
        else None
    )
    where = f"{near(stage.file)}:{stage.line} {stage.op}" if stage is not None else title
    parts = [f"add {', '.join(f'{k}={v}' for k, v in patch.keywords.items())}"] if patch.keywords else []
    if patch.insert:
        parts.append(f"put {patch.insert} after it")
    if patch.remove:
        parts.append("take it out here")
    if patch.note:
        parts.append(patch.note)
    return f"{where}: {'; '.join(parts) or title}"


def patch_of(
    program: Program, best: Variant, recorder: PipelineRecorder | None = None, script: str | None = None
) -> SourcePatch:
    """The changes of `best` as edits of the user's files; nothing is written. Traces the pipeline's rewrites once more.

    `script`: the file that calls fit; by default the one from which this call came. What cannot be written into the source is in `left`.
    Raises UsageError when libcst is not installed.
    """
    try:
        from outpace.tune.patch.edit import Editor
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        raise UsageError("Writing a patch needs libcst, which keeps the file's formatting. Run: pip install libcst") from None
    script = script or _script()
    recorder = recorder or PipelineRecorder(False)  # without records no call of the pipeline is found
    editor, edits, stages, reasons = _input(program, best, recorder, Editor)
    compiled: dict[str, str] = {}
    for change in best.changes:
        if change.knob is not None:
            try:
                if change.knob.reads:
                    _edit_reader(cast("ReaderKnob", change.knob), program, editor, edits)
                elif change.knob.loops:
                    cast("LoopKnob", change.knob).edit(program, lambda path: _edits_of(path, editor, edits))
                else:
                    compiled |= _set_knob(change.knob.keywords(program), script, editor, edits, compiled_at(program.model))
            except Unpatchable as reason:
                reasons[change.title] = str(reason)
    files = tuple(_changed(path, edit.text(), editor) for path, edit in sorted(edits.items()))
    said = tuple(change.title for change in best.changes if change.title not in reasons)
    left = tuple(
        _left(change, reasons[change.title], program, best, recorder) for change in best.changes if change.title in reasons
    )
    return SourcePatch(tuple(file for file in files if file.old != file.new), said, left, stages, compiled)


def _input(
    program: Program, best: Variant, recorder: PipelineRecorder, kind: type[Editor]
) -> tuple[Editor, dict[str, Edits], tuple[str | None, ...], dict[str, str]]:
    """The changes of the input: the editor, the edits by file, the stages of the pipeline then, and why changes (by title) are left out."""
    if program.dataset is None:
        return kind(recorder, (), {}), {}, (), {}
    editor = kind.of(describe(program.dataset, recorder), recorder)
    rewrites = [change.rewrite for change in best.changes if change.rewrite is not None]
    followed = follow(program.dataset, rewrites, recorder, editor.check)
    reasons = {rewrite.title: reason for rewrite, reason in followed.left}
    return editor, editor.edits(followed.row), tuple(call.op for call in followed.row.calls), reasons


def _left(change: Change, reason: str, program: Program, best: Variant, recorder: PipelineRecorder) -> Left:
    return Left(change.title, reason, recipe(program, replace(best, changes=(change,)), recorder))


def _set_knob(
    keywords: dict[str, str], script: str | None, editor: Editor, edits: dict[str, Edits], at: tuple[str, int] | None
) -> dict[str, str]:
    from outpace.tune.patch.step_edit import compile_call
    from outpace.tune.patch.written import Edits

    if not keywords:
        raise Unpatchable("it is no argument of compile")
    if script is None:
        raise Unpatchable("the file that calls fit is not known")
    file, call = compile_call(script, editor.file, at)
    edit = edits.setdefault(file.path, Edits(file))
    edit.keywords[call] = {**edit.keywords.get(call, {}), **keywords}
    return keywords


def _edits_of(path: str, editor: Editor, edits: dict[str, Edits]) -> Edits:
    from outpace.tune.patch.written import Edits

    file = editor.file(path)
    return edits.setdefault(file.path, Edits(file))


def _edit_reader(knob: ReaderKnob, program: Program, editor: Editor, edits: dict[str, Edits]) -> None:
    from outpace.tune.patch.step_edit import edit_class

    edit_class(
        type(program.source.py_dataset),
        knob.decorators(program),
        knob.keywords(program),
        lambda path: _edits_of(path, editor, edits),
    )


def _changed(path: str, new: str, editor: Editor) -> FileChange:
    file = editor.file(path)
    compile(new, path, "exec", dont_inherit=True)  # a patch that does not parse is a fault of ours: it must not pass silently
    return FileChange(path, file.text, new, file.module.encoding)


def _script() -> str | None:
    """The file of the user's call of fit, inside which a tuning runs; else the main module's."""
    place = frames.caller(3)
    if place is not None and not place.file.startswith("<"):
        return place.file
    return getattr(sys.modules.get("__main__"), "__file__", None)
