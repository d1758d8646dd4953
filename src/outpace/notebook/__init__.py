# SPDX-License-Identifier: Apache-2.0
"""Magics for notebooks. Without them, `outpace.open(path)` is enough: a `Page` displays itself, and
every table supports Arrow.
"""

from outpace.api import Profile, open

__all__ = ["Profile", "open"]
