"""Letting go of iterators: TensorFlow waits for their threads, often for tens of seconds, and does nothing meanwhile."""

from __future__ import annotations

import threading
from typing import Any


def dispose(things: list[Any]) -> None:
    """Empty a list that holds the last references to iterators, in a thread of its own, so that nobody waits.

    The thread is a daemon: a program that ends meanwhile does not wait either.
    """
    threading.Thread(target=things.clear, name="outpace-disposal", daemon=True).start()
