# SPDX-License-Identifier: Apache-2.0
"""Results that are computed once, also when several threads request them: properties (`once`), and
functions of an object that has a `ResultCache` (`memoize`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from functools import cached_property as once
else:
    from functools import cached_property

    class once(cached_property):
        """Property that is computed once per instance, under a lock.

        `functools.cached_property` did the same until Python 3.11: one thread computes the value
        while the other threads wait. An exception is not cached.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            with values.setdefault(f"lock of {self.attrname}", RLock()):
                if self.attrname not in values:
                    values[self.attrname] = self.func(instance)
            return values[self.attrname]


class ResultCache:
    """Results by key, each computed once.

    Every run, timeline and trace owns one cache, so that its results are freed together with it.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, RLock] = {}
        self._guard = Lock()

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return the result for `key`, computed by the first caller. An exception is not cached."""
        with self._guard:
            lock = self._locks.setdefault(key, RLock())
        with lock:
            if key not in self._results:
                self._results[key] = compute()
            return self._results[key]

    def discard(self, key: Hashable) -> None:
        """Remove the result for `key`; the next `get` computes it again."""
        with self._guard:
            lock = self._locks.setdefault(key, RLock())
        with lock:  # no other thread may be between its look-up of the result and its return
            self._results.pop(key, None)

    def set(self, key: Hashable, value: Any) -> None:
        """Set the result for `key` without computing it. Tests use it to state a rule's input."""
        self._results[key] = value


class HasCache(Protocol):
    """An object with a cache for the results that are computed from it."""

    @property
    def cache(self) -> ResultCache:
        """Results that were computed from this object."""


Owner = TypeVar("Owner", bound=HasCache)
T = TypeVar("T")


def memoize(compute: Callable[[Owner], T]) -> Callable[[Owner], T]:
    """Decorate a function of a run, a timeline or a trace: its result is cached in that object."""

    @wraps(compute)
    def cached(of: Owner) -> T:
        return cast(T, of.cache.get(cached, lambda: compute(of)))

    return cached


__all__ = ["ResultCache", "memoize", "once"]
