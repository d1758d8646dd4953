"""Advice of all tools together: which finding a reader should act on first, and how to go on."""

from outpace.advice.headline import headline
from outpace.advice.next import following
from outpace.advice.rank import drop_unfounded, rank

__all__ = ["drop_unfounded", "following", "headline", "rank"]
