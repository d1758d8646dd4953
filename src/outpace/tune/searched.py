"""What the search in the script's process hands over to the command: what seemed to make the training faster, as edits of the source, and what
there is to say of it. The command proves the edits (`proof`), and says it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.texts.place import Place

if TYPE_CHECKING:
    from outpace.model.report import Report
    from outpace.tune.patch.make import SourcePatch
    from outpace.tune.trial.record import Experiment


@dataclass(frozen=True)
class Stack:
    """Changes together as one edit. ids, titles: those that the patch holds. grouped: see `texts.edition.Edition`. every: steps of one call."""

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    patch: SourcePatch
    grouped: bool = False
    every: int = 1

    @property
    def name(self) -> str:
        """What it is called in a race."""
        return " + ".join(self.titles)

    @property
    def texts(self) -> dict[str, str]:
        """The edited texts, by the files that they stand in for."""
        return {change.path: change.new for change in self.patch.files}


@dataclass(frozen=True)
class Searched:
    """kept: the report where the search is right; without: where nothing of it is kept. stack: what seemed faster; None for nothing. fewer: the
    same without one of its changes each. place: the loop that trains; a `fit` has none of its own, and is counted. seen: ratio by the search.
    bounds: how near that is to the limits, in a sentence. consents: what it changes beyond rounding was allowed. step_seconds: of a step as it
    is. left: sentences about changes that no edit can make. seconds: that the search took. unwritten: what the script did not write
    meanwhile, in a sentence."""

    kept: Report
    without: Report
    stack: Stack | None
    fewer: tuple[Stack, ...]
    place: Place | None
    fit: int
    seen: float
    bounds: str
    consents: bool
    step_seconds: float
    races: tuple[Experiment, ...]
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    unwritten: str = ""

    def write(self, path: str) -> None:
        """Leave it for the command."""
        Path(path).write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: str) -> Searched | None:
        """What a process of ours left in our private folder; None where it left nothing."""
        try:
            found: Any = pickle.loads(Path(path).read_bytes())
        except OSError:
            return None
        assert isinstance(found, cls)
        return found
