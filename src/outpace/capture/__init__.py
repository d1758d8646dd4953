"""Getting a profile: from a running program (`outpace.capture(...)`), from an unmodified script, or from workers elsewhere.

The public names load on first use: this package is also imported inside the user's training process, which must not
see any other module than its script would have loaded (see `launch`).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from outpace._lazy import lazy

if TYPE_CHECKING:
    from outpace.capture.manual import Capture
    from outpace.capture.options import CaptureOptions
    from outpace.capture.runner import CaptureResult, run_script

__all__ = ["Capture", "CaptureOptions", "CaptureResult", "run_script"]
__getattr__ = lazy(__name__, {"manual": "Capture", "options": "CaptureOptions", "runner": "CaptureResult run_script"})


class _Package(ModuleType):
    """The package is what users call: `with outpace.capture(logdir):`. Python binds that name to the package on its first import."""

    def __call__(self, *args: Any, **kwargs: Any) -> Capture:
        from outpace.capture.manual import capture

        return capture(*args, **kwargs)


sys.modules[__name__].__class__ = _Package
