# SPDX-License-Identifier: Apache-2.0
"""Reads the sides of a comparison from the command line's sources: profiles and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outpace.compare import Side
    from outpace.model.redaction import Redaction


def read_side(
    sources: Sequence[str], redaction: Redaction | None = None, open_options: Mapping[str, Any] | None = None
) -> Side:
    """Return the captures of all sources as one side, redacted where that is requested. At most
    one profile is open at a time.

    `open_options`: options of `outpace.open` that limit what is read of each profile.
    """
    from outpace.compare import Side

    name = sources[0] if redaction is None else redaction.redact_path(sources[0])
    return Side.merge(name, [_side(source, redaction, open_options or {}) for source in sources])


def _side(source: str, redaction: Redaction | None, part: Mapping[str, Any]) -> Side:
    """Return the side of one source. Raises UsageError where a baseline cannot be redacted or
    windowed, NotFoundError where there is no such source.
    """
    from outpace import api
    from outpace.cli.progress import show_reading
    from outpace.compare import Side, baseline, baseline_store
    from outpace.model import NotFoundError, UsageError

    path = baseline_store.find_baseline(source)
    if path is not None:
        if redaction is not None:
            raise UsageError(
                f"{source} is a baseline, which cannot be redacted: give the profiles that it was saved from with --redact."
            )
        if part.get("window") is not None:
            raise UsageError(
                f"{source} is a baseline, of which no part of the time can be taken: give the profiles that it was saved from."
            )
        return baseline.read_baseline(path, source)
    try:
        with show_reading(source), api.open(source, redact=redaction or False, **part) as profile:
            return Side.from_runs(profile.run.source if redaction else source, profile.run)
    except NotFoundError as error:
        names = baseline_store.find_baselines()
        raise NotFoundError(
            f"{error} Baselines in {baseline_store.FOLDER}: {', '.join(names)}." if names else str(error)
        ) from error
