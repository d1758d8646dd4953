"""A window by time alone, for scripts whose steps cannot be seen (JAX loops, one call that trains a whole epoch)."""

from __future__ import annotations

import ctypes
import threading
import time

from outpace.capture.choose import framework_in_use
from outpace.capture.session import Session
from outpace.capture.window import Candidate, CaptureDone


class TimedWindow:
    """Opens the window some seconds after the framework's import, if no step was seen by then."""

    def __init__(self, session: Session) -> None:
        """A window for this session, not waiting yet."""
        self._session = session
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start waiting, when the options ask for seconds; a second call does nothing."""
        if self._session.options.seconds is None or self._thread is not None:
            return
        self._thread = threading.Thread(target=self._wait, name="outpace-window", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        options, window = self._session.options, self._session.window
        time.sleep(options.delay)
        framework = framework_in_use() or "tensorflow"
        if not window.open_for_time(Candidate("seconds", mark=None, framework=framework)):
            return
        time.sleep(options.seconds or 0.0)
        try:
            window.close()
        except CaptureDone:
            self._stop_main()

    @staticmethod
    def _stop_main() -> None:
        """Raise in the main thread, at its next Python instruction: only there can the script be stopped."""
        main = threading.main_thread().ident
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main or 0), ctypes.py_object(CaptureDone))
