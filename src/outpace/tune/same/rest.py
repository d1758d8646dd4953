# SPDX-License-Identifier: Apache-2.0
"""Waits until a script's other threads have come to rest: what they work on belongs to the step
that gave it to them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from outpace._dataclass import dataclass

LOOK = 0.002  # seconds between looks
LOOKS = 3  # in which none of them computed
TASKS = Path("/proc/self/task")
MOST = 250  # looks; threads that never rest are not waited for again


@dataclass(eq=False)
class Rest:
    """Of one process. Nothing is waited for where the system does not tell a thread's time."""

    given_up: bool = False

    def wait(self) -> None:
        """Return when they stand, or after a while."""
        threads = [each for each in threading.enumerate() if not isinstance(each, threading.Timer)]
        others = [each for each in threads if each is not threading.current_thread()]
        if self.given_up or not others or not TASKS.exists():
            return
        before, still, looks = dict[int, str](), 0, 0
        while still < LOOKS:
            now, ready = _computed(others)
            stand = now == before
            still = still + 1 if stand and not ready else 0
            looks += not (stand and ready)  # those that wait for a core, on a busy machine, are not those that never rest
            before = now
            if looks > MOST:
                self.given_up = True
                return
            time.sleep(LOOK)


def _computed(threads: Sequence[threading.Thread]) -> tuple[dict[int, str], bool]:
    """What each has computed so far, and whether one of them could go on."""
    ran, ready = dict[int, str](), False
    for each in threads:
        task = TASKS / str(each.native_id)
        with contextlib.suppress(OSError):  # it has ended
            ready |= (task / "stat").read_text().rpartition(") ")[2][0] == "R"
            ran[each.native_id or 0] = (task / "schedstat").read_text().split()[0]
    return ran, ready
