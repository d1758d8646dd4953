# SPDX-License-Identifier: Apache-2.0
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
_PAUSE_S = 0.05


class TerminationHandler:
    """Calls `action` with the signal's name before SIGTERM ends the process; does nothing where the
    script handles SIGTERM itself.

    The process ends at once and by the same signal, even while the main thread is inside a long
    call of the framework. Python runs its signal handlers only after such a call, so that a thread
    listens at the descriptor to which Python writes the numbers of signals.
    """

    def __init__(self, action: Callable[[str], None]) -> None:
        self._action = action
        self._write_descriptor: int | None = None
        self._end_lock = threading.Lock()

    def install(self) -> None:
        """Start to listen, on the main thread. On any other thread it does nothing, and a signal
        ends the process without the action.
        """
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        read_descriptor, write_descriptor = os.pipe()
        os.set_blocking(write_descriptor, False)
        previous = signal.set_wakeup_fd(write_descriptor, warn_on_full_buffer=False)
        if previous != -1:  # an event loop uses the descriptor already
            signal.set_wakeup_fd(previous)
            os.close(read_descriptor)
            os.close(write_descriptor)
            return
        self._write_descriptor = write_descriptor
        signal.signal(signal.SIGTERM, self._handle)
        threading.Thread(target=self._listen, args=(read_descriptor,), name="outpace-signals", daemon=True).start()

    def remove(self) -> None:
        """Restore the signal handler. On any other than the main thread this is left to the next
        `remove`; until then a signal ends the process as before.
        """
        if self._write_descriptor is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, self._write_descriptor):
            signal.set_wakeup_fd(current)
        os.write(self._write_descriptor, b"\0")  # ends the listening thread
        os.close(self._write_descriptor)
        self._write_descriptor = None

    def _listen(self, descriptor: int) -> None:
        """Thread that waits for SIGTERM at the descriptor `descriptor`."""
        while True:
            numbers = os.read(descriptor, 4096)
            if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) == self._handle:
                self._end_process()
            if not numbers or 0 in numbers:
                os.close(descriptor)
                return
            time.sleep(_PAUSE_S)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler on the main thread. The listening thread is usually faster, but is gone
        when a script restores this handler later.
        """
        self._end_process()

    def _end_process(self) -> None:
        """Call the action, then end the process by the signal's default action; only once."""
        if not self._end_lock.acquire(blocking=False):
            return
        try:
            self._action("SIGTERM")
        finally:
            # `signal.signal` works in the main thread only, C's function in any thread; SIG_DFL is
            # a null pointer.
            ctypes.CDLL(None).signal(signal.SIGTERM, None)
            os.kill(os.getpid(), signal.SIGTERM)
