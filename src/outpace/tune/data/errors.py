"""What the rewriting of a pipeline raises when it would rather not."""

from __future__ import annotations

from outpace.model.errors import OutpaceError


class RebuildError(OutpaceError):
    """A pipeline cannot be rebuilt faithfully: the message names the stage and why. The pipeline itself is untouched."""
