"""The profilers of TensorFlow and JAX behind one small face. Their modules are taken from
`sys.modules`, never imported.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, Protocol

from outpace.capture.options import CaptureOptions
from outpace.frameworks.jax import HOST_PROFILER, OLDER_HOST_PROFILER, PROFILE_LOCK, PROFILE_RESET, PROFILE_SESSION
from outpace.frameworks.tensorflow import PROFILER

DEFAULT_LEVELS = (2, 0, 1)  # host, Python, device: what TensorFlow uses when nothing is said
_ALREADY = "ALREADY_EXISTS"  # in the words of XLA's error: another session runs
IGNORES_LEVELS = ("2.21.",)  # "host_tracer_level expects an i value": int options are refused there, and nothing else fits


class ProfilerBusy(Exception):
    """Another profiler session is running in this process."""


class Profiler(Protocol):
    """One framework's profiler."""

    def start(self, logdir: str) -> None:
        """Begin to record; the profile is written below `logdir`."""

    def stop(self, save: bool) -> None:
        """End recording; without `save`, what was recorded is thrown away."""

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark; the returned function ends it."""

    def sync(self) -> None:
        """Wait until work that was dispatched is done."""

    def is_ready(self) -> bool:
        """Whether a session may begin or end on this thread: it is not in the middle of that
        already.
        """


class TensorFlowProfiler:
    """`tf.profiler.experimental`, called through its original functions: the public names carry our
    own hooks.
    """

    def __init__(self, tf: Any, options: CaptureOptions) -> None:
        """Keep the original functions of the imported TensorFlow."""
        self._tf = tf
        experimental = tf.profiler.experimental
        self._start, self._stop, self._trace = experimental.start, experimental.stop, experimental.Trace
        asked = (options.host_level, options.python_level, options.device_level)
        # The defaults are left unsaid: TensorFlow 2.21 warns on stderr about every option that it
        # is given.
        self._options = None if asked == DEFAULT_LEVELS else experimental.ProfilerOptions(*asked)
        version = str(getattr(tf, "__version__", ""))
        self.ignores_levels = self._options is not None and version.startswith(IGNORES_LEVELS)

    def is_running(self) -> bool:
        """Whether a session started from Python runs in this process."""
        return PROFILER.value is not None

    def start(self, logdir: str) -> None:
        """Start a session; raises ProfilerBusy when one is running."""
        if self.is_running():
            raise ProfilerBusy
        try:
            self._start(logdir, options=self._options)
        except self._tf.errors.AlreadyExistsError:
            self._forget()
            raise ProfilerBusy from None

    def stop(self, save: bool) -> None:
        """End the session; saving writes the profile under the log directory given to `start`."""
        self._stop(save=save)

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Open a step mark; the answer closes it. Both must happen on one thread."""
        trace = self._trace(name, step_num=number, _r=1)
        trace.__enter__()
        return lambda: trace.__exit__(None, None, None)

    def sync(self) -> None:
        """Wait until the devices are idle, so that the window starts and ends at a
        step's true end.
        """
        wait = getattr(self._tf.test.experimental, "sync_devices", None)
        if wait is not None:
            wait()

    def is_ready(self) -> bool:
        """TensorFlow's lock is taken again by the thread that has it."""
        return True

    def _forget(self) -> None:
        """A start refused by a running server leaves a dead session object behind, which would
        block all later ones.
        """
        if self.is_running():
            self._stop(save=False)


class JaxProfiler:
    """`jax.profiler`."""

    def __init__(self, jax: Any, options: CaptureOptions) -> None:
        """Keep the original functions of the imported JAX."""
        self._jax = jax
        self._start, self._stop = jax.profiler.start_trace, jax.profiler.stop_trace
        self._mark = jax.profiler.StepTraceAnnotation
        self._options = options

    def start(self, logdir: str) -> None:
        """Start a session; raises ProfilerBusy when one is running."""
        kind = getattr(self._jax.profiler, "ProfileOptions", None)
        arguments: dict[str, Any] = {}
        if kind is not None:  # since JAX 0.6
            options = kind()
            options.host_tracer_level = self._options.host_level
            options.python_tracer_level = self._options.python_level
            arguments["profiler_options"] = options
        try:
            self._start(logdir, **arguments)
        except RuntimeError as error:
            raise ProfilerBusy(str(error)) from None

    def stop(self, save: bool) -> None:
        """End the session and write the profile; JAX cannot end one unsaved, so the caller removes
        the files. Raises ProfilerBusy where another one, which a server began for example, was
        there before: JAX notices that at the end only.
        """
        try:
            self._stop()
        except RuntimeError as error:
            if _ALREADY not in str(error):
                raise
            reset = PROFILE_RESET.value
            if reset is not None:  # else JAX would take it for one that runs
                reset()
            raise ProfilerBusy(str(error)) from None

    def is_ready(self) -> bool:
        """Whether nobody holds the lock of JAX's profiler, which its thread cannot take twice."""
        lock = PROFILE_LOCK.value
        return lock is None or not lock.locked()

    def begin_host_session(self) -> HostSession:
        """A session that records the host alone, and has begun. Raises ProfilerBusy while another
        one runs, NotImplementedError where this JAX has none.
        """
        for module in (HOST_PROFILER.value, OLDER_HOST_PROFILER.value):
            session = getattr(module, "ProfilerSession", None)
            options = getattr(self._jax.profiler, "ProfileOptions", None) or getattr(module, "ProfileOptions", None)
            if session is not None and options is not None:
                return HostSession(session, options)
        raise NotImplementedError

    def is_device_busy(self) -> bool:
        """Whether a device is at work: a result that the program holds is not there yet."""
        for array in self._jax.live_arrays():
            with contextlib.suppress(Exception):
                if not array.is_ready():
                    return True
        return False

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Open a step mark; the answer closes it. Both must happen on one thread."""
        trace = self._mark(name, step_num=number)
        trace.__enter__()
        return lambda: trace.__exit__(None, None, None)

    def sync(self) -> None:
        """Wait until the devices are idle, by all arrays that the program holds: work of our own
        would stand among the program's.
        """
        for array in self._jax.live_arrays():
            with contextlib.suppress(RuntimeError):  # donated or deleted meanwhile, or it failed: the program will be told
                array.block_until_ready()


class HostSession:
    """A short session of JAX's profiler that records the host alone, where this JAX can
    be told so.
    """

    def __init__(self, kind: Any, options: Any) -> None:
        """Begin. Raises ProfilerBusy during a session that the program itself began."""
        if PROFILE_SESSION.value is not None:
            raise ProfilerBusy
        chosen = options()
        chosen.host_tracer_level, chosen.python_tracer_level = 1, 0
        if hasattr(chosen, "device_tracer_level"):  # JAX 0.10 cannot be told
            chosen.device_tracer_level = 0
        self._session = kind(chosen)

    def stop(self) -> bytes:
        """End, and answer the profile. Raises ProfilerBusy where another session, which a server
        began for example, had the profiler.
        """
        try:
            data: bytes = self._session.stop()
        except RuntimeError as error:
            raise ProfilerBusy(str(error)) from None
        return data


PROFILER_CLASSES: dict[str, Callable[[Any, CaptureOptions], Profiler]] = {"tensorflow": TensorFlowProfiler, "jax": JaxProfiler}


def framework_versions() -> dict[str, str]:
    """Versions of the frameworks that the script has imported."""
    names = ("tensorflow", "keras", "tf_keras", "jax", "jaxlib", "numpy")
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: str(version) for name, version in found.items() if version}
