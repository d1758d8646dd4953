"""Runs an action when SIGTERM ends a process that records; the process then ends as it would
have.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

# seconds between two reads: the signals of a sampler (`ticks`), a hundred a second, arrive here too
_REST = 0.05


class TerminationHandler:
    """Calls `action` with the signal's name before SIGTERM ends the process; does nothing where the
    script handles SIGTERM itself.

    The process ends at once and by the same signal, even while the main thread is inside a long
    call of the framework. Python runs its signal handlers only after such a call, so that a thread
    listens at the descriptor to which Python writes the numbers of signals.
    """

    def __init__(self, action: Callable[[str], None]) -> None:
        self._action = action
        self._write: int | None = None
        self._ending = threading.Lock()

    def install(self) -> None:
        """Start to listen, on the main thread. On any other thread it does nothing, and a signal
        ends the process without the action.
        """
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        read, write = os.pipe()
        os.set_blocking(write, False)
        before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        if before != -1:  # an event loop uses the descriptor already
            signal.set_wakeup_fd(before)
            os.close(read)
            os.close(write)
            return
        self._write = write
        signal.signal(signal.SIGTERM, self._handle)
        threading.Thread(target=self._listen, args=(read,), name="outpace-signals", daemon=True).start()

    def remove(self) -> None:
        """Restore the signal handler. On any other than the main thread this is left to the next
        `remove`; until then a signal ends the process as before.
        """
        if self._write is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, self._write):
            signal.set_wakeup_fd(current)
        os.write(self._write, b"\0")  # ends the listening thread
        os.close(self._write)
        self._write = None

    def _listen(self, read: int) -> None:
        """Thread that waits for SIGTERM at the descriptor `read`."""
        while True:
            numbers = os.read(read, 4096)
            if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) == self._handle:
                self._end()
            if not numbers or 0 in numbers:
                os.close(read)
                return
            time.sleep(_REST)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler on the main thread. The listening thread is usually faster, but is gone
        when a script restores this handler later.
        """
        self._end()

    def _end(self) -> None:
        """Call the action, then end the process by the signal's default action; only once."""
        if not self._ending.acquire(blocking=False):
            return
        try:
            self._action("SIGTERM")
        finally:
            # `signal.signal` works in the main thread only, C's function in any thread; SIG_DFL is
            # a null pointer.
            ctypes.CDLL(None).signal(signal.SIGTERM, None)
            os.kill(os.getpid(), signal.SIGTERM)
