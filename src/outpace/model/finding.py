"""`Finding`: one piece of advice that carries its proof."""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass
from outpace.model.interval import Interval
from outpace.model.units import Unit, humanize


class Severity(str, Enum):
    """How much a finding matters, worst first."""

    HIGH = "high"
    MODERATE = "moderate"
    POTENTIAL = "potential"
    INFO = "info"


@dataclass(frozen=True)
class Evidence:
    """One measured value that supports (or contradicts) a finding, and the table it can be looked up in."""

    says: str
    value: float
    unit: Unit
    table: str

    def __str__(self) -> str:
        return f"{self.says}: {humanize(self.value, self.unit)}"


@dataclass(frozen=True)
class Threshold:
    """A named limit that a rule compares with, and who set it."""

    name: str
    value: float
    unit: Unit
    source: str

    def __str__(self) -> str:
        return f"{humanize(self.value, self.unit)} ({self.source})"


@dataclass(frozen=True)
class Finding:
    """What holds the program back, how that is known, and what to change.

    `sentence` says what is the case; `action` says what to do; `saving` is the step time that the action could save,
    per step, with its stated bound (None where no honest number exists). `evidence` is never empty;
    `counter_evidence` lists what was checked and speaks against the finding, or limits it.
    `location` is the user's source line (`train.py:41`), where it is known.
    `knobs` names the changes that answer the finding, most promising first.
    """

    id: str
    severity: Severity
    sentence: str
    action: str
    evidence: tuple[Evidence, ...]
    threshold: Threshold | None = None
    counter_evidence: tuple[str, ...] = ()
    saving: Interval | None = None
    saving_fraction: Interval | None = None
    location: str = ""
    knobs: tuple[str, ...] = ()
    host: str = ""

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding {self.id} has no evidence")
