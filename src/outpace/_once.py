"""`once`: `functools.cached_property` as it was until Python 3.11, when it computed for one thread while others waited."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as once
else:
    from functools import cached_property

    class once(cached_property):
        """A property that is computed when it is asked for first, once, whatever threads ask for it. What raises is not kept."""

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            with values.setdefault(f"lock of {self.attrname}", RLock()):
                if self.attrname not in values:
                    values[self.attrname] = self.func(instance)
            return values[self.attrname]


__all__ = ["once"]
