"""`patch_of`: from the changes of a variant to the user's source with them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from outpace.capture import frames
from outpace.capture.pipeline import PipelineRecorder
from outpace.model.errors import UsageError
from outpace.tune.data.tree import describe
from outpace.tune.optimisations import all_rewrites
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.follow import follow
from outpace.tune.patch.source_patch import FileChange, Left, SourcePatch
from outpace.tune.program.compiled import compiled_at

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Change, Variant
    from outpace.tune.optimisations.knob import LoopKnob, ReaderKnob
    from outpace.tune.patch.edit import Editor
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


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
    rewrites = {rewrite.id: rewrite for rewrite in all_rewrites()}
    editor = kind.of(describe(program.dataset, recorder), recorder)
    inputs = {change.id: change for change in best.changes if change.knob is None}
    followed = follow(program.dataset, [rewrites[name] for name in inputs], recorder, editor.check)
    reasons = {inputs[rewrite.id].title: reason for rewrite, reason in followed.left}
    return editor, editor.edits(followed.row), tuple(call.op for call in followed.row.calls), reasons


def _left(change: Change, reason: str, program: Program, best: Variant, recorder: PipelineRecorder) -> Left:
    from outpace.tune.recipe import recipe

    return Left(change.title, reason, recipe(program, replace(best, changes=(change,)), recorder))


def _set_knob(
    keywords: dict[str, str], script: str | None, editor: Editor, edits: dict[str, Edits], at: tuple[str, int] | None
) -> dict[str, str]:
    from outpace.tune.patch.compile_call import compile_call
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
    from outpace.tune.patch.class_edit import edit_class

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
