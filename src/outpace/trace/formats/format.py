"""What a format of profiles is."""

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
    """One format of profiles: a package (one folder) whose `__init__` defines `FORMAT =
    ProfileFormat(__name__, ...)`.

    `endings`: of the files that are looked for in folders; `extra_endings`: endings that a single
    file of it may have too. The folder's `reader` module is loaded when a file is opened: its
    `open_trace(source, host, limits)` makes a `Trace` of a path, or of what is `InMemoryProfile` in
    memory, whose planes, lines and stats have the names of `outpace.trace.dialect`. A trace without
    the window of the limits is cut afterwards. Training processes look through folders too: what
    stands here imports nothing.
    """

    package: str
    endings: tuple[str, ...]
    extra_endings: tuple[str, ...] = ()

    def open(self, source: Path | InMemoryProfile, host: str, limits: ReadLimits) -> Trace:
        """Decode a file, or what is held of one. Raises ProfileError where it is not of this
        format, NotFoundError where it is not there, TooLargeError where the limits hold no room for
        it.
        """
        return cast("Trace", importlib.import_module(f"{self.package}.reader").open_trace(source, host, limits))
