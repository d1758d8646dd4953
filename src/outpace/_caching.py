"""What is computed once, whatever threads ask for it: properties (`once`), and functions of
something that keeps their results (`derived`).
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
        """`functools.cached_property` as it was until Python 3.11: computed for one thread while
        others wait. What raises is not kept.
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
    """Results by their key. A run, a timeline and a trace have one of these each, and with it they
    are freed.
    """

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

    def discard(self, key: Hashable) -> None:
        """Let go of a result: whoever asks again computes it again."""
        with self._guard:
            lock = self._locks.setdefault(key, RLock())
        with lock:  # not between the moment when another thread finds it and the one when it takes it
            self._results.pop(key, None)

    def set(self, key: Hashable, value: Any) -> None:
        """Set a result from outside: tests of a rule state what it looks at."""
        self._results[key] = value


class HasCache(Protocol):
    """What keeps what is computed of it."""

    @property
    def cache(self) -> ResultCache:
        """The results."""


Owner = TypeVar("Owner", bound=HasCache)
T = TypeVar("T")


def memoize(compute: Callable[[Owner], T]) -> Callable[[Owner], T]:
    """Make a function of a run, a timeline or a trace keep its result with that."""

    @wraps(compute)
    def cached(of: Owner) -> T:
        return cast(T, of.cache.get(cached, lambda: compute(of)))

    return cached


__all__ = ["ResultCache", "memoize", "once"]
