# SPDX-License-Identifier: Apache-2.0
"""`InMemoryProfile`: a profile in memory, in place of a file."""

from __future__ import annotations

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class InMemoryProfile:
    """The bytes of a profile, gzipped or not.

    name: of the file that they come from, "" where it is unknown.
    type_name: type of the object that the user passed, for messages.
    """

    data: bytes
    name: str = ""
    type_name: str = "bytes"

    def __str__(self) -> str:
        return self.name or f"<{self.type_name}>"
