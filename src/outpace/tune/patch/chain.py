# SPDX-License-Identifier: Apache-2.0
"""A chain of method calls taken apart into links, and put together in another order, with every
comment kept beside its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from outpace.tune.patch.calls import Unpatchable


@dataclass(frozen=True, eq=False)
class Link:
    """One `.name(...)` of a chain.

    call: the call; its own receiver does not matter. dot: how the dot was written (None: as its
    neighbours are). comment: what stands behind the call on its line. above: comment lines over it,
    where it had a statement of its own.
    """

    call: cst.Call
    dot: cst.Dot | None = None
    comment: cst.Comment | None = None
    above: Sequence[cst.EmptyLine] = field(default_factory=tuple)

    def on(self, receiver: cst.BaseExpression, dot: cst.Dot | None = None) -> cst.Call:
        """The call with a receiver."""
        assert isinstance(self.call.func, cst.Attribute)
        func = cst.Attribute(receiver, self.call.func.attr, dot or cst.Dot())
        return self.call.with_changes(func=func, lpar=(), rpar=())


@dataclass(frozen=True, eq=False)
class Chain:
    """A base and the links on it, the first one first. `top` is the outermost call, whose
    parentheses hold all of it.
    """

    base: cst.BaseExpression
    links: tuple[Link, ...]
    top: cst.Call
    base_comment: cst.Comment | None


def chain_of(top: cst.Call, base: cst.BaseExpression) -> Chain:
    """Take a chain apart; `base` is the node at its root, which is kept whole."""
    calls: list[cst.Call] = []
    node: cst.BaseExpression = top
    while node is not base:
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        calls.append(node)
        node = node.func.value
    calls.reverse()
    dots = [_dot(call) for call in calls]
    behind = [
        *[_comment(dot.whitespace_before) for dot in dots],
        _comment(top.rpar[-1].whitespace_before) if top.rpar else None,
    ]
    links = tuple(Link(call, dots[at], behind[at + 1]) for at, call in enumerate(calls))
    return Chain(base, links, top, behind[0])


def joined(chain: Chain, links: Sequence[Link], base: cst.BaseExpression) -> cst.BaseExpression:
    """The chain with these links instead, on `base` (the chain's own, as edited). New links are
    written as their neighbours are.
    """
    model = next((link.dot for link in reversed(chain.links) if link.dot is not None), None)
    bare = base.with_changes(lpar=(), rpar=()) if not chain.links else base  # the parentheses of a lone base are the chain's
    node, comment = bare, chain.base_comment
    for link in links:
        dot = link.dot if link.dot is not None else _plain(model)
        node = link.on(node, _with_comment(dot, comment, model))
        comment = link.comment
    rpar = chain.top.rpar
    if rpar:
        rpar = (*rpar[:-1], rpar[-1].with_changes(whitespace_before=_commented(rpar[-1].whitespace_before, comment)))
    return node.with_changes(lpar=chain.top.lpar, rpar=rpar) if links or chain.links else base


def new_link(text: str) -> Link:
    """The link `.cache()` from its text."""
    call = cst.parse_expression(f"_{text}")
    assert isinstance(call, cst.Call)
    return Link(call)


def with_keywords(call: cst.Call, keywords: Mapping[str, str]) -> cst.Call:
    """The call with arguments set by keyword: an argument of that name gets the new value, others
    come last.
    """
    args = list(call.args)
    for name, text in keywords.items():
        value = cst.parse_expression(text)
        at = next((at for at, arg in enumerate(args) if arg.keyword is not None and arg.keyword.value == name), None)
        if at is not None:
            args[at] = args[at].with_changes(value=value)
        else:
            args = _appended(args, cst.Arg(value, cst.Name(name), equal=_TIGHT))
    return call.with_changes(args=args)


def function_argument(call: cst.Call) -> cst.Arg:
    """The argument that gives a map its function. Raises Unpatchable where it is not written in the
    call.
    """
    for at, arg in enumerate(call.args):
        if (arg.keyword is None and at == 0 and not arg.star) or (arg.keyword is not None and arg.keyword.value == "map_func"):
            return arg
    raise Unpatchable("its function is not named in the call")


def calling(call: cst.Call, name: str) -> cst.Call:
    """The same call with another function."""
    old = function_argument(call)
    return call.with_changes(args=[arg.with_changes(value=cst.Name(name)) if arg is old else arg for arg in call.args])


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _appended(args: list[cst.Arg], new: cst.Arg) -> list[cst.Arg]:
    """The new argument last, on a line of its own where the others stand on theirs."""
    if not args:
        return [new]
    last = args[-1]
    between = next((arg.comma for arg in args[:-1] if isinstance(arg.comma, cst.Comma)), None)
    space: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if between is not None and isinstance(between.whitespace_after, cst.ParenthesizedWhitespace):
        space = _quiet(between.whitespace_after)
    if isinstance(last.comma, cst.Comma):  # a trailing comma stays at the end, a comment beside its argument
        end = last.comma.whitespace_after
        new = new.with_changes(comma=last.comma.with_changes(whitespace_after=_commented(end, None)))
    else:
        end = last.whitespace_after_arg
        new = new.with_changes(whitespace_after_arg=_commented(end, None))
    comma = cst.Comma(whitespace_after=_commented(space, _comment(end)))
    return [*args[:-1], last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace("")), new]


def _dot(call: cst.Call) -> cst.Dot:
    assert isinstance(call.func, cst.Attribute)
    return call.func.dot


def _comment(space: cst.BaseParenthesizableWhitespace) -> cst.Comment | None:
    return space.first_line.comment if isinstance(space, cst.ParenthesizedWhitespace) else None


def _quiet(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """The same line break without its comments."""
    return space.with_changes(first_line=cst.TrailingWhitespace(newline=space.first_line.newline), empty_lines=())


def _plain(dot: cst.Dot | None) -> cst.Dot:
    if dot is None:
        return cst.Dot()
    space = dot.whitespace_before
    return dot.with_changes(whitespace_before=_quiet(space) if isinstance(space, cst.ParenthesizedWhitespace) else space)


def _with_comment(dot: cst.Dot, comment: cst.Comment | None, model: cst.Dot | None) -> cst.Dot:
    """The dot behind a call that ends in this comment."""
    if comment is not None and not isinstance(dot.whitespace_before, cst.ParenthesizedWhitespace):
        dot = _plain(model)
    return dot.with_changes(whitespace_before=_commented(dot.whitespace_before, comment))


def _commented(space: cst.BaseParenthesizableWhitespace, comment: cst.Comment | None) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        if comment is None:
            return space
        space = cst.ParenthesizedWhitespace(indent=True)
    gap = cst.SimpleWhitespace("  " if comment is not None else "")
    if comment is not None and space.first_line.comment is not None:
        gap = space.first_line.whitespace
    return space.with_changes(first_line=space.first_line.with_changes(comment=comment, whitespace=gap))
