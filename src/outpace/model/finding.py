"""`Finding`: one piece of advice that carries its proof."""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass
from outpace.model.units import Unit, humanize

CAPTURE_PREFIX = "capture."
"""Rules of this prefix say that the capture itself must be made anew: nothing else can be trusted
before.
"""

OUTSIDE_STEPS = "outside"  # of the steps: where a saving is no part of a step's categories


class Severity(str, Enum):
    """How much a finding matters, worst first."""

    HIGH = "high"
    MODERATE = "moderate"
    POTENTIAL = "potential"
    INFO = "info"


class Certainty(str, Enum):
    """How sure it is that the named cause is the cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Effort(str, Enum):
    """What the action asks for: a line, some lines, or another way to do it."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


@dataclass(frozen=True)
class Evidence:
    """One measured value that supports (or contradicts) a finding, and the table it can be looked
    up in.
    """

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
class Saving:
    """What a step saves: a bound ("saves at most", `low` is 0), or a prediction (`low` to `high`).

    `low`, `high`: shares of the steady step. `takes_from`: keys of the categories that the time
    comes from (`Category.value`), or `OUTSIDE_STEPS`, for time between the steps. `assumes`: under
    which assumption, a sentence without its capital. `step`: the base, ps, and `base` what it is in
    words ("step without the profiler"); the ledger of the report sets both, the same for all its
    findings. `whole_line`: it is all the time that its line takes on the training thread, so that
    what else is found of that line adds nothing to it.
    """

    low: float
    high: float
    takes_from: tuple[str, ...]
    assumes: str
    step: float = 0.0
    base: str = ""
    whole_line: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"a saving is no share of the step: [{self.low}, {self.high}]")

    @property
    def is_predicted(self) -> bool:
        """Whether it is a prediction, and not only a bound."""
        return self.low > 0

    @property
    def expected(self) -> float:
        """The share that ranking goes by: the middle of a prediction, a bound itself."""
        return (self.low + self.high) / 2 if self.is_predicted else self.high


@dataclass(frozen=True)
class Finding:
    """What holds the program back, how that is known, and what to change.

    `sentence` says what is the case; `action` says what to do; `saving` is what a step saves (None
    where no honest number exists). `evidence` is never empty; `counter_evidence` lists what was
    checked and speaks against the finding, or limits it. `location` is the user's source line
    (`train.py:41`), where it is known. `delays`: whether all other workers wait for what it is
    about, so that a step is no shorter before it is mended, whatever else would save more.
    `explains` names the rules whose symptom this is a cause of: where both are found, a reader sees
    the cause, and `symptom` says what it causes. `struck` is the reason why the advice is not given
    (in force already, impossible here).
    """

    id: str
    severity: Severity
    sentence: str
    action: str
    evidence: tuple[Evidence, ...]
    threshold: Threshold | None = None
    counter_evidence: tuple[str, ...] = ()
    saving: Saving | None = None
    location: str = ""
    host: str = ""
    certainty: Certainty = Certainty.LIKELY
    effort: Effort = Effort.MEDIUM
    explains: tuple[str, ...] = ()
    symptom: str = ""
    struck: str = ""
    delays: bool = False

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding {self.id} has no evidence")
