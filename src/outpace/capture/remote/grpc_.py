# SPDX-License-Identifier: Apache-2.0
"""Loads gRPC, which is needed only where a process is captured from outside."""

from __future__ import annotations

import importlib
from typing import Any

from outpace.model.errors import CaptureError


def load_grpc() -> Any:
    """Return the module `grpc`. Raises CaptureError when it is not installed."""
    try:
        return importlib.import_module("grpc")
    except ImportError as error:
        raise CaptureError(
            f"Capturing a running process needs grpcio, which cannot be imported ({error}). Install it: pip install grpcio"
        ) from None
