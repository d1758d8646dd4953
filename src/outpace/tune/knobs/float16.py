"""Mixed precision in float16, with the loss scaled."""

from outpace.tune.knobs.precision import MixedPrecision

KNOB = MixedPrecision("mixed_float16", 31)
