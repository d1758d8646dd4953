# SPDX-License-Identifier: Apache-2.0
"""Measurement of what this machine's processor and memory can do: matrix products and copies, on
one core and on all.

The products are those of NumPy's BLAS and of JAX or TensorFlow where one is installed; the highest
rate counts, because libraries know more or fewer of a processor's instructions. The copies are
those of STREAM's first kernel, and count what is read and what is written. Each library and number
of cores has a process of its own, because libraries read the number when they are loaded.
"""

from __future__ import annotations

import datetime
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from outpace._cpus import available_cpus, cpu_name
from outpace.doctor.system import System
from outpace.model.errors import UsageError
from outpace.model.files import parse_json
from outpace.store.cpu_peaks import CpuPeaks, MeasuredRate

DTYPES = ("float32", "float64")
_LIMIT = 120.0  # seconds that a measurement may take
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "CUDA_VISIBLE_DEVICES": "-1"}
_TITLES = {"numpy": "NumPy", "jax": "JAX", "tensorflow": "TensorFlow"}
_SCRIPT = """
import json, os, sys, threading, time
library, cores, size, megabytes, trials = sys.argv[1], *map(int, sys.argv[2:])
if cores == 1 and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
import numpy as np
def rates(work, amount):
    work()
    found = []
    for _ in range(trials):
        begin = time.perf_counter()
        work()
        found.append(amount / (time.perf_counter() - begin))
    return found
def product(dtype):
    left, right = (np.ones((size, size), dtype) for _ in range(2))
    if library == "numpy":
        out = np.empty_like(left)
        work = lambda: np.matmul(left, right, out=out)
    elif library == "jax":
        import jax
        left, right, multiply = jax.device_put(left), jax.device_put(right), jax.jit(jax.numpy.matmul)
        work = lambda: multiply(left, right).block_until_ready()
    else:
        import tensorflow as tf
        left, right = tf.constant(left), tf.constant(right)
        work = lambda: tf.linalg.matmul(left, right).numpy()
    return rates(work, 2 * size**3)
def copy():
    arrays = [(np.ones(megabytes << 17), np.empty(megabytes << 17)) for _ in range(cores)]
    def work():
        threads = [threading.Thread(target=np.copyto, args=(out, source)) for source, out in arrays]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return rates(work, 2 * cores * (megabytes << 20))
measured = {dtype: product(dtype) for dtype in ("float32", "float64")}
print(json.dumps({**measured, "copy": copy() if library == "numpy" else []}))
"""


def measure_cpu_peaks(
    system: System, tell: Callable[[str], None] = lambda _: None, *, size: int = 2048, megabytes: int = 128, trials: int = 9
) -> CpuPeaks:
    """Measure the peaks of this machine, which takes some seconds.

    `size`: rows and columns of the matrices; `megabytes`: size of the array that each core copies;
    `trials`: repetitions of each. Raises UsageError where not even NumPy runs.
    """
    cores = available_cpus()
    libraries = ["numpy", *[name for name in ("jax", "tensorflow") if importlib.util.find_spec(name)][:1]]
    one, every = [], []
    for library in libraries:
        for count in dict.fromkeys((1, cores)):
            tell(f"measuring {'one core' if count == 1 else f'{count} cores'} with {_TITLES[library]}")
            rates = _measure(system, library, count, (size, megabytes, trials))
            one += [rates] * (count == 1)
            every += [rates] * (count == cores)
    return CpuPeaks(
        cpu_name(),
        cores,
        flops=_highest(every),
        core_flops=_highest(one),
        copy_bytes=_rate(every[0]["copy"]),
        core_copy_bytes=_rate(one[0]["copy"]),
        libraries=tuple(_TITLES[library] for library in libraries),
        measured=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def _measure(system: System, library: str, cores: int, amounts: tuple[int, int, int]) -> Mapping[str, Any]:
    """Return the rates per second of one library by dtype, and of copies under `copy`; none for a
    framework that does not run.
    """
    command = [sys.executable, "-c", _SCRIPT, library, *map(str, (cores, *amounts))]
    done = system.run(command, _LIMIT, {**_QUIET, **dict.fromkeys(_THREADS, str(cores))})
    if not done.code and not done.timed_out:
        return dict(parse_json(done.out.splitlines()[-1]))
    if library != "numpy":
        return {}
    reason = "it took too long" if done.timed_out else (done.err.strip().splitlines() or ["no reason given"])[-1]
    raise UsageError(f"The peaks cannot be measured: NumPy's products did not run under {sys.executable}: {reason}")


def _highest(measured: list[Mapping[str, Any]]) -> dict[str, MeasuredRate]:
    """Return the rate of the fastest library, by dtype."""
    rates = {dtype: [_rate(one[dtype]) for one in measured if dtype in one] for dtype in DTYPES}
    return {dtype: max(found, key=lambda rate: rate.high) for dtype, found in rates.items()}


def _rate(rates: list[float]) -> MeasuredRate:
    ordered = sorted(rates)
    return MeasuredRate(ordered[0], ordered[len(ordered) // 2], ordered[-1])
