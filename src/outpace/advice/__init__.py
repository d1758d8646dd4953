"""Ranks and merges the findings of all tools."""

from outpace.advice.rank import rank

__all__ = ["rank"]
