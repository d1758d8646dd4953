"""Writes what a tuning has proven into the user's own source: a patch, with everything else of the file left as it is.

`patch_of` makes it, `verify_patch` runs the patched program up to its first fit and compares, `write_patch` and `write_copies` write it where
the caller says. No file of the user's is ever touched.
"""

from __future__ import annotations

from outpace.tune.patch.make import FileChange, Left, SourcePatch, patch_of, write_copies, write_patch
from outpace.tune.patch.verify import verify_patch

__all__ = ["FileChange", "Left", "SourcePatch", "patch_of", "verify_patch", "write_copies", "write_patch"]
