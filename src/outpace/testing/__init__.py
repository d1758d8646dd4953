# SPDX-License-Identifier: Apache-2.0
"""Synthetic profiles for tests: a builder of XSpace files, of GPUs in them, and training runs with
known times.
"""

from outpace.model.space_builder import Inline, LineBuilder, PlaneBuilder, SpaceBuilder, StatValue, Unsigned
from outpace.testing.gpu import Dialect, GpuBuilder, Launch
from outpace.testing.scenario import training_run

__all__ = [
    "Dialect",
    "GpuBuilder",
    "Inline",
    "Launch",
    "LineBuilder",
    "PlaneBuilder",
    "SpaceBuilder",
    "StatValue",
    "Unsigned",
    "training_run",
]
