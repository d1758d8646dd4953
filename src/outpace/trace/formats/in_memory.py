"""A profile that somebody holds in memory, in place of a file."""

from __future__ import annotations

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class InMemoryProfile:
    """The bytes of a profile, gzipped or not. `name`: of the file they are of, "" where nobody
    says; `type_name`: what they were given as.
    """

    data: bytes
    name: str = ""
    type_name: str = "bytes"

    def __str__(self) -> str:
        return self.name or f"<{self.type_name}>"
