# SPDX-License-Identifier: Apache-2.0
"""Outpace finds where a training step's time goes, changes what holds it back, and proves the gain
by measurement.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from outpace import _lazy
from outpace._version import __version__

if TYPE_CHECKING:
    from outpace import ray
    from outpace.api import Profile, open
    from outpace.capture.callback import ProfilerCallback, mark_tensorboard_steps
    from outpace.capture.manual import capture, start, stop
    from outpace.capture.marks import step
    from outpace.capture.remote import capture_remote
    from outpace.capture.server import serve
    from outpace.model import OutpaceError
    from outpace.monitor import Monitor
    from outpace.tables import export
    from outpace.tune.race import race
    from outpace.tune.session import tune

__all__ = [
    "Monitor",
    "OutpaceError",
    "Profile",
    "ProfilerCallback",
    "__version__",
    "capture",
    "capture_remote",
    "export",
    "mark_tensorboard_steps",
    "open",
    "race",
    "ray",
    "serve",
    "start",
    "step",
    "stop",
    "tune",
]
_public = _lazy.lazy_getattr(
    __name__,
    {
        "api": "Profile open",
        "capture.callback": "ProfilerCallback mark_tensorboard_steps",
        "capture.manual": "start stop",
        "capture.marks": "step",
        "monitor": "Monitor",
        "tables": "export",
        "capture.remote": "capture_remote",
        "capture.server": "serve",
        "model": "OutpaceError",
        "tune.race": "race",
    },
)


def __getattr__(name: str) -> Any:
    # `outpace.capture` and `outpace.tune` are modules and can also be called as functions
    if name in ("capture", "ray", "tune"):
        return importlib.import_module(f"outpace.{name}")
    # A tool that can also analyse a Keras model alone is a function of the package
    if os.path.isdir(os.path.join(__path__[0], "tools", name)):
        tool = importlib.import_module(f"outpace.tools.{name}").TOOL
        if tool.of_models:
            return tool.of_model
    return _public(name)


def _as_html(page: Any) -> str:
    from outpace.report.html import render_fragment

    return render_fragment(page)


_lazy.render_fragment = _as_html


def load_ipython_extension(shell: Any) -> None:
    """Register the notebook magics of Outpace; IPython calls this on `%load_ext outpace`."""
    importlib.import_module("outpace.notebook.magics").register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
