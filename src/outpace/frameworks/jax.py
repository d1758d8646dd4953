# SPDX-License-Identifier: Apache-2.0
"""The private names of JAX that Outpace uses."""

from __future__ import annotations

from functools import partial

from outpace.frameworks.private import PrivateName

NAMES: list[PrivateName] = []
_Name = partial(PrivateName, NAMES, "jax._src")
_OlderName = partial(PrivateName, [], "jax._src")

BACKENDS = _Name("xla_bridge", "_backends")  # by platform; empty before JAX has touched a device

START_TRACE = _Name("profiler", "start_trace")  # where `jax.profiler.trace` looks it up
OLDER_HOST_PROFILER = _OlderName("profiler", "xla_client.profiler")
HOST_PROFILER = _Name("profiler", "_profiler", OLDER_HOST_PROFILER)
PROFILE_SESSION = _Name("profiler", "_profile_state.profile_session")  # the session that was begun last
PROFILE_LOCK = _Name("profiler", "_profile_state.lock")
PROFILE_RESET = _Name("profiler", "_profile_state.reset")

TRACE_TO_JAXPR = _OlderName("interpreters.partial_eval", "trace_to_jaxpr_dynamic")
SET_TRACE = _Name("core", "set_current_trace", TRACE_TO_JAXPR)  # since JAX 0.4.36
JAXPR_TRACE = _Name("interpreters.partial_eval", "DynamicJaxprTrace")

CACHE_MISS = _Name("pjit", "cache_miss")  # JAX's Python function for a call that its cache does not know, since 0.4.26 at least

TRACEBACK_FILE = _Name("traceback_util").file  # wraps JAX's functions, and shortens what they raise
CALLBACK_FILE = _Name("callback").file  # Python that a program on a device calls
DEBUGGING_FILE = _Name("debugging").file  # likewise
DERIVATIVES_FILE = _Name("interpreters.ad").file  # where a gradient is computed op by op
