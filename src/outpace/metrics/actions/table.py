# SPDX-License-Identifier: Apache-2.0
"""A table of actions: for which kinds of work each one is, and what must hold for it.

An action that a program cannot take, or that would change nothing there, is worse than none. So
each precondition is a name of its own with the evidence that tells it, and a row of a table says
which of them it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from enum import Enum
from typing import Generic, ParamSpec, TypeVar

from outpace._dataclass import dataclass

Kind = TypeVar("Kind", bound=Enum)
Need = TypeVar("Need", bound=Enum)
Subject = ParamSpec("Subject")
"""Parameters of the text: what it names of the place and the program."""


@dataclass(frozen=True)
class Action(Generic[Kind, Need, Subject]):
    """A row of a table.

    name: name of the action.
    render: returns its text, for the place and the program in question.
    kinds: kinds of work that it is for; empty for all.
    needs: preconditions that must all hold.
    """

    name: str
    render: Callable[Subject, str]
    kinds: frozenset[Kind] = frozenset()
    needs: frozenset[Need] = frozenset()

    def fits(self, kind: Kind, holds: Set[Need]) -> bool:
        """Whether the action is for a kind of work, and what it needs holds."""
        return (not self.kinds or kind in self.kinds) and self.needs <= holds


def build_action(
    kinds: type[Kind], name: str, kind_names: str, render: Callable[Subject, str], *needs: Need
) -> Action[Kind, Need, Subject]:
    """Return a row of a table. `kind_names` are names of kinds in the source, divided by spaces;
    none for all kinds.
    """
    return Action(name, render, frozenset(kinds[kind] for kind in kind_names.split()), frozenset(needs))


def iter_actions(
    table: Iterable[Action[Kind, Need, Subject]], kind: Kind, holds: Set[Need]
) -> Iterator[Action[Kind, Need, Subject]]:
    """Yield the actions of a table that fit, in its order."""
    return (action for action in table if action.fits(kind, holds))


def choose_action(table: Iterable[Action[Kind, Need, Subject]], kind: Kind, holds: Set[Need]) -> Action[Kind, Need, Subject]:
    """Return the first action of a table that fits. Raises ValueError where none does: a table ends
    with an action that needs nothing.
    """
    for action in iter_actions(table, kind, holds):
        return action
    raise ValueError(f"no action fits {kind}")
