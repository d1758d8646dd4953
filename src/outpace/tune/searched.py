# SPDX-License-Identifier: Apache-2.0
"""What passes between the processes of a tuning: what one that runs the script has seen of it, and
what a search found.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.optimisations.facts import Facts
from outpace.tune.risk import Risk
from outpace.tune.starts import Imports
from outpace.tune.texts.merge import Texts
from outpace.tune.texts.place import Place

if TYPE_CHECKING:
    from outpace.model.table import Table
    from outpace.tune.climb.candidates import Candidate
    from outpace.tune.climb.outcome import Climbed, Tried


@dataclass(frozen=True)
class Seen:
    """A script as it trains, from inside of its process.

    candidates: what may be raced. others: what is not for it, or left to the user. place: the loop
    that trains; a `fit` has none of its own, and is counted. limited: whether its model and its
    input can be measured alone. caches: its input keeps elements, or may. step_seconds: of a step.
    input_share: of a step, that waits for its input; None where not known. facts: what advice is
    drawn from. parts: of its model. lines: that a step's time goes to.
    remark: why its input alone is tuned. unwritten: what the script did not write meanwhile, in a
    sentence. imports: of frameworks.
    """

    candidates: tuple[Candidate, ...]
    others: tuple[Tried, ...]
    place: Place
    limited: bool = False
    caches: bool = False
    step_seconds: float | None = None
    input_share: float | None = None
    steps: int | None = None
    own: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)
    parts: Table | None = None
    lines: Table | None = None
    remark: str = ""
    unwritten: str = ""
    imports: Imports = Imports()

    def write(self, path: str) -> None:
        """Leave it for the command."""
        Path(path).write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: str) -> Seen | None:
        """What a process of ours left in our private folder; None where it left nothing."""
        try:
            found: Any = pickle.loads(Path(path).read_bytes())
        except OSError:
            return None
        assert isinstance(found, cls)
        return found


@dataclass(frozen=True)
class Stack:
    """Changes together as edited texts. grouped: see `texts.edition.Edition`."""

    changes: tuple[Candidate, ...]
    texts: Texts = field(repr=False)

    @property
    def titles(self) -> tuple[str, ...]:
        """Of its changes."""
        return tuple(each.title for each in self.changes)

    @property
    def name(self) -> str:
        """What it is called in a race."""
        return " + ".join(self.titles)

    @property
    def grouped(self) -> bool:
        """Whether one of its changes groups steps."""
        return any(each.grouped for each in self.changes)

    @property
    def is_exact(self) -> bool:
        """Whether it should be equal to the bit."""
        return all(each.risk is Risk.EXACT for each in self.changes)

    @property
    def consents(self) -> bool:
        """Whether one of its changes needs consent."""
        return any(each.consent for each in self.changes)

    @property
    def every(self) -> int:
        """Steps whose effects come together."""
        return math.lcm(*(each.every for each in self.changes))


@dataclass(frozen=True)
class Searched:
    """climbed: what was tried. stack: what seemed faster; None for nothing. fewer: the same without
    one of its changes each. strict: without those that need consent, where there are such; None
    where nothing is left. seen: ratio by the search. step_seconds: of a step as it is. sources:
    files that are edited, as they were when the search began. caches: its input keeps elements, or
    may. start_seconds: that a process takes until it can be raced.
    """

    climbed: Climbed
    stack: Stack | None
    fewer: tuple[Stack, ...]
    place: Place
    fit: int
    strict: Stack | None = None
    sources: Texts = field(default_factory=dict, repr=False)
    seen: float = 1.0
    step_seconds: float = 0.0
    unwritten: str = ""
    caches: bool = False
    start_seconds: float = 0.0
