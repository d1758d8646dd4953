"""Practices that are explained, not tried."""

from __future__ import annotations

from collections.abc import Callable

from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import NotHere


class Explained:
    """A practice that no variable can make, or that is not about speed: it never applies, and says why."""

    def __init__(self, name: str, title: str, practice: str, order: int, why: Callable[[Host], str]) -> None:
        self.id, self.title, self.practice, self.order = name, title, practice, order
        self._why = why

    def applies(self, host: Host) -> NotHere:
        """Never."""
        return NotHere(self._why(host))

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """None."""
        return ()

    def proof(self, setting: Setting, seen: Observed, host: Host) -> None:
        """Nothing is tried."""
