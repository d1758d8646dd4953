"""A written pipeline as the recorder sees it, without running it, and patches of its source."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace
from pathlib import Path

from outpace.capture.pipeline import METHODS, SOURCES, PipelineRecorder
from outpace.store.record import PipelineStage
from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import Call
from outpace.tune.patch.edit import Editor


def recorded(path: Path) -> list[PipelineStage]:
    """A record of each tf.data call of a file in the order of Python (by line, column of ends)."""
    text = path.read_text(encoding="utf-8")
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    calls = [node for node in found if isinstance(node.func, ast.Attribute) and node.func.attr in (*SOURCES, *METHODS)]
    calls.sort(key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    stages = []
    for number, node in enumerate(calls):
        assert isinstance(node.func, ast.Attribute)
        line = node.func.end_lineno or 0
        text_line = text.splitlines()[line - 1].strip()
        before = (number - 1,) if number else ()
        stages.append(PipelineStage(number, node.func.attr, None, str(path), line, text_line, inputs=before))
    return stages


class Written:
    """A file with one pipeline."""

    def __init__(self, folder: Path, source: str) -> None:
        self.path = folder / "train.py"
        self.path.write_bytes(textwrap.dedent(source).encode())
        self.recorder = PipelineRecorder(False)
        self.recorder.stages = recorded(self.path)
        self.row = tuple(Call(stage.id, stage) for stage in self.recorder.stages)

    def patched(self, *patches: Patch) -> str:
        """The file after the patches of one rewrite."""
        edits = Editor(tuple(self.recorder.stages), {}).edits(self.row, patches)
        return edits[str(self.path)].text() if edits else self.path.read_text(encoding="utf-8")

    def id_of(self, op: str) -> int:
        """Id of the last call of an operation."""
        return next(stage.id for stage in reversed(self.recorder.stages) if stage.op == op)

    def edit(self, old: str, new: str) -> None:
        """Change the file behind the recorder's back."""
        text = self.path.read_text(encoding="utf-8")
        assert old in text
        self.path.write_text(text.replace(old, new), encoding="utf-8")

    def record_again(self, op: str) -> None:
        """Let the same line have built one more data set."""
        stage = self.recorder.stages[self.id_of(op)]
        self.own = tuple(self.recorder.stages)
        self.recorder.stages = [*self.recorder.stages, replace(stage, id=len(self.recorder.stages), inputs=())]

    def patched_beside_another(self, *patches: Patch) -> str:
        """As `patched`, where the recorder knows a data set that is not of this pipeline."""
        edits = Editor(self.own, {}).edits(self.row, patches)
        return edits[str(self.path)].text()
