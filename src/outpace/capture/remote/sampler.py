"""One sample of this process: the framework's profiler, for so long, and the profile as bytes. Runs beside the training loop."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sys
import tempfile
import threading
import time
from types import ModuleType

from outpace.capture.options import CaptureOptions
from outpace.capture.profilers import MAKERS, Profiler, ProfilerBusy
from outpace.capture.remote.wire import ProfileRequest, ProfileResponse, has_events

LONGEST_MS = 3_600_000  # an hour: a request for more is a mistake, and its profile could not be sent

LEVELS_IGNORED = "its TensorFlow takes no tracer levels from Python, so the defaults were used"


class Refused(Exception):
    """No sample was taken; `code` names the gRPC status that says so."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Sampler:
    """Takes one sample at a time. `end` makes a running one stop early and keep what it has, and refuses later ones."""

    def __init__(self) -> None:
        self._one = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()

    def sample(self, request: ProfileRequest, cancel: threading.Event) -> tuple[ProfileResponse, str]:
        """The profile of the requested time, and a remark on it (empty: none). Raises Refused.

        `cancel` is set when nobody waits for the answer any more; `nudge` must be called after setting it.
        """
        if not 0 < request.duration_ms <= LONGEST_MS:
            raise Refused("INVALID_ARGUMENT", f"{request.duration_ms} ms cannot be captured: ask for 1 ms to 1 hour.")
        if self._ending.is_set():
            raise Refused("UNAVAILABLE", "The process is ending.")
        if not self._one.acquire(blocking=False):
            raise Refused("ALREADY_EXISTS", "Another capture of this process is running.")
        folder = ""
        try:
            self._wake.clear()
            name, module = _framework()
            profiler = _profiler(name, module, request)
            self._pause(request.start_ns / 1e9 - time.time(), cancel)
            folder = tempfile.mkdtemp(prefix="outpace-")
            _start(profiler, folder)
            self._pause(request.duration_ms / 1e3, cancel)
            _stop(profiler, save=not cancel.is_set())
            xspace = b"" if cancel.is_set() else _read(folder)
            note = (
                f"{name} here takes no tracer levels: its defaults were used"
                if getattr(profiler, "ignores_levels", False)
                else ""
            )
            return ProfileResponse(xspace, empty=not has_events(xspace)), note
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._one.release()

    def nudge(self) -> None:
        """Let a waiting sample look at its `cancel` again."""
        self._wake.set()

    def end(self) -> None:
        """The process is about to end: hand over what there is."""
        self._ending.set()
        self._wake.set()

    def _pause(self, seconds: float, cancel: threading.Event) -> None:
        """Wait so long, or until there is a reason not to."""
        end = time.monotonic() + seconds
        while not self._ending.is_set() and not cancel.is_set():
            left = end - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()


def _framework() -> tuple[str, ModuleType]:
    """The framework that trains here, as far as the script has imported it.

    Programs that train with JAX often import TensorFlow for its input pipeline, so JAX comes first where it has computed something.
    """
    found = {name: module for name in MAKERS if _ready(name) and (module := sys.modules[name])}
    if not found:
        raise Refused("FAILED_PRECONDITION", "The process has imported neither TensorFlow nor JAX yet.")
    name = "jax" if "jax" in found and ("tensorflow" not in found or _jax_computes()) else "tensorflow"
    return name, found[name]


def _ready(name: str) -> bool:
    """Whether a framework is imported to its end: another thread may be in the middle of that."""
    module = sys.modules.get(name)
    profiler = getattr(module, "profiler", None)
    return getattr(profiler, "experimental" if name == "tensorflow" else "start_trace", None) is not None


def _jax_computes() -> bool:
    with contextlib.suppress(Exception):  # private, so any surprise means no
        return bool(sys.modules["jax._src.xla_bridge"].backends_are_initialized())
    return False


def _profiler(name: str, module: ModuleType, request: ProfileRequest) -> Profiler:
    options = CaptureOptions(
        host_level=request.host_level, python_level=request.python_level, device_level=request.device_level
    )
    return MAKERS[name](module, options)


def _start(profiler: Profiler, folder: str) -> None:
    try:
        profiler.start(folder)
    except ProfilerBusy:
        raise Refused("ALREADY_EXISTS", "Another profiler is running in this process.") from None
    except Exception as error:
        raise Refused("INTERNAL", f"The profiler could not be started: {error}") from error


def _stop(profiler: Profiler, save: bool) -> None:
    try:
        profiler.stop(save=save)
    except Exception as error:  # the script has stopped it, for instance
        raise Refused("ABORTED", f"The profiler was stopped by somebody else, or could not save: {error}") from error


def _read(folder: str) -> bytes:
    found = glob.glob(os.path.join(folder, "plugins", "profile", "*", "*.xplane.pb"))
    if not found:
        raise Refused("INTERNAL", "The profiler wrote no file.")
    with open(found[0], "rb") as file:
        return file.read()
