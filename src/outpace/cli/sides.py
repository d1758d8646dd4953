"""Sides of a comparison as they are given on the command line: profiles, and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outpace.compare import Side
    from outpace.model.redact import Redaction


def side(sources: Sequence[str], redaction: Redaction | None = None, part: Mapping[str, Any] | None = None) -> Side:
    """The captures of all sources as one side, redacted where that is asked for. No more than one profile is open at a time.

    `part`: how much of each, as options of `outpace.open`.
    """
    from outpace.compare import Side

    name = sources[0] if redaction is None else redaction.path(sources[0])
    return Side.joined(name, [_side(source, redaction, part or {}) for source in sources])


def _side(source: str, redaction: Redaction | None, part: Mapping[str, Any]) -> Side:
    from outpace import api
    from outpace.cli.patience import reading
    from outpace.compare import Side, baseline, places
    from outpace.model import NotFoundError, UsageError

    path = places.find(source)
    if path is not None:
        if redaction is not None:
            raise UsageError(
                f"{source} is a baseline, which cannot be redacted: give the profiles that it was saved from with --redact."
            )
        if part.get("window") is not None:
            raise UsageError(
                f"{source} is a baseline, of which no part of the time can be taken: give the profiles that it was saved from."
            )
        return baseline.load(path, source)
    try:
        with reading(source), api.open(source, redact=redaction or False, **part) as profile:
            return Side.of(profile.run.source if redaction else source, profile.run)
    except NotFoundError as error:
        there = places.names()
        raise NotFoundError(f"{error} Baselines in {places.FOLDER}: {', '.join(there)}." if there else str(error)) from error
