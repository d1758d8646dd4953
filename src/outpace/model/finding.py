# SPDX-License-Identifier: Apache-2.0
"""`Finding`: one piece of advice with its evidence."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from outpace._dataclass import dataclass
from outpace.model.text import short_form
from outpace.model.units import Unit, humanize

FindingKey = tuple[str, str, str, str]  # identity of a finding in a report (see `Finding.key`)

CAPTURE_PREFIX = "capture."
"""Prefix of rules which state that the capture itself must be repeated, before anything else can be
trusted.
"""

OUTSIDE_STEPS = "outside"  # key in `Saving.takes_from` for time between the steps, which is in no category


class Severity(str, Enum):
    """Importance of a finding, most severe first."""

    HIGH = "high"
    MODERATE = "moderate"
    POTENTIAL = "potential"
    INFO = "info"


class Certainty(str, Enum):
    """How sure it is that the cause that a finding names is the true one."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Effort(str, Enum):
    """Effort of a finding's action: small (a line), medium (some lines), large (another
    approach).
    """

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


@dataclass(frozen=True)
class Evidence:
    """Measured value that supports (or contradicts) a finding.

    says: what the value is.
    table: reference to the table in which the value is found (see `Page`).
    """

    says: str
    value: float
    unit: Unit
    table: str

    def __str__(self) -> str:
        return f"{self.says}: {humanize(self.value, self.unit)}"


@dataclass(frozen=True)
class Threshold:
    """Named limit that a rule compares with, and the source of its value."""

    name: str
    value: float
    unit: Unit
    source: str

    def __str__(self) -> str:
        return f"{humanize(self.value, self.unit)} ({self.source})"


@dataclass(frozen=True)
class Saving:
    """What a step saves: a bound ("saves at most", `low` is 0), a prediction (`low` to `high`),
    what the same work takes above the device's limits, or what is known to be needless ("or more").

    low, high: shares of the steady step, 0..1.
    takes_from: keys of the categories that lose the time (`Category.value`), or `OUTSIDE_STEPS` for
        time between the steps.
    assumes: the assumption of the saving, a sentence without its capital.
    step: duration of the base, in ps; `base` describes it ("step without the profiler"). The
        report's ledger sets both, equal for all its findings.
    whole_line: whether the saving is all the time of its source line on the training thread, so
        that further findings about that line add nothing.
    at_roof: whether it is what the same work saves at the limits of the device; less work can save
        more.
    at_least: whether it is what is known to be needless; leaving that out can save more.
    sampled: the share as samples have it, where `high` is the upper end of its interval; 0 where
        `high` was measured. Findings are ranked by it, nothing else is.

    Raises ValueError unless 0 <= low <= high <= 1.
    """

    low: float
    high: float
    takes_from: tuple[str, ...]
    assumes: str
    step: float = 0.0
    base: str = ""
    whole_line: bool = False
    at_roof: bool = False
    at_least: bool = False
    sampled: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"a saving is no share of the step: [{self.low}, {self.high}]")

    @property
    def is_predicted(self) -> bool:
        """Whether the saving is a prediction, not only a bound."""
        return self.low > 0

    @property
    def expected(self) -> float:
        """Share that findings are ranked by: the middle of a prediction, what was sampled, or the
        bound itself.
        """
        if self.is_predicted:
            return (self.low + self.high) / 2
        return min(self.sampled, self.high) if self.sampled else self.high


@dataclass(frozen=True)
class Finding:
    """What slows the program down, the evidence for it, and what to change.

    id: name of the rule.
    sentence: what is the case.
    action: what to do about it. It begins with an imperative of at most eight words (`short`),
        behind which a comma, colon or bracket separates details.
    evidence: measured values; never empty. The first one, of a finding on a part of the step, is
        the share that it explains.
    threshold: limit that the rule compared with.
    counter_evidence: sentences on checks that contradict or limit the finding.
    saving: what a step saves; None where there is no honest number.
    location: the user's source line (`train.py:41`), where it is known.
    host: the host, where the finding is about one.
    explains: rules of the symptoms that this finding causes. Where both are found, a reader is
        shown the cause.
    symptom: sentence on the symptom that this finding causes.
    struck: reason why the advice is withdrawn (in force already, impossible here).
    delays: whether all other workers wait for the delay that this finding is about, so that no
        other change shortens a step before it is fixed.

    Raises ValueError where `evidence` is empty.
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

    @property
    def short(self) -> str:
        """The action in at most eight words: its beginning, up to where details follow."""
        return short_form(self.action)

    @property
    def key(self) -> FindingKey:
        """What identifies the finding among all findings of a report: its rule, source line, host
        and subject. The subject is "" where the line is known; otherwise it is the sentence, since
        a rule may state the same of several pipelines of one host. Ranking never changes a key.
        """
        return self.id, self.location, self.host, "" if self.location else self.sentence
