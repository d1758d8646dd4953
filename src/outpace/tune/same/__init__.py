# SPDX-License-Identifier: Apache-2.0
"""Whether two texts of a script are the same program: each runs in processes of its own, what they
hold at marks is written down and compared.

A mark is at the end of each pass of the loops that a function of the user's stands in when it
trains, or of each call of a `fit`. There the whole state is read by path of names (`state`), with
chance fixed by the place that asks for it (`chance`). Loops are cut after as many passes as there
is time for, so that what comes behind them runs as well (`marks`). The original runs twice, and
once more from numbers that differ by one rounding (`nudge`); only what the first two agree on is
compared, as closely as the third allows (`judge`).
"""

from __future__ import annotations

from outpace.tune.same.judge import judge
from outpace.tune.same.judgement import Judgement, Standing
from outpace.tune.same.prove import Original, Texts
from outpace.tune.same.record import Record
from outpace.tune.texts.place import Place

__all__ = ["Judgement", "Original", "Place", "Record", "Standing", "Texts", "judge"]
