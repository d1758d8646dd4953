# SPDX-License-Identifier: Apache-2.0
"""The user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return Outpace's folder in the user's cache, as the XDG Base Directory Specification defines
    it. It need not exist.
    """
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~")) / ".cache") / "outpace"
