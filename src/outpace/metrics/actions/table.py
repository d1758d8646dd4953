# SPDX-License-Identifier: Apache-2.0
"""A table of actions: for which kinds of work each one is, and what must hold for it.

An action that a program cannot take, or that would change nothing there, is worse than none. So
each precondition is a name of its own with the evidence that tells it, and a row of a table says
which of them it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from enum import Enum
from typing import Generic, TypeVar

from outpace._dataclass import dataclass
from outpace.metrics.facts.workload import Workload

Kind = TypeVar("Kind", bound=Enum)
Need = TypeVar("Need", bound=Enum)


@dataclass(frozen=True)
class Action(Generic[Kind, Need]):
    """A row of a table.

    name: name of the action.
    render: returns its sentence, for the place in words and the kind of program.
    kinds: kinds of work that it is for; empty for all.
    needs: preconditions that must all hold.
    """

    name: str
    render: Callable[[str, Workload], str]
    kinds: frozenset[Kind] = frozenset()
    needs: frozenset[Need] = frozenset()

    def fits(self, kind: Kind, holds: Set[Need]) -> bool:
        """Whether the action is for a kind of work, and what it needs holds."""
        return (not self.kinds or kind in self.kinds) and self.needs <= holds


def choose_action(table: Iterable[Action[Kind, Need]], kind: Kind, holds: Set[Need]) -> Action[Kind, Need]:
    """Return the first action of a table that fits. Raises ValueError where none does: a table ends
    with an action that needs nothing.
    """
    for action in table:
        if action.fits(kind, holds):
            return action
    raise ValueError(f"no action fits {kind}")
