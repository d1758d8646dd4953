"""What every knob of the environment is: a practice, when it applies, the values to try, and how their effect is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from outpace._dataclass import dataclass
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.knobs.knob import Applies, NotHere


@dataclass(frozen=True)
class Setting:
    """One value of a knob: the variables to set. `noting`: further ones for the trial's process alone, given an empty folder, that make
    the process note down evidence there."""

    title: str
    variables: Mapping[str, str]
    noting: Callable[[str], Mapping[str, str]] | None = None


class EnvironmentKnob(Protocol):
    """One practice that must be set before TensorFlow starts. practice: what the guide recommends, in a sentence. order: of trials."""

    id: str
    title: str
    practice: str
    order: int

    def applies(self, host: Host) -> Applies | NotHere:
        """Whether it may help here. What the user or the script sets is never overridden."""

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """The values to try, where it applies; at least one."""

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """Evidence, from what the setting's process told, that it took effect; None where there is none."""
