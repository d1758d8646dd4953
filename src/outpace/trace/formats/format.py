# SPDX-License-Identifier: Apache-2.0
"""`ProfileFormat`: the description of one format of profiles."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from outpace._dataclass import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from outpace.trace.formats.in_memory import InMemoryProfile
    from outpace.trace.limits import ReadLimits
    from outpace.trace.trace import Trace


@dataclass(frozen=True)
class ProfileFormat:
    """One format of profiles: a package whose `__init__` defines `FORMAT =
    ProfileFormat(__name__, ...)`.

    package: name of the package. Its module `reader` is imported when a file is opened; its
        function `open_trace(source, host, limits)` returns the `Trace` of a path or an
        `InMemoryProfile`, with the names of `outpace.trace.dialect` for planes, lines and stats. A
        reader may ignore the window of `limits`; the trace is then cut afterwards.
    endings: of files that are searched for in folders.
    extra_endings: further endings that a single file of the format may have.

    Training processes search folders too: the package itself must import nothing else.
    """

    package: str
    endings: tuple[str, ...]
    extra_endings: tuple[str, ...] = ()

    def open(self, source: Path | InMemoryProfile, host: str, limits: ReadLimits) -> Trace:
        """Decode a file or a profile in memory. Raises ProfileError where it is not of this format,
        NotFoundError where it does not exist, TooLargeError where its events exceed the memory
        limit.
        """
        return cast("Trace", importlib.import_module(f"{self.package}.reader").open_trace(source, host, limits))
