# SPDX-License-Identifier: Apache-2.0
"""Looks at each line of the user's whether what an edited script's functions have read is still so,
and lets them be made again where it is not: of a run to the script's own end.

It needs no original beside it: an edited script is fast, and what it keeps wrongly is found where
the script changes that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.tune.same.frozen import Frozen
from outpace.tune.same.remade import Remade, Share


class EachLine:
    """users: whether a file is one of the user's. found: called once, when something
    has changed.
    """

    def __init__(self, frozen: Frozen, remade: Remade, users: Callable[[str], bool], found: Callable[[], None]) -> None:
        self._frozen, self._remade, self._users, self._found = frozen, remade, users, found
        self._share = Share()

    def begin(self, frame: FrameType | None) -> None:
        """Look from now on, also in the functions that run already."""
        while frame is not None:
            if self._users(frame.f_code.co_filename):
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._called)

    def passed(self) -> None:
        """Look after a pass, as far as there is time."""
        if self._share.left():
            self.look()
        self._remade.look()
        self._tell()

    def look(self, quick: bool = False) -> None:
        """Look at what was read now; quick: in short."""
        with self._share.taken():
            self._frozen.check(quick)
            self._remade.changes = self._frozen.changes

    def _tell(self) -> None:
        if self._remade.changed:
            sys.settrace(None)
            self._found()

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if self._users(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if self._share.left():
            self.look(quick=True)
        return self._line
