"""Sides of a comparison as they are given on the command line: profiles, and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outpace.compare import Side


def side(sources: Sequence[str]) -> Side:
    """The captures of all sources as one side. No more than one profile is open at a time."""
    from outpace.compare import Side

    return Side.joined(sources[0], [_side(source) for source in sources])


def _side(source: str) -> Side:
    from outpace import api
    from outpace.compare import Side, baseline, places
    from outpace.model import NotFoundError

    path = places.find(source)
    if path is not None:
        return baseline.load(path, source)
    try:
        with api.open(source) as profile:
            return Side.of(source, profile.run)
    except NotFoundError as error:
        there = places.names()
        raise NotFoundError(f"{error} Baselines in {places.FOLDER}: {', '.join(there)}." if there else str(error)) from error
