# SPDX-License-Identifier: Apache-2.0
"""Asks one Python about its packages or one framework: `python probe.py
packages|tensorflow|jax` prints one line of JSON.

Runs in a process of its own, under the Python that will train: TensorFlow takes seconds, prints a
lot, and may crash inside CUDA. Standard library only, and no module of Outpace: it may not be
installed there.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

ANSWER_PREFIX = "OUTPACE-PROBE "  # prefix of the result's line: frameworks print to standard output, too
TENSORFLOWS = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "tensorflow-aarch64"),
    *("tf-nightly", "tf-nightly-cpu"),
)
PACKAGES = (
    *TENSORFLOWS,
    *("keras", "tf-keras", "jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "numpy", "protobuf"),
    *(
        "tensorboard",
        "tensorboard-plugin-profile",
        "tb-nightly",
        "xprof",
        "torch-tb-profiler",
        "setuptools",
        "outpace",
        "grpcio",
    ),
    *("nvidia-cuda-cupti-cu11", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti", "nvidia-cudnn-cu12"),
)


def describe_packages() -> dict[str, Any]:
    """Return the versions of the relevant installed packages, and the folders where they are
    installed.
    """
    import importlib.util
    import site
    import sysconfig

    packages = {name: version for name in PACKAGES if (version := _version(name))}
    spec = importlib.util.find_spec("outpace")
    paths = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *site.getsitepackages()}
    modules = [name for name in ("tensorflow", "jax") if importlib.util.find_spec(name)]
    return {"packages": packages, "modules": modules, "outpace": spec.origin if spec else None, "site": sorted(paths)}


def _version(name: str) -> str:
    """Return a package's installed version; "" when it is not installed, or its metadata is
    damaged.
    """
    from importlib import metadata

    try:
        return metadata.version(name)
    except Exception:
        return ""


def describe_tensorflow() -> dict[str, Any]:
    """Return TensorFlow's version, build information, devices and Keras."""
    import tensorflow as tf

    build = {key: value for key, value in tf.sysconfig.get_build_info().items() if isinstance(value, (str, bool, int))}
    answer = {"version": tf.__version__, "build": build, "file": tf.__file__}
    answer["gpus"] = [device.name for device in tf.config.list_physical_devices("GPU")]
    answer["tpus"] = [device.name for device in tf.config.list_physical_devices("TPU")]
    try:
        answer["keras"] = str(getattr(tf.keras, "__version__", ""))
    except Exception as error:
        answer["keras_error"] = str(error)
    return answer


def describe_jax() -> dict[str, Any]:
    """Return JAX's version, platform and devices, and whether its profiler takes tracer levels."""
    import jax as module

    devices = module.local_devices()
    answer = {"version": module.__version__, "backend": module.default_backend(), "file": module.__file__}
    answer["gpus"] = [str(device) for device in devices if device.platform in ("gpu", "cuda", "rocm")]
    answer["tpus"] = [str(device) for device in devices if device.platform == "tpu"]
    answer["levels"] = hasattr(module.profiler, "ProfileOptions")
    return answer


def main(subject: str) -> None:
    """Print the result as one line of JSON."""
    sys.path.pop(0)  # remove this file's folder: its modules must not hide those of the examined Python
    answer = {"packages": describe_packages, "tensorflow": describe_tensorflow, "jax": describe_jax}[subject]()
    answer.update(executable=sys.executable, python=platform.python_version())
    sys.stdout.write("\n" + ANSWER_PREFIX + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
