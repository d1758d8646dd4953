# SPDX-License-Identifier: Apache-2.0
"""Arguments of compiled functions that a step could give away (`donate_argnums`): the loop replaces
them by what the step returns.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.loop.jax_calls import LIBRARYS, JaxFunction, compiled_calls

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body


@dataclass(frozen=True, eq=False)
class Given:
    """A call whose arguments at some `places` (or with some `names`) are assigned anew by its
    statement.
    """

    function: JaxFunction
    line: int
    said: tuple[str, ...]
    places: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Of `jax.jit`."""
        found = {"donate_argnums": self.places, "donate_argnames": self.names}
        return {name: value for name, value in found.items() if value}


class Donation:
    """What the steps of one loop could give away, by function. already: whether the user's own
    functions give something away.
    """

    def __init__(self, body: Body) -> None:
        calls = [(statement, *each) for statement in body.steps for each in compiled_calls(statement, body.names)]
        self.already = any(function.gives_away for _, _, function, _ in calls)
        self.given: dict[JaxFunction, Given] = {}
        for statement, call, function, bound in calls:
            plain = bound != LIBRARYS and function.maker == "jit" and function.options is not None
            found = _given(statement, call, function, bound) if plain and not function.gives_away else None
            if found is not None:
                self.given[function] = found

    @property
    def said(self) -> list[str]:
        """What is given away, as the loop writes it."""
        return sorted({name for each in self.given.values() for name in each.said})

    @property
    def why(self) -> str:
        """Why that is nothing; empty where it is something."""
        if self.given:
            return ""
        if self.already:
            return "its state is given away already"
        return "no argument of the step is replaced by what it returns, in the same statement"


def _given(statement: ast.stmt, call: ast.Call, function: JaxFunction, bound: int) -> Given | None:
    """The arguments of a call that its statement assigns anew; None for none."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not call:
        return None
    target = statement.targets[0]
    parts = {ast.unparse(each) for each in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])}
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    placed = {at + bound: said for at, arg in enumerate(call.args) if (said := ast.unparse(arg)) in parts}
    named = {word.arg: said for word in call.keywords if word.arg is not None and (said := ast.unparse(word.value)) in parts}
    if not placed and not named:
        return None
    return Given(function, call.lineno, (*placed.values(), *named.values()), tuple(placed), tuple(named))
