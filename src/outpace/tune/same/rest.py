"""Waits until a script's other threads have come to rest: what they work on belongs to the step that gave it to them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from outpace._dataclass import dataclass

LOOK = 0.002  # seconds between looks
LOOKS = 3  # in which none of them computed
TASKS = Path("/proc/self/task")
MOST = 0.5  # seconds; threads that never rest are not waited for again


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
        late, before, still = time.monotonic() + MOST, [""], 0
        while still < LOOKS:
            now = [_doing(each) for each in others]
            still = still + 1 if now == before else 0
            before = now
            if time.monotonic() > late:
                self.given_up = True
                return
            time.sleep(LOOK)


def _doing(thread: threading.Thread) -> str:
    """What a thread has computed so far; another text each time where it could go on."""
    try:
        state = (TASKS / str(thread.native_id) / "stat").read_text().rpartition(") ")[2][0]
        ran = (TASKS / str(thread.native_id) / "schedstat").read_text()
    except OSError:  # it has ended
        return ""
    return f"{ran} {time.monotonic()}" if state == "R" else ran
