"""What a capture recorded about the lines of a file: the stages that it built, how often its functions were traced.

A recorded stage counts for a line only while the line still reads as it did, so that an old record says nothing about changed code.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from outpace.store.record import CaptureRecord, FunctionTrace, PipelineStage
from outpace.tune.lint.operations import READERS
from outpace.tune.lint.source import Source

_KEPT_TEXT = 200


class Facts:
    """One capture record, seen from one file."""

    def __init__(self, source: Source, record: CaptureRecord | None) -> None:
        self._source = source
        self._stages: dict[int, list[PipelineStage]] = {}
        self._all = {stage.id: stage for stage in record.pipeline} if record else {}
        self._traces = [trace for trace in record.traces if self._same(trace.file)] if record else []
        self._versions = record.versions if record else {}
        self._behind: dict[int, list[PipelineStage]] = {}
        for stage in self._all.values():
            if self._same(stage.file) and stage.text == self._line(stage.line)[:_KEPT_TEXT]:
                self._stages.setdefault(stage.line, []).append(stage)
            for number in stage.inputs:
                self._behind.setdefault(number, []).append(stage)

    def stages(self, call: ast.AST, op: str) -> list[PipelineStage]:
        """The stages that a call built while it was recorded; empty when nothing is known about it.

        Two equal operations on one line cannot be told apart: then nothing is known.
        """
        if not isinstance(call, ast.Call):
            return []
        line = call.func.end_lineno or call.lineno
        found = [stage for stage in self._stages.get(line, ()) if stage.op == op]
        return found if _calls_on(self._source, line, op) == 1 else []

    def before(self, stage: PipelineStage) -> Iterator[PipelineStage]:
        """All stages that feed a stage, the nearest first."""
        for number in stage.inputs:
            if number in self._all:
                yield self._all[number]
                yield from self.before(self._all[number])

    def after(self, stage: PipelineStage) -> Iterator[PipelineStage]:
        """All stages that a stage feeds."""
        for later in self._behind.get(stage.id, ()):
            yield later
            yield from self.after(later)

    def traces(self, function: ast.AST) -> list[FunctionTrace]:
        """The graphs that were built of a function, in order."""
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return []
        first = min([function.lineno, *(item.lineno for item in function.decorator_list)])
        return [item for item in self._traces if first <= item.line <= function.lineno and item.function == function.name]

    def version(self, package: str) -> tuple[int, ...] | None:
        """A package's version in the captured process, as numbers; None when it was not recorded."""
        text = self._versions.get(package)
        parts = text.split(".")[:2] if text else []
        return tuple(int(part) for part in parts) if parts and all(part.isdigit() for part in parts) else None

    def _same(self, file: str) -> bool:
        own = os.path.realpath(self._source.path)
        return os.path.realpath(file) == own or (not os.path.exists(file) and os.path.basename(file) == os.path.basename(own))

    def _line(self, number: int) -> str:
        return self._source.lines[number - 1].strip() if 0 < number <= len(self._source.lines) else ""


def _calls_on(source: Source, line: int, op: str) -> int:
    """How many calls of an operation have their name on a line."""
    names = [node.func for node in source.nodes if isinstance(node, ast.Call) and node.func.end_lineno == line]
    return sum((isinstance(f, ast.Attribute) and f.attr == op) or (op in READERS and isinstance(f, ast.Name)) for f in names)
