"""Synthetic profiles for tests: a builder of XSpace files, and training runs whose every time is known."""

from outpace.testing.scenario import training_run
from outpace.testing.space import Inline, LineBuilder, PlaneBuilder, SpaceBuilder, StatValue, Unsigned

__all__ = ["Inline", "LineBuilder", "PlaneBuilder", "SpaceBuilder", "StatValue", "Unsigned", "training_run"]
