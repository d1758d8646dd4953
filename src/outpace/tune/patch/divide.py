# SPDX-License-Identifier: Apache-2.0
"""Divides the source of a map's function into the part that depends on its element alone and the
rest.

The border is drawn in the source: statement by statement, and inside an expression around the
largest parts of it that are pure, do work and depend on the element. Only straight-line functions
are divided; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.impure import Purity, static

_WORK = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.Subscript)
_LAZY = (
    cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.FormattedString,
)  # fmt: skip  # what stands inside may never be evaluated, or more than once: never taken out


class Kind(Enum):
    """What a value depends on: nothing that changes, the element alone, or also chance, state or
    Python.
    """

    CONSTANT = 0
    CLEAN = 1
    DIRTY = 2


@dataclass(frozen=True)
class Divided:
    """The two functions, and the names that the first hands to the second."""

    first: cst.FunctionDef
    second: cst.FunctionDef
    border: tuple[str, ...]


class _Clash(Exception):
    """A name would stand for two values."""


def divided(definition: cst.FunctionDef, purity: Purity, first_name: str, second_name: str) -> Divided:
    """Divide a definition. Raises Unpatchable with the reason."""
    _check(definition)
    purity.learn(definition.body)
    try:
        return _Division(definition, purity, True).made(first_name, second_name)
    except _Clash:  # the shorter names are taken
        pass
    try:
        return _Division(definition, purity, False).made(first_name, second_name)
    except _Clash as clash:
        raise Unpatchable(f"{definition.name.value} assigns {clash} again between the parts") from None


def _check(definition: cst.FunctionDef) -> None:
    name, params = definition.name.value, definition.params
    if definition.asynchronous is not None:
        raise Unpatchable(f"{name} is asynchronous")
    if (
        params.kwonly_params
        or params.star_kwarg
        or isinstance(params.star_arg, cst.Param)
        or any(p.default for p in params.params)
    ):
        raise Unpatchable(f"{name} takes other arguments than the element's")
    for decorator in definition.decorators:
        if cst.Module([]).code_for_node(decorator.decorator).split("(")[0].rpartition(".")[2] != "function":
            raise Unpatchable(f"{name} has a decorator")
    if not isinstance(definition.body, cst.IndentedBlock):
        raise Unpatchable(f"{name} is written on one line")
    lines = definition.body.body
    if not all(isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 for line in lines):
        raise Unpatchable(f"{name} is not straight-line code: it branches, loops or defines functions")
    if not lines or not isinstance(_small(lines[-1]), cst.Return) or any(isinstance(_small(x), cst.Return) for x in lines[:-1]):
        raise Unpatchable(f"{name} does not end in its only return")


def _small(line: cst.BaseStatement) -> cst.BaseSmallStatement:
    assert isinstance(line, cst.SimpleStatementLine)
    return line.body[0]


_Kept = tuple[cst.SimpleStatementLine, frozenset[str] | None]  # names: of a constant, which stays where it is used


def _kept(lines: Sequence[_Kept]) -> list[cst.SimpleStatementLine]:
    """The lines without the constants that none of them uses."""
    needed: set[str] = set()
    kept: list[cst.SimpleStatementLine] = []
    for line, constant in reversed(lines):
        if constant is None or constant & needed:
            kept.insert(0, line)
            needed |= {node.value for node in _all(line) if isinstance(node, cst.Name)}
    return kept


class _Division:
    def __init__(self, definition: cst.FunctionDef, purity: Purity, reuse: bool) -> None:
        self.definition, self.purity, self.reuse = definition, purity, reuse
        params = [*definition.params.posonly_params, *definition.params.params]
        self.params = {param.name.value: param for param in params}
        self.kinds = dict.fromkeys(self.params, Kind.CLEAN)
        self.versions = dict.fromkeys(self.params, 0)  # of the first part's names
        self.local: set[str] = set()  # names that the second part has assigned itself so far
        self.border: dict[str, int] = {}
        self.first: list[_Kept] = []
        self.second: list[_Kept] = []
        self.statics: set[str] = set()  # names that stand for a shape, which cannot be handed over
        self.works = False
        self.counter = 0

    def made(self, first_name: str, second_name: str) -> Divided:
        body = self.definition.body
        assert isinstance(body, cst.IndentedBlock)
        for line in body.body:
            assert isinstance(line, cst.SimpleStatementLine)
            self._line(line)
        if not self.works or not self.border:
            raise Unpatchable(f"nothing of {self.definition.name.value} could be cached that its source shows")
        for name, version in self.border.items():
            if self.versions[name] != version:
                raise _Clash(name)
        return Divided(self._first(first_name, body), self._second(second_name, body), tuple(self.border))

    def _line(self, line: cst.SimpleStatementLine) -> None:
        statement = line.body[0]
        if isinstance(statement, cst.Return):
            self._dirty(line, statement, (), allow_reuse=False)
        elif isinstance(statement, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            self._assignment(line, statement)
        elif isinstance(statement, cst.Expr):
            self._expression(line, statement)
        else:
            raise Unpatchable(f"{self.definition.name.value} is more than assignments and a return")

    def _expression(self, line: cst.SimpleStatementLine, statement: cst.Expr) -> None:
        value = statement.value
        if isinstance(value, (cst.SimpleString, cst.ConcatenatedString)):
            self.second.append((line, None))  # the docstring
            return
        shape = isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "set_shape"
        if not shape:
            raise Unpatchable(f"{self.definition.name.value} calls something for its effect")
        if self._kind(value) is Kind.DIRTY:
            self._read(value)
            self.second.append((line, None))
        else:
            self.first.append((line, None))

    def _assignment(self, line: cst.SimpleStatementLine, statement: cst.Assign | cst.AugAssign | cst.AnnAssign) -> None:
        names = _targets(statement)
        if names is None or statement.value is None:
            raise Unpatchable(f"{self.definition.name.value} assigns to something else than a name")
        kind = self._kind(statement.value)
        if isinstance(statement, cst.AugAssign):
            kind = max(kind, self.kinds.get(names[0], Kind.CONSTANT), key=lambda k: k.value)
        if kind is Kind.DIRTY:
            self._dirty(line, statement, names)
            self.local |= set(names)
        else:
            constant = frozenset(names) if kind is Kind.CONSTANT else None
            self.first.append((line, constant))
            self.works |= kind is Kind.CLEAN and any(isinstance(node, _WORK) for node in _values(statement.value))
            for name in names:
                self.versions[name] = self._next()
            if constant is not None:
                self.second.append((line, constant))
            (self.statics.update if static(statement.value) else self.statics.difference_update)(names)
        for name in names:
            self.kinds[name] = kind

    def _dirty(
        self, line: cst.SimpleStatementLine, statement: cst.CSTNode, names: Sequence[str], allow_reuse: bool = True
    ) -> None:
        """A statement of the second part; what is pure inside it goes to the first."""
        target = names[0] if len(names) == 1 and isinstance(statement, cst.Assign) and allow_reuse and self.reuse else None
        taker = _Taker(self, target)
        value = statement.value if hasattr(statement, "value") else None
        if isinstance(statement, cst.AugAssign):
            self._need(names[0])
        if value is not None and self._kind(value) is Kind.DIRTY:
            changed = value.visit(taker)
            assert isinstance(changed, cst.BaseExpression)
            line = line.with_changes(body=[statement.with_changes(value=changed)])
            again = sum(isinstance(node, cst.Name) and node.value == target for node in _values(changed))
            if any(name == target for name, _ in taker.taken) and (len(taker.taken) > 1 or again > 1):
                raise _Clash(str(target))
            if taker.taken:
                line = line.with_changes(leading_lines=[each for each in line.leading_lines if each.comment is None])
            for number, (name, expression) in enumerate(taker.taken):
                assign = cst.Assign([cst.AssignTarget(cst.Name(name))], expression)
                above = [each for each in _above(statement, line, self.definition) if number == 0]
                self.first.append((cst.SimpleStatementLine([assign], leading_lines=above), None))
                self.versions[name], self.kinds[name] = self._next(), Kind.CLEAN
                self.works = True
            value = changed
        if value is not None:
            self._read(value)
        self.second.append((line, None))

    def _read(self, value: cst.BaseExpression) -> None:
        for node in _values(value):
            if isinstance(node, cst.Name):
                self._need(node.value)

    def _need(self, name: str) -> None:
        """The second part reads a name."""
        kind = self.kinds.get(name)
        if kind is Kind.CLEAN:
            if name in self.statics:
                raise Unpatchable(
                    f"{name} is no tensor and cannot be cached, and the rest of {self.definition.name.value} needs it"
                )
            if name in self.local or self.border.setdefault(name, self.versions[name]) != self.versions[name]:
                raise _Clash(name)

    def _kind(self, value: cst.BaseExpression) -> Kind:
        found = Kind.CONSTANT
        for node in _values(value):
            kind = self._own_kind(node)
            found = max(found, kind, key=lambda each: each.value)
        return found

    def _own_kind(self, node: cst.CSTNode) -> Kind:
        if isinstance(node, cst.NamedExpr):
            raise Unpatchable(f"{self.definition.name.value} assigns inside an expression")
        if isinstance(node, cst.Name):
            known = self.kinds.get(node.value)
            return known if known is not None else Kind.DIRTY if self.purity.state(node.value) else Kind.CONSTANT
        if isinstance(node, cst.Call) and self.purity.impure(node):
            return Kind.DIRTY
        return Kind.CONSTANT

    def _fresh(self, base: str) -> str:
        taken = {node.value for node in _all(self.definition) if isinstance(node, cst.Name)} | set(self.versions)
        names = (f"{base}_cached" if number == 1 else f"{base}_cached_{number}" for number in range(1, 1000))
        return next(name for name in names if name not in taken)

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    def _first(self, name: str, body: cst.IndentedBlock) -> cst.FunctionDef:
        value: cst.BaseExpression = cst.parse_expression(", ".join(self.border))
        last = cst.SimpleStatementLine([cst.Return(value)])
        return self.definition.with_changes(
            name=cst.Name(name), body=body.with_changes(body=[*_kept(self.first), last], footer=()), returns=None
        )

    def _second(self, name: str, body: cst.IndentedBlock) -> cst.FunctionDef:
        params = [_param(self.params.get(each), each) for each in self.border]
        blank = [line for line in self.definition.leading_lines if line.comment is None]
        return self.definition.with_changes(
            name=cst.Name(name),
            params=cst.Parameters(params),
            body=body.with_changes(body=_kept(self.second)),
            leading_lines=blank,
            whitespace_before_params=cst.SimpleWhitespace(""),
        )


def _above(statement: cst.CSTNode, line: cst.SimpleStatementLine, definition: cst.FunctionDef) -> Sequence[cst.EmptyLine]:
    """Comment lines over the statement that was divided: they go with its first half."""
    for original in _all(definition):
        if isinstance(original, cst.SimpleStatementLine) and original.body and original.body[0] is statement:
            return original.leading_lines
    return ()


class _Taker(cst.CSTTransformer):
    """Takes the largest pure parts that do work and depend on the element out of an expression."""

    def __init__(self, division: _Division, target: str | None) -> None:
        super().__init__()
        self.division, self.target = division, target
        self.taken: list[tuple[str, cst.BaseExpression]] = []
        self._replace: dict[cst.CSTNode, str] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LAZY):
            return False
        if isinstance(node, _WORK) and self.division._kind(node) is Kind.CLEAN and not static(node):
            self._replace[node] = self._name(node)
            return False
        return True

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]  # one node for one node
        name = self._replace.get(original)
        if name is None:
            return updated
        assert isinstance(original, cst.BaseExpression)
        self.taken.append((name, original.with_changes(lpar=(), rpar=())))
        return cst.Name(name)

    def _name(self, node: cst.BaseExpression) -> str:
        """The name that the statement assigns, where it is free for the first part; else one made
        of it.
        """
        target, self.target = self.target, None
        if target is not None:
            return target
        inner = next(
            (each.value for each in _values(node) if isinstance(each, cst.Name) and each.value in self.division.kinds), "x"
        )
        name = self.division._fresh(inner)
        self.division.versions.setdefault(name, 0)
        return name


def _targets(statement: cst.Assign | cst.AugAssign | cst.AnnAssign) -> tuple[str, ...] | None:
    """The assigned names; None when anything else is assigned to."""
    if isinstance(statement, cst.Assign):
        if len(statement.targets) != 1:
            return None
        target = statement.targets[0].target
    else:
        target = statement.target
    if isinstance(target, cst.Name):
        return (target.value,)
    if isinstance(target, (cst.Tuple, cst.List)) and all(isinstance(each.value, cst.Name) for each in target.elements):
        return tuple(each.value.value for each in target.elements if isinstance(each.value, cst.Name))
    return None


def _param(known: cst.Param | None, name: str) -> cst.Param:
    if known is None:
        return cst.Param(cst.Name(name))
    return known.with_changes(comma=cst.MaybeSentinel.DEFAULT)


def _values(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The node and all below it that are evaluated: no names of attributes and keywords."""
    found = [node]
    children: Sequence[cst.CSTNode] = node.children
    if isinstance(node, (cst.Attribute, cst.Arg)):
        children = [node.value]
    for child in children:
        found += _values(child)
    return found


def _all(node: cst.CSTNode) -> list[cst.CSTNode]:
    found = [node]
    for child in node.children:
        found += _all(child)
    return found
