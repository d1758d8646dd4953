# SPDX-License-Identifier: Apache-2.0
"""Captures running training processes over TensorFlow's gRPC profiler service: `capture_remote`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy_getattr

if TYPE_CHECKING:
    from outpace.capture.remote.fleet import capture_remote
    from outpace.capture.remote.result import HostOutcome, RemoteResult

__all__ = ["HostOutcome", "RemoteResult", "capture_remote"]
__getattr__ = lazy_getattr(__name__, {"fleet": "capture_remote", "result": "HostOutcome RemoteResult"})
