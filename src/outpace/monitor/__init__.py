"""`Monitor`: step time, input wait, throughput and memory of a whole training run, and a profile
when its steps slow down.

Standard library only at import: this runs inside the user's training process.
"""

from __future__ import annotations

from outpace.monitor.monitor import Monitor

__all__ = ["Monitor"]
