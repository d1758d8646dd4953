# SPDX-License-Identifier: Apache-2.0
"""What was found as a change of the user's source: a unified diff with the fewest lines, and
nobody's files are touched.
"""

from __future__ import annotations

from outpace.tune.patch.make import FileChange, SourcePatch, write_patch

__all__ = ["FileChange", "SourcePatch", "write_patch"]
