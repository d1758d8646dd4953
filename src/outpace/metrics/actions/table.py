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
Precondition = TypeVar("Precondition", bound=Enum)
Parameters = ParamSpec("Parameters")
"""Parameters of the text: what it names of the place and the program."""


@dataclass(frozen=True)
class Action(Generic[Kind, Precondition, Parameters]):
    """A row of a table.

    name: name of the action.
    render: returns its text, for the place and the program in question.
    kinds: kinds of work that it is for; empty for all.
    preconditions: preconditions that must all hold.
    reaches_roof: whether it gives the same results in less time, so that what a part takes above
        the device's limits may go; others compute less, on other data or elsewhere.
    """

    name: str
    render: Callable[Parameters, str]
    kinds: frozenset[Kind] = frozenset()
    preconditions: frozenset[Precondition] = frozenset()
    reaches_roof: bool = False

    def fits(self, kind: Kind, holds: Set[Precondition]) -> bool:
        """Whether the action is for a kind of work, and what it needs holds."""
        return (not self.kinds or kind in self.kinds) and self.preconditions <= holds


def build_action(
    kinds: type[Kind],
    name: str,
    kind_names: str,
    render: Callable[Parameters, str],
    *preconditions: Precondition,
    reaches_roof: bool = False,
) -> Action[Kind, Precondition, Parameters]:
    """Return a row of a table. `kind_names` are names of kinds in the source, divided by spaces;
    none for all kinds.
    """
    return Action(name, render, frozenset(kinds[kind] for kind in kind_names.split()), frozenset(preconditions), reaches_roof)


def iter_actions(
    table: Iterable[Action[Kind, Precondition, Parameters]], kind: Kind, holds: Set[Precondition]
) -> Iterator[Action[Kind, Precondition, Parameters]]:
    """Yield the actions of a table that fit, in its order."""
    return (action for action in table if action.fits(kind, holds))


def choose_action(
    table: Iterable[Action[Kind, Precondition, Parameters]], kind: Kind, holds: Set[Precondition]
) -> Action[Kind, Precondition, Parameters]:
    """Return the first action of a table that fits. Raises ValueError where none does: a table ends
    with an action that needs nothing.
    """
    for action in iter_actions(table, kind, holds):
        return action
    raise ValueError(f"no action fits {kind}")
