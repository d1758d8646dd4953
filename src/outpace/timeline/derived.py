"""What is computed from a run: each thing once, also when several threads ask for it at the same time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Any


class Derived:
    """Results by their key. A run has one of these, and with the run they are freed."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, RLock] = {}
        self._guard = Lock()

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result for `key`, computed when it is asked for first. What raises is not kept."""
        with self._guard:
            lock = self._locks.setdefault(key, RLock())
        with lock:
            if key not in self._results:
                self._results[key] = compute()
            return self._results[key]

    def give(self, key: Hashable, result: Any) -> None:
        """Set a result from outside: tests of a rule state what it looks at."""
        self._results[key] = result
