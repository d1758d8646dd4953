# SPDX-License-Identifier: Apache-2.0
"""A user's file as libcst reads it: where recorded calls stand in it, and what it calls
TensorFlow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

from outpace.capture.pipeline import MAX_TEXT, READERS
from outpace.model.units import format_count
from outpace.pyscope.names import imported_names
from outpace.pyscope.nodes import SCOPES
from outpace.store.record import PipelineStage
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.texts.parsed import parsed

Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef

_SECOND = "tensorflow.compat.v2"  # TensorFlow itself, by another name


class SourceFile:
    """One parsed file. Raises Unpatchable when it cannot be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = Path(path).name
        try:
            parsed = cst.parse_module(SourceFileLoader("", path).get_data(path))  # a text may stand in for the file
        except OSError:
            raise Unpatchable(f"there is no source file for {path}") from None
        except (cst.ParserSyntaxError, UnicodeDecodeError):
            raise Unpatchable(f"{path} cannot be parsed") from None
        wrapper = MetadataWrapper(parsed, unsafe_skip_copy=True)
        self.module = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self.text = self.module.code
        self.lines = self.text.splitlines()
        self._calls = [node for node in self._positions if isinstance(node, cst.Call)]

    def position(self, node: cst.CSTNode) -> CodeRange:
        """First and last line and column of a node."""
        return self._positions[node]

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around this one, the nearest first."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def top(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement of the file that a node is, or is inside of."""
        return next((each for each in [node, *self.above(node)] if isinstance(self._parents.get(each), cst.Module)), node)

    def scope(self, node: cst.CSTNode) -> Scope | None:
        """The function or class around a node; None at the top of the file."""
        return next((above for above in self.above(node) if isinstance(above, Scope)), None)

    def block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The branch, loop, function or class body around a node; None at the top of the file."""
        return next((above for above in self.above(node) if isinstance(above, (cst.BaseSuite, cst.Lambda))), None)

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The simple statement around a node; None in the head of a compound one."""
        for above in self.above(node):
            if isinstance(above, cst.SimpleStatementLine):
                return above
            if isinstance(above, (cst.BaseCompoundStatement, cst.Lambda)):
                return None
        return None

    def calls(self) -> list[cst.Call]:
        """All calls, in no particular order."""
        return self._calls

    def starting(self, line: int, kinds: tuple[type[cst.CSTNode], ...]) -> cst.CSTNode | None:
        """The outermost node of some kinds that begins at a line."""
        found = (node for node in self._positions if isinstance(node, kinds) and self.position(node).start.line == line)
        return min(found, key=lambda node: self.position(node).start.column, default=None)

    def functions(self) -> Iterator[cst.FunctionDef]:
        """All definitions of functions."""
        return (node for node in self._positions if isinstance(node, cst.FunctionDef))

    def names(self, name: str) -> list[cst.Name]:
        """Every place where a name stands, definitions, imports and attributes included."""
        return [node for node in self._positions if isinstance(node, cst.Name) and node.value == name]

    def unused(self, name: str) -> str:
        """The name, numbered when the file has it already."""
        found = (name if number == 1 else f"{name}_{number}" for number in range(1, 1000))
        return next(candidate for candidate in found if not self.names(candidate))

    def located(self, stage: PipelineStage, among: list[PipelineStage]) -> cst.Call:
        """The call that a record speaks of; `among` are the records of the same pipeline, in the
        order in which they were made.

        Raises Unpatchable when the file is not the one that ran, or the place is not unique.
        """
        where = f"{self.name}:{stage.line}"
        if stage.library is not None:
            built = [other for other in among if (other.file, other.line, other.entry) == (stage.file, stage.line, stage.entry)]
            calls = [call for call in self._calls if self.calls_at(call, stage.entry or "", stage.line)]
            if len(calls) == 1 and stage is built[-1] and not self._reads_more(calls[0]):
                return calls[0]
            raise Unpatchable(f"{where} calls {stage.library}, which builds the {stage.op} itself")
        if not 0 < stage.line <= len(self.lines) or self.lines[stage.line - 1].strip()[:MAX_TEXT] != stage.text:
            raise Unpatchable(f"{where} is not the line that ran: the file was edited since")
        found = sorted((c for c in self._calls if self.calls_at(c, stage.op, stage.line)), key=lambda c: self._end(c))
        alike = [s for s in among if (s.file, s.line, s.op) == (stage.file, stage.line, stage.op)]
        if len(found) != len(alike) or stage not in alike:
            raise Unpatchable(
                f"{where} holds {format_count(len(found), 'call')} of {stage.op} "
                f"that gave {format_count(len(alike), 'stage')} of the pipeline"
            )
        return found[alike.index(stage)]

    def spelled(self, full: str, *, anywhere: bool = True) -> str | None:
        """How this file would write `tf.data.AUTOTUNE`: by the name under which it imported
        TensorFlow, or a part of it; `anywhere`: in a function, too.
        """
        wanted = full.replace("tf.", "tensorflow.", 1) if full.startswith("tf.") else full
        tree = parsed(self.text)
        looked_at = (each for each in tree.body if anywhere or not isinstance(each, SCOPES))
        imported = imported_names(node for each in looked_at for node in ast.walk(each))
        names = {name: _plain(meant) for name, meant in imported.items()}
        for node in tree.body:  # AUTOTUNE = tf.data.AUTOTUNE
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                head, _, rest = ast.unparse(node.value).partition(".")
                if head in names:
                    names[node.targets[0].id] = f"{names[head]}.{rest}"
        fitting = [(name, meant) for name, meant in names.items() if wanted == meant or wanted.startswith(f"{meant}.")]
        if not fitting:
            return None
        name, meant = max(fitting, key=lambda pair: len(pair[1]))
        return name + wanted[len(meant) :]

    def name_of(self, full: str) -> str:
        """As `spelled`. Raises Unpatchable where the file has no name for it."""
        name = self.spelled(full)
        if name is None:
            raise Unpatchable(f"{self.name} has no name for {full}")
        return name

    def _reads_more(self, call: cst.Call) -> bool:
        """Whether the file reads something of the name that a call is assigned to which only this
        library's data sets have (`class_names`).
        """
        import tensorflow as tf

        line = self.statement(call)
        assign = line.body[0] if line is not None else None
        names = [each.target for each in assign.targets] if isinstance(assign, cst.Assign) else []
        own = {name.value for name in names if isinstance(name, cst.Name)}
        reads = ((node.value, node.attr.value) for node in self._positions if isinstance(node, cst.Attribute))
        return any(isinstance(of, cst.Name) and of.value in own and not hasattr(tf.data.Dataset, name) for of, name in reads)

    def calls_at(self, call: cst.Call, name: str, line: int) -> bool:
        """Whether a call of this name was made at a line. Python gives a method call the line of
        the method's name; older ones and other calls the line where they begin.
        """
        if isinstance(call.func, cst.Attribute):
            return call.func.attr.value == name and self.position(call.func.attr).start.line == line
        named = isinstance(call.func, cst.Name) and (call.func.value == name or name in READERS)
        return named and self.position(call).start.line == line

    def _end(self, call: cst.Call) -> tuple[int, int]:
        end = self.position(call).end
        return end.line, end.column


def _plain(meant: str) -> str:
    """What a name stands for, by its usual name."""
    return "tensorflow" + meant[len(_SECOND) :] if f"{meant}.".startswith(f"{_SECOND}.") else meant
