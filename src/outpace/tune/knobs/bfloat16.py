"""Mixed precision in bfloat16, which has the range of float32: no loss scaling is needed."""

from outpace.tune.knobs.precision import MixedPrecision

KNOB = MixedPrecision("mixed_bfloat16", 30)
