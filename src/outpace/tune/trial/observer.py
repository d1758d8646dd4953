"""What a variant's process tells of itself: the settings that TensorFlow took at its start. Standard library only.

Settings of the environment take effect, or not, without a word. So the process looks at what they made: the threads that TensorFlow started
for its pools, whether its kernels of oneDNN are on, which allocator is loaded, which options XLA noted down when it compiled.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

PREFIXES = ("TF_", "XLA_", "OMP_", "KMP_", "LD_PRELOAD")
_TASKS = "/proc/self/task"
_XLA_THREAD = "tf_XLAEigen"
_ALLOCATOR = re.compile(r"\S*/(lib(?:tcmalloc|jemalloc|mimalloc)[^/\s]*)")


class Observer:
    """Watches TensorFlow start in this process, and tells what came of it. `compiled` is set when a step is known to run through XLA."""

    def __init__(self) -> None:
        self.compiled = False
        self._tf: Any = None
        self._started: int | None = None

    def on_tensorflow(self, tf: ModuleType) -> None:
        """TensorFlow was imported: count the threads that it starts for its pools, which it does when it is first used."""
        self._tf = tf
        kind: Any = getattr(sys.modules.get("tensorflow.python.eager.context"), "Context", None)
        original: Callable[[Any], None] | None = getattr(kind, "ensure_initialized", None)
        if original is None:  # a TensorFlow that starts in another way: then nothing is proven
            return

        def ensure_initialized(context: Any) -> None:
            kind.ensure_initialized = original
            before = set(_threads())
            original(context)
            self._started = sum(task not in before for task in _threads())

        kind.ensure_initialized = ensure_initialized

    def facts(self) -> dict[str, Any]:
        """Everything that was seen, ready for JSON; `Observed` of `outpace.tune.environment` gives the meanings."""
        found: dict[str, Any] = {
            "variables": {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)},
            "xla": self.compiled or _XLA_THREAD in _threads().values(),
            "allocators": _allocators(),
            "xla_options": _xla_options(os.environ.get("XLA_FLAGS", "")),
        }
        if self._tf is not None and self._started is not None:  # asking one that was not used yet would start it
            with contextlib.suppress(Exception):  # a race goes on without what this TensorFlow does not tell
                found |= self._of_tensorflow(self._tf)
        return found

    def _of_tensorflow(self, tf: Any) -> dict[str, Any]:
        threading = tf.config.threading
        return {
            "pool_threads": self._started,
            "configured": {
                "intra": threading.get_intra_op_parallelism_threads(),
                "inter": threading.get_inter_op_parallelism_threads(),
            },
            "onednn": _onednn(),
            "gpus": len(tf.config.list_logical_devices("GPU")),
        }


def _threads() -> dict[str, str]:
    """Names of this process' threads by their number; empty where the system does not list them."""
    found = {}
    with contextlib.suppress(OSError):
        for task in os.listdir(_TASKS):
            with contextlib.suppress(OSError), open(f"{_TASKS}/{task}/comm", encoding="utf-8") as file:  # it may have ended
                found[task] = file.read().strip()
    return found


def _onednn() -> bool | None:
    """Whether TensorFlow's kernels of oneDNN are on, as its core says; None where it cannot be asked."""
    module: Any = sys.modules.get("tensorflow.python.util._pywrap_util_port")
    asked = getattr(module, "IsMklEnabled", None)
    return bool(asked()) if asked is not None else None


def _allocators() -> list[str]:
    """File names of the memory allocators that are loaded into this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            return sorted(set(_ALLOCATOR.findall(file.read())))
    except OSError:
        return []


def _xla_options(flags: str) -> list[str]:
    """Options that differ from XLA's defaults, as XLA noted them down for a module that it compiled, where it was asked to note such."""
    folder = re.search(r"--xla_dump_to=(\S+)", flags)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder[1]), "*.debug_options"))) if folder else ():
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    return []
