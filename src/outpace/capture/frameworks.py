# SPDX-License-Identifier: Apache-2.0
"""Which framework trains in this process, and its profiler. Nothing is imported here: only what the
script has loaded counts.
"""

from __future__ import annotations

import os
import re
import sys

from outpace.capture.options import CaptureOptions
from outpace.capture.profilers import PROFILER_CLASSES, Profiler
from outpace.frameworks.jax import BACKENDS
from outpace.model.errors import CaptureError

_FRAMEWORKS = ("tensorflow", "jax")


def framework_in_use() -> str | None:
    """Return `tensorflow`, `jax`, or None when the script has imported neither.

    Both can be imported: TensorFlow imports JAX where that is installed, and a JAX program may read
    its data with tf.data. Then it is JAX once that has touched a device, else the backend of Keras.
    """
    loaded = [name for name in _FRAMEWORKS if _is_imported(name)]
    if len(loaded) < 2:
        return loaded[0] if loaded else None
    return "jax" if BACKENDS.value or keras_backend() == "jax" else "tensorflow"


def _is_imported(name: str) -> bool:
    """Whether a framework is imported completely; another thread may be in the middle of the
    import.
    """
    profiler = getattr(sys.modules.get(name), "profiler", None)
    return hasattr(profiler, "experimental" if name == "tensorflow" else "start_trace")


def uses_cuda_graphs() -> bool:
    """Whether JAX trains here on NVIDIA GPUs with CUDA graphs. It can then crash when a trace ends
    on another thread.
    """
    return "cuda" in (BACKENDS.value or {}) and allows_cuda_graphs()


def allows_cuda_graphs() -> bool:
    """Whether XLA may use CUDA graphs in this process."""
    flag = re.findall(r"--xla_gpu_enable_command_buffer=(\S*)", os.environ.get("XLA_FLAGS", ""))
    return not flag or bool(flag[-1].strip("'\""))


def keras_backend() -> str:
    """Return Keras' backend; `tensorflow` where Keras is not imported or has no choice of
    backends.
    """
    backend = getattr(getattr(sys.modules.get("keras"), "backend", None), "backend", None)
    return str(backend()) if callable(backend) else "tensorflow"


def keras_framework() -> str:
    """Return the framework whose profiler sees what Keras runs: `jax` on that backend, else
    `tensorflow`, which reads the data on the other backends too.
    """
    return "jax" if keras_backend() == "jax" else "tensorflow"


def build_profiler(options: CaptureOptions, framework: str | None = None) -> Profiler:
    """Return the profiler of `framework`; by default of the framework that trains here.

    Raises CaptureError when the framework is not imported.
    """
    name = framework or framework_in_use()
    module = sys.modules.get(name or "")
    if name is None or module is None:
        missing = f"{name} is not" if name else "neither TensorFlow nor JAX is"
        raise CaptureError(f"There is nothing to profile: {missing} imported. Import the framework before the capture starts.")
    return PROFILER_CLASSES[name](module, options)
