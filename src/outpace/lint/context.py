# SPDX-License-Identifier: Apache-2.0
"""Interface of rules: `LintContext`, one file with its analyses and the facts of its capture;
`Rule`, the description of one check; and `Message`, a rule's report on one place of a file.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from outpace.lint.calls import READERS
from outpace.lint.dataset_analysis import DatasetAnalysis
from outpace.lint.functions import FunctionResolver
from outpace.lint.jax_code import JaxCode
from outpace.lint.source import SourceFile
from outpace.lint.training_loops import TrainingLoops
from outpace.pyscope.nodes import DEFINITIONS, code_line
from outpace.store.record import CaptureRecord, FunctionTrace, PipelineStage


class Level(str, Enum):
    """Severity of a message: a warning fails the check, a note does not."""

    WARNING = "warning"
    NOTE = "note"


class Origin(str, Enum):
    """Source of a message: the script's text alone, or a capture that confirms it."""

    SOURCE = "source"
    CAPTURE = "capture"


@dataclass(frozen=True)
class Rule:
    """Description of one rule.

    id, title: identifier and title of the rule
    why: what happens at run time
    reference: source of that statement
    fix: what to write instead
    harmless: case in which the finding does not matter
    level: level without further knowledge of the place
    """

    id: str
    title: str
    why: str
    reference: str
    fix: str
    harmless: str
    level: Level = Level.WARNING


@dataclass(frozen=True)
class Edit:
    """Replacement of the text between two positions (lines from 1, columns from 0 in characters),
    safe to apply unchanged.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Message:
    """Result of one rule at one place. Lines and columns count from 1; `end_column` is the first
    column after the marked text of `line`.
    """

    rule: str
    level: Level
    path: str
    line: int
    column: int
    end_column: int
    sentence: str
    fix: str
    harmless: str
    origin: Origin = Origin.SOURCE
    evidence: str = ""
    edit: Edit | None = None
    node: ast.AST | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON-ready values; `docs/lint.md` lists the keys."""
        document = {key: value for key, value in vars(self).items() if key not in ("node", "edit")}
        document["level"], document["origin"] = self.level.value, self.origin.value
        document["edit"] = None if self.edit is None else asdict(self.edit)
        return document


_RECORDED_TEXT = 200


class RecordFacts:
    """Facts of one capture record about one file."""

    def __init__(self, source: SourceFile, record: CaptureRecord | None) -> None:
        self._source = source
        self._stages: dict[int, list[PipelineStage]] = {}
        self._all = {stage.id: stage for stage in record.pipeline} if record else {}
        self._traces = [trace for trace in record.traces if self._is_same_file(trace.file)] if record else []
        self._versions = record.versions if record else {}
        self._behind: dict[int, list[PipelineStage]] = {}
        for stage in self._all.values():
            if self._is_same_file(stage.file) and stage.text == self._line(stage.line)[:_RECORDED_TEXT]:
                self._stages.setdefault(stage.line, []).append(stage)
            for number in stage.inputs:
                self._behind.setdefault(number, []).append(stage)

    def stages(self, call: ast.AST, op: str) -> list[PipelineStage]:
        """Return the stages that a call created while it was recorded; empty where the record does
        not show them.

        Two equal operations on one line cannot be distinguished; the result is empty for these.
        """
        if not isinstance(call, ast.Call):
            return []
        line = call.func.end_lineno or call.lineno
        stages = [stage for stage in self._stages.get(line, ()) if stage.op == op]
        return stages if _count_calls(self._source, line, op) == 1 else []

    def iter_upstream(self, stage: PipelineStage) -> Iterator[PipelineStage]:
        """Yield all stages that feed a stage, the nearest first."""
        for number in stage.inputs:
            if number in self._all:
                yield self._all[number]
                yield from self.iter_upstream(self._all[number])

    def iter_downstream(self, stage: PipelineStage) -> Iterator[PipelineStage]:
        """Yield all stages that a stage feeds."""
        for later in self._behind.get(stage.id, ()):
            yield later
            yield from self.iter_downstream(later)

    def traces(self, function: ast.AST) -> list[FunctionTrace]:
        """Return the graphs that were traced of a function, in order."""
        if not isinstance(function, DEFINITIONS):
            return []
        first = code_line(function)
        return [item for item in self._traces if first <= item.line <= function.lineno and item.function == function.name]

    def package_version(self, package: str) -> tuple[int, ...] | None:
        """Return a package's version in the captured process as numbers; None where it was not
        recorded.
        """
        text = self._versions.get(package)
        parts = text.split(".")[:2] if text else []
        return tuple(int(part) for part in parts) if parts and all(part.isdigit() for part in parts) else None

    def _is_same_file(self, file: str) -> bool:
        own_path = os.path.realpath(self._source.path)
        return os.path.realpath(file) == own_path or (
            not os.path.exists(file) and os.path.basename(file) == os.path.basename(own_path)
        )

    def _line(self, number: int) -> str:
        return self._source.lines[number - 1].strip() if 0 < number <= len(self._source.lines) else ""


def _count_calls(source: SourceFile, line: int, op: str) -> int:
    """Return how many calls of an operation have their name on a line."""
    names = [node.func for node in source.nodes if isinstance(node, ast.Call) and node.func.end_lineno == line]
    return sum(
        (isinstance(func, ast.Attribute) and func.attr == op) or (op in READERS and isinstance(func, ast.Name))
        for func in names
    )


class LintContext:
    """One file for rules: the source, its functions, data sets and training loops (analysed at
    first use), and the facts of a capture.
    """

    def __init__(self, source: SourceFile, record: CaptureRecord | None = None) -> None:
        self.source = source
        self.functions = FunctionResolver(source)
        self.record_facts = RecordFacts(source, record)

    @cached_property
    def datasets(self) -> DatasetAnalysis:
        """Data sets of the file."""
        return DatasetAnalysis(self.source, self.functions)

    @cached_property
    def training_loops(self) -> TrainingLoops:
        """`tf.function`s and training loops of the file."""
        return TrainingLoops(self.source, self.functions)

    @cached_property
    def jax_code(self) -> JaxCode:
        """Compiled functions and arrays of JAX in the file."""
        return JaxCode(self.source, self.functions, self.training_loops)

    @cached_property
    def tensorflow_alias(self) -> str:
        """Name under which the file imports TensorFlow; empty where it does not."""
        imports = (node for node in self.source.nodes if isinstance(node, ast.Import))
        names = (item for node in imports for item in node.names if item.name == "tensorflow")
        return next((item.asname or item.name for item in names), "")

    def build_message(
        self,
        rule: Rule,
        node: ast.AST,
        sentence: str,
        *,
        level: Level | None = None,
        fix: str | None = None,
        harmless: str | None = None,
        evidence: str = "",
        edit: Edit | None = None,
    ) -> Message:
        """Return a message at a node; `evidence` is what a capture showed, and sets the message's
        origin to the capture.
        """
        line, start, end = self._marked_range(node)
        return Message(
            rule.id, level or rule.level, self.source.path, line, start + 1, end + 1, sentence, fix or rule.fix, harmless or rule.harmless,
            Origin.CAPTURE if evidence else Origin.SOURCE, evidence, edit, node,
        )  # fmt: skip

    def build_insertion(self, line: int, offset: int, text: str) -> Edit:
        """Return an edit that inserts text at a line (from 1) and a UTF-8 byte offset, as `ast`
        counts.
        """
        column = self._characters(line, offset)
        return Edit(line, column, line, column, text)

    def build_argument_edit(self, call: ast.AST, text: str) -> Edit | None:
        """Return an edit that adds a keyword argument to a call; None where that would need more
        than an insertion.
        """
        if not isinstance(call, ast.Call) or call.end_lineno is None or call.end_col_offset is None:
            return None
        arguments = [*call.args, *(word.value for word in call.keywords)]
        if not arguments:
            return None
        last = max(arguments, key=lambda item: (item.end_lineno or 0, item.end_col_offset or 0))
        if self._text_after(last, call).strip() != ")":
            return None  # a comma, a comment or a parenthesis follows the last argument
        return self.build_insertion(last.end_lineno or call.end_lineno, last.end_col_offset or 0, f", {text}")

    def _text_after(self, last: ast.expr, call: ast.Call) -> str:
        """Return the text from the end of a call's last argument to the end of the call."""
        first, end = last.end_lineno or 1, call.end_lineno or 1
        lines = [line.encode() for line in self.source.lines[first - 1 : end]]
        lines[-1] = lines[-1][: call.end_col_offset]
        lines[0] = lines[0][last.end_col_offset or 0 :]
        return b"\n".join(lines).decode()

    def _marked_range(self, node: ast.AST) -> tuple[int, int, int]:
        """Return (line, first column, last column) of the text that is marked for a node: the
        method's name of a call, otherwise the node's first line.
        """
        part = node.func if isinstance(node, ast.Call) else node
        if isinstance(part, ast.Attribute) and isinstance(node, ast.Call) and isinstance(part.value, (ast.Call, ast.Name)):
            line, end = part.end_lineno or part.lineno, part.end_col_offset or 0
            return line, self._characters(line, end - len(part.attr.encode())), self._characters(line, end)
        line, first = int(getattr(part, "lineno", 1)), int(getattr(part, "col_offset", 0))
        last = getattr(part, "end_col_offset", None) if getattr(part, "end_lineno", line) == line else None
        text = self.source.lines[line - 1] if line <= len(self.source.lines) else ""
        return (
            line,
            self._characters(line, first),
            len(text.rstrip().rstrip(":")) if last is None else self._characters(line, last),
        )

    def _characters(self, line: int, offset: int) -> int:
        return len(self.source.lines[line - 1].encode()[:offset].decode(errors="ignore"))
