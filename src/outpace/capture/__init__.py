# SPDX-License-Identifier: Apache-2.0
"""Ways to a profile: from a running program (`outpace.capture(...)`), from an unmodified script, or
from workers on other machines.

The public names load on first use. This package is also imported inside the user's training
process, which must not see any module that its script would not have loaded (see `launch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy_getattr, make_package_callable

if TYPE_CHECKING:
    from outpace.capture.manual import Capture
    from outpace.capture.options import CaptureOptions
    from outpace.capture.runner import CaptureResult, run_script

__all__ = ["Capture", "CaptureOptions", "CaptureResult", "run_script"]
__getattr__ = lazy_getattr(__name__, {"manual": "Capture", "options": "CaptureOptions", "runner": "CaptureResult run_script"})
make_package_callable(__name__, "manual", "capture")
