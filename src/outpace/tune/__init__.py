# SPDX-License-Identifier: Apache-2.0
"""Change what holds a training program back, and prove by measurement that the change helps.

The package itself is called: `outpace.tune("train.py")`.
"""

from __future__ import annotations

from outpace._lazy import make_package_callable

make_package_callable(__name__, "session", "tune")
