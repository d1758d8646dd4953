# SPDX-License-Identifier: Apache-2.0
"""Monitors a whole training run: `Monitor` measures step time, input wait, throughput and memory,
and captures a profile when steps slow down.

The package imports only the standard library, because it runs inside the user's training process.
"""

from __future__ import annotations

from outpace.monitor.monitor import Monitor

__all__ = ["Monitor"]
