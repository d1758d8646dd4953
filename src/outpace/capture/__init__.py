"""Getting a profile: `run_script` runs an unmodified training script and captures a window of its steps.

The public names load on first use: this package is also imported inside the user's training process, which must not
see any other module than its script would have loaded (see `launch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outpace.capture.options import CaptureOptions
    from outpace.capture.runner import CaptureResult, run_script

__all__ = ["CaptureOptions", "CaptureResult", "run_script"]


def __getattr__(name: str) -> Any:
    import importlib

    homes = {"CaptureOptions": "options", "CaptureResult": "runner", "run_script": "runner"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{homes[name]}"), name)
