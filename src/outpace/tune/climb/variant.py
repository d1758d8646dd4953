"""One variant of a program: its data set as rewritten so far, and the knobs that are turned."""

from __future__ import annotations

import contextlib
from typing import Any, cast

from outpace._dataclass import dataclass
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.knob import Knob
from outpace.tune.optimisations.optimisation import Rewrite
from outpace.tune.program.program import Program

_ORDER = (Risk.EXACT, Risk.REORDERED, Risk.STATISTICAL)


@dataclass(frozen=True, eq=False)
class Change:
    """One optimisation applied: a rewrite of the data set, or a knob of the step. `why` names what it answers."""

    optimisation: Rewrite | Knob
    why: str
    risk: Risk

    @property
    def id(self) -> str:
        """The optimisation's name in files and options."""
        return self.optimisation.id

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.optimisation.title

    @property
    def minor(self) -> bool:
        """Whether it usually adds little."""
        return self.optimisation.minor

    @property
    def knob(self) -> Knob | None:
        """The knob that is turned; None for a rewrite."""
        return cast("Knob", self.optimisation) if hasattr(self.optimisation, "applied") else None

    @property
    def rewrite(self) -> Rewrite | None:
        """The rewrite; None for a knob."""
        return None if hasattr(self.optimisation, "applied") else self.optimisation

    @property
    def of_input(self) -> bool:
        """Whether it changes what is read, and not the step."""
        return self.knob is None or self.knob.reads


@dataclass(frozen=True, eq=False)
class Variant:
    """What is trained with: the changes so far, in order, and the data set that the rewrites among them gave. base: the same without the
    last change; None at the start."""

    name: str
    dataset: Any
    changes: tuple[Change, ...] = ()
    base: Variant | None = None

    @property
    def risk(self) -> Risk:
        """The largest risk of its changes."""
        return max((change.risk for change in self.changes), key=_ORDER.index, default=Risk.EXACT)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that are turned."""
        return tuple(change.knob for change in self.changes if change.knob is not None)

    def with_change(self, change: Change, dataset: Any | None = None) -> Variant:
        """This variant with one more change."""
        name = f"{self.name} + {change.title}" if self.changes else change.title
        return Variant(name, self.dataset if dataset is None else dataset, (*self.changes, change), self)

    @property
    def rungs(self) -> tuple[Variant, ...]:
        """The variants with the first change, the first two, and so on; this one last."""
        return (*self.base.rungs, self) if self.base is not None else ()

    @property
    def practices(self) -> tuple[str, ...]:
        """Ids of its changes, in order: two variants of a program with the same ones are the same."""
        return tuple(change.id for change in self.changes)

    @contextlib.contextmanager
    def applied(self, program: Program) -> Any:
        """All its knobs are turned inside the block."""
        with contextlib.ExitStack() as stack:
            for knob in self.knobs:
                stack.enter_context(knob.applied(program))
            yield
