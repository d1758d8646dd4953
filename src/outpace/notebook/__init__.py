"""Notebooks need nothing more than `outpace.open(path)`: a `Page` shows itself, and every table
speaks Arrow.
"""

from outpace.api import Profile, open

__all__ = ["Profile", "open"]
