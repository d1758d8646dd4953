# SPDX-License-Identifier: Apache-2.0
"""Edits of one file, and the file with them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor, ImportItem

from outpace.pyscope.names import used_names
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.chain import Chain, Link, joined, with_keywords
from outpace.tune.patch.source import SourceFile
from outpace.tune.texts.parsed import parsed

Statements = list[cst.BaseStatement]


@dataclass(frozen=True, eq=False)
class Segment:
    """A chain of the file: the keys of its calls, that of its base (None: no call of the row), and
    its links as they shall be.

    options: what the data set options that one of the links takes have to say.
    """

    file: SourceFile
    chain: Chain
    keys: tuple[int, ...]
    base_key: int | None
    links: tuple[Link, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> cst.SimpleStatementLine | None:
        """The statement around the chain."""
        return self.file.statement(self.chain.top)

    @property
    def target(self) -> str | None:
        """The name that the chain's value is assigned to, where it is one and nothing else stands
        on the line.
        """
        line = self.statement
        if line is None or len(line.body) != 1 or not isinstance(line.body[0], cst.Assign):
            return None
        assign = line.body[0]
        plain = len(assign.targets) == 1 and assign.value is self.chain.top
        target = assign.targets[0].target
        return target.value if plain and isinstance(target, cst.Name) else None

    @property
    def alone(self) -> bool:
        """Whether the chain is one call in an assignment (`ds = ds.map(f)`): what is added then
        gets statements of its own.
        """
        return self.target is not None and len(self.chain.links) + isinstance(self.chain.base, cst.Call) == 1

    @cached_property
    def options_name(self) -> str:
        """A name for the options object that the file does not have."""
        return self.file.unused("options")


@dataclass(eq=False)
class Edits:
    """What changes in one file, by the nodes of its tree."""

    file: SourceFile
    keywords: dict[cst.Call, Mapping[str, str]] = field(default_factory=dict)
    arguments: dict[cst.Call, Sequence[cst.Arg]] = field(default_factory=dict)  # all of them
    segments: dict[cst.Call, Segment] = field(default_factory=dict)
    functions: dict[cst.FunctionDef, Sequence[cst.FunctionDef]] = field(default_factory=dict)
    decorators: dict[cst.FunctionDef, str] = field(default_factory=dict)
    replaced: dict[cst.Decorator, str] = field(default_factory=dict)
    outlined: dict[cst.CSTNode, tuple[int, Sequence[Any]]] = field(
        default_factory=dict
    )  # so many statements, and what replaces them
    before: dict[cst.CSTNode, list[Any]] = field(default_factory=dict)  # statements before a loop
    loops: dict[cst.CSTNode, Sequence[Any]] = field(default_factory=dict)  # what replaces a loop
    above: dict[cst.CSTNode, Sequence[Any]] = field(default_factory=dict)  # functions before a statement of the file
    imports: set[str] = field(default_factory=set)

    def spelled(self, full: str) -> str:
        """How the file writes a name of a framework, with an import where it has none for it.
        Raises Unpatchable where the framework's own name stands for something else.
        """
        found = self.file.spelled(full)
        if found is not None:
            return found
        name = full.replace("tf.", "tensorflow.", 1) if full.startswith("tf.") else full
        package = name.partition(".")[0]
        nodes = [*ast.walk(parsed(self.file.text))]
        own = {*used_names(nodes), *(each.name for each in nodes if isinstance(each, (ast.FunctionDef, ast.ClassDef)))}
        if package in own | {each.arg for each in nodes if isinstance(each, ast.arg)}:
            raise Unpatchable(f"{self.file.name} has no name for {full}, and another {package}")
        self.imports.add(package)
        return name

    def text(self) -> str:
        """The file with the edits."""
        module = self.file.module.visit(_Rewriter(self))
        if self.imports:
            module = AddImportsVisitor(CodemodContext(), [ImportItem(name) for name in sorted(self.imports)]).transform_module(
                module
            )
        return module.code


class _Rewriter(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self.edits = edits
        self.lines: dict[cst.SimpleStatementLine, Segment] = {}
        for segment in edits.segments.values():
            line = segment.statement
            if line is None and segment.options:
                raise Unpatchable("there is no statement before which the options could be set")
            if line is not None:
                if line in self.lines:
                    raise Unpatchable("two chains of one statement change")
                self.lines[line] = segment

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """What stands before a statement."""
        left = super().on_leave(original_node, updated_node)
        if self.edits.above.get(original_node):
            blank = [cst.EmptyLine(indent=False)] * 2
            functions = [each.with_changes(leading_lines=blank) for each in self.edits.above[original_node]]
            comments = [line for line in updated_node.leading_lines if line.comment is not None]
            left = cst.FlattenSentinel([*functions, *_led(_several(left), [*blank, *comments])])
        return left

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Arguments, and chains inside larger expressions."""
        if original_node in self.edits.arguments:
            updated_node = updated_node.with_changes(args=self.edits.arguments[original_node])
        if original_node in self.edits.keywords:
            updated_node = with_keywords(updated_node, self.edits.keywords[original_node])
        segment = self.edits.segments.get(original_node)
        if segment is None or segment.alone:
            return updated_node
        return joined(segment.chain, segment.links, _base_of(updated_node, segment.chain))

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        """Statements that became a function of their own."""
        body = list(updated_node.body)
        for at, statement in reversed(list(enumerate(original_node.body))):
            if statement in self.edits.outlined:
                count, made = self.edits.outlined[statement]
                body[at : at + count] = _led(made, getattr(statement, "leading_lines", ())) if made else []
        return updated_node.with_changes(body=body)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> Any:
        """What stands around a loop now, or in its place."""
        return self._around(original_node, updated_node)

    def leave_While(self, original_node: cst.While, updated_node: cst.While) -> Any:
        """Likewise."""
        return self._around(original_node, updated_node)

    def _around(self, original: cst.For | cst.While, updated: cst.For | cst.While) -> Any:
        before = self.edits.before.get(original, [])
        lines, comments = updated.leading_lines, [line for line in updated.leading_lines if line.comment is not None]
        blank = [cst.EmptyLine(indent=False)]
        # Comments stay with the loop below functions, and stand above statements that begin what
        # belongs to it.
        led, own = (blank, comments) if before and isinstance(before[0], cst.FunctionDef) else (lines, [])
        made = []
        for each in before:
            made.append(each.with_changes(leading_lines=led))
            led = blank if isinstance(each, cst.FunctionDef) else []
        return cst.FlattenSentinel([*made, *_led(self.edits.loops.get(original, [updated]), [*led, *own])])

    def leave_Decorator(self, original_node: cst.Decorator, updated_node: cst.Decorator) -> cst.Decorator:
        """Decorators that get arguments."""
        text = self.edits.replaced.get(original_node)
        return updated_node if text is None else updated_node.with_changes(decorator=cst.parse_expression(text))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        """Chains of one call, each in a statement of its own; options before the statement that
        takes them.
        """
        segment = self.lines.get(original_node)
        if segment is None:
            return updated_node
        own = _statements(segment, updated_node) if segment.alone else [updated_node]
        lines = _spaced([*_options(segment), *(line for line in own if not _idle(line))], updated_node)
        return cst.FlattenSentinel(lines) if lines else cst.RemoveFromParent()

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Definitions that become several, or get a decorator."""
        if original_node in self.edits.decorators:
            decorator = cst.Decorator(cst.parse_expression(self.edits.decorators[original_node]))
            return updated_node.with_changes(decorators=[decorator, *updated_node.decorators])
        found = self.edits.functions.get(original_node)
        if found is None:
            return updated_node
        return cst.FlattenSentinel([updated_node if each is original_node else each for each in found])


def _several(left: Any) -> Sequence[Any]:
    """What a node became, as statements."""
    return list(left.nodes) if isinstance(left, cst.FlattenSentinel) else [left]


def _led(statements: Sequence[Any], lines: Sequence[cst.EmptyLine]) -> list[Any]:
    """Statements, the first of them with the lines that stood above another one."""
    first, *rest = statements
    return [first.with_changes(leading_lines=lines), *rest]


def _base_of(top: cst.BaseExpression, chain: Chain) -> cst.BaseExpression:
    """The chain's base in the edited tree, which has the same shape."""
    for _ in chain.links:
        assert isinstance(top, cst.Call) and isinstance(top.func, cst.Attribute)
        top = top.func.value
    return top


def _statements(segment: Segment, line: cst.SimpleStatementLine) -> Statements:
    """A statement for each link; the user's own keeps its comments and its place among them."""
    target, chain = segment.target, segment.chain
    assert target is not None
    assign = line.body[0]
    assert isinstance(assign, cst.Assign)
    found: Statements = []
    receiver: cst.BaseExpression = chain.base
    if segment.base_key is not None:
        found.append(line)
        receiver = cst.Name(target)
    for link in segment.links:
        own = any(link.dot is not None and link.dot is other.dot for other in chain.links)
        value = link.on(receiver)
        if own:
            new = line.with_changes(body=[assign.with_changes(value=value)])
        else:
            comment = cst.TrailingWhitespace(cst.SimpleWhitespace("  " if link.comment else ""), link.comment)
            new = cst.SimpleStatementLine(
                [cst.Assign([cst.AssignTarget(cst.Name(target))], value)], leading_lines=link.above, trailing_whitespace=comment
            )
        found.append(new)
        receiver = cst.Name(target)
    return found or [line.with_changes(body=[assign.with_changes(value=receiver)])]


def _options(segment: Segment) -> Statements:
    """What makes the object that a new with_options takes."""
    if not segment.options:
        return []
    name, make = segment.options_name, segment.file.name_of("tf.data.Options")
    texts = [f"{name} = {make}()", *(f"{name}.{attribute} = {value}" for attribute, value in segment.options.items())]
    return [cst.parse_statement(text) for text in texts]


def _idle(line: cst.BaseStatement) -> bool:
    """`ds = ds`: nothing of the chain is left."""
    assign = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    return isinstance(assign, cst.Assign) and len(assign.targets) == 1 and assign.targets[0].target.deep_equals(assign.value)


def _spaced(lines: Statements, user: cst.SimpleStatementLine) -> Statements:
    """Blank lines over the user's statement stand over the first of the new ones, comments over the
    user's own.
    """
    blank = [line for line in user.leading_lines if line.comment is None]
    comments = [line for line in user.leading_lines if line.comment is not None]
    found = [line for line in lines if isinstance(line, cst.SimpleStatementLine)]
    own = next((at for at, line in enumerate(found) if line.leading_lines is user.leading_lines), 0)
    if not own or not blank:
        return lines
    moved = found[own].with_changes(leading_lines=comments)
    first = found[0].with_changes(leading_lines=[*blank, *found[0].leading_lines])
    return [first, *found[1:own], moved, *found[own + 1 :]]
