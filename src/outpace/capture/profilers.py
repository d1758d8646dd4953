# SPDX-License-Identifier: Apache-2.0
"""The profilers of TensorFlow and JAX behind one interface. Their modules are looked up in
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

# tracer levels of host, Python and device that are TensorFlow's defaults
DEFAULT_LEVELS = (2, 0, 1)
_ALREADY_EXISTS = "ALREADY_EXISTS"  # part of XLA's error message: another session runs
# versions that reject integer options ("host_tracer_level expects an i value") and accept no others
IGNORES_LEVELS = ("2.21.",)


class ProfilerBusy(Exception):
    """Another profiler session is running in this process."""


class Profiler(Protocol):
    """Profiler of one framework."""

    def start(self, logdir: str) -> None:
        """Start to record; the profile is written below `logdir`."""

    def stop(self, save: bool) -> None:
        """Stop recording; without `save` the profile is discarded."""

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark and return the function that ends it."""

    def sync(self) -> None:
        """Wait until dispatched work is done."""

    def is_ready(self) -> bool:
        """Whether a session may start or stop on this thread; False while the thread is inside such
        a call.
        """


class TensorFlowProfiler:
    """`tf.profiler.experimental`, called through its original functions, because Outpace hooks the
    public names.
    """

    def __init__(self, tf: Any, options: CaptureOptions) -> None:
        """Store the original functions of the imported TensorFlow."""
        self._tf = tf
        experimental = tf.profiler.experimental
        self._start, self._stop, self._mark_class = experimental.start, experimental.stop, experimental.Trace
        levels = (options.host_level, options.python_level, options.device_level)
        # Default levels are not passed: TensorFlow 2.21 warns on stderr about every option that it
        # gets.
        self._options = None if levels == DEFAULT_LEVELS else experimental.ProfilerOptions(*levels)
        version = str(getattr(tf, "__version__", ""))
        self.ignores_levels = self._options is not None and version.startswith(IGNORES_LEVELS)

    def is_running(self) -> bool:
        """Whether a session that was started from Python runs in this process."""
        return PROFILER.value is not None

    def start(self, logdir: str) -> None:
        """Start a session. Raises ProfilerBusy while one is running."""
        if self.is_running():
            raise ProfilerBusy
        try:
            self._start(logdir, options=self._options)
        except self._tf.errors.AlreadyExistsError:
            self._stop_dead_session()
            raise ProfilerBusy from None

    def stop(self, save: bool) -> None:
        """Stop the session; with `save` the profile is written below the log directory of
        `start`.
        """
        self._stop(save=save)

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark and return the function that ends it. Both must run on one thread."""
        trace = self._mark_class(name, step_num=number, _r=1)
        trace.__enter__()
        return lambda: trace.__exit__(None, None, None)

    def sync(self) -> None:
        """Wait until the devices are idle, so that the window starts and ends at the true end of a
        step.
        """
        wait = getattr(self._tf.test.experimental, "sync_devices", None)
        if wait is not None:
            wait()

    def is_ready(self) -> bool:
        """Return True: TensorFlow's lock is reentrant."""
        return True

    def _stop_dead_session(self) -> None:
        """Stop the dead session that a rejected start leaves behind while a server is running; it
        would block all later ones.
        """
        if self.is_running():
            self._stop(save=False)


class JaxProfiler:
    """`jax.profiler`, called through its original functions."""

    def __init__(self, jax: Any, options: CaptureOptions) -> None:
        """Store the original functions of the imported JAX."""
        self._jax = jax
        self._start, self._stop = jax.profiler.start_trace, jax.profiler.stop_trace
        self._mark_class = jax.profiler.StepTraceAnnotation
        self._options = options

    def start(self, logdir: str) -> None:
        """Start a session. Raises ProfilerBusy while one is running."""
        options_class = getattr(self._jax.profiler, "ProfileOptions", None)
        arguments: dict[str, Any] = {}
        if options_class is not None:  # since JAX 0.6
            options = options_class()
            options.host_tracer_level = self._options.host_level
            options.python_tracer_level = self._options.python_level
            arguments["profiler_options"] = options
        try:
            self._start(logdir, **arguments)
        except RuntimeError as error:
            raise ProfilerBusy(str(error)) from None

    def stop(self, save: bool) -> None:
        """Stop the session and write the profile. JAX cannot stop without writing; the caller
        removes the files of an unwanted profile.

        Raises ProfilerBusy where another session existed before, for example of a server: JAX
        notices that only at the end.
        """
        try:
            self._stop()
        except RuntimeError as error:
            if _ALREADY_EXISTS not in str(error):
                raise
            reset = PROFILE_RESET.value
            if reset is not None:  # otherwise JAX would consider the session still running
                reset()
            raise ProfilerBusy(str(error)) from None

    def is_ready(self) -> bool:
        """Whether the lock of JAX's profiler is free; it is not reentrant."""
        lock = PROFILE_LOCK.value
        return lock is None or not lock.locked()

    def begin_host_session(self) -> HostSession:
        """Return a started session that records the host alone.

        Raises ProfilerBusy while another session runs, NotImplementedError where this JAX has no
        such session.
        """
        for module in (HOST_PROFILER.value, OLDER_HOST_PROFILER.value):
            session = getattr(module, "ProfilerSession", None)
            options = getattr(self._jax.profiler, "ProfileOptions", None) or getattr(module, "ProfileOptions", None)
            if session is not None and options is not None:
                return HostSession(session, options)
        raise NotImplementedError

    def is_device_busy(self) -> bool:
        """Whether a device is working: a live array of the program is not computed yet."""
        for array in self._jax.live_arrays():
            with contextlib.suppress(Exception):
                if not array.is_ready():
                    return True
        return False

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark and return the function that ends it. Both must run on one thread."""
        trace = self._mark_class(name, step_num=number)
        trace.__enter__()
        return lambda: trace.__exit__(None, None, None)

    def sync(self) -> None:
        """Wait until the devices are idle, by waiting for all live arrays; a computation of
        Outpace's own would appear among the program's.
        """
        for array in self._jax.live_arrays():
            # the array was donated or deleted, or its computation failed, which the program will
            # see itself
            with contextlib.suppress(RuntimeError):
                array.block_until_ready()


class HostSession:
    """Short session of JAX's profiler that records the host alone, where this JAX supports that."""

    def __init__(self, kind: Any, options: Any) -> None:
        """Start the session.

        kind, options: JAX's classes of a session and of its options.

        Raises ProfilerBusy while the program has a session.
        """
        if PROFILE_SESSION.value is not None:
            raise ProfilerBusy
        session_options = options()
        session_options.host_tracer_level, session_options.python_tracer_level = 1, 0
        if hasattr(session_options, "device_tracer_level"):  # JAX 0.10 has no such option
            session_options.device_tracer_level = 0
        self._session = kind(session_options)

    def stop(self) -> bytes:
        """Stop the session and return the profile. Raises ProfilerBusy where another session, for
        example of a server, had the profiler.
        """
        try:
            data: bytes = self._session.stop()
        except RuntimeError as error:
            raise ProfilerBusy(str(error)) from None
        return data


PROFILER_CLASSES: dict[str, Callable[[Any, CaptureOptions], Profiler]] = {"tensorflow": TensorFlowProfiler, "jax": JaxProfiler}


def framework_versions() -> dict[str, str]:
    """Return the versions of the frameworks that the script has imported, by module name."""
    names = ("tensorflow", "keras", "tf_keras", "jax", "jaxlib", "numpy")
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: str(version) for name, version in versions.items() if version}
