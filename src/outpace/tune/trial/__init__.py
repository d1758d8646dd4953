# SPDX-License-Identifier: Apache-2.0
"""Fair trials: variants of one program, timed in short paired blocks, judged with an interval,
confirmed on fresh rounds.

Standard library only, so that it can run beside any training program. `run_experiment` is the way
in; everything that it returns is data that can be written, read back and judged again.
"""

from __future__ import annotations

from outpace.stats.ratios import Estimate
from outpace.tune.trial.arm import Arm, Facts, Work
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import (
    Decision,
    Environment,
    Experiment,
    Per,
    Phase,
    Protocol,
    Sample,
    Trial,
    Verdict,
    read_experiment,
    write_experiment,
)
from outpace.tune.trial.verdict import judge

__all__ = [
    "Arm", "Decision", "Environment", "Estimate", "Experiment", "Facts", "Per", "Phase", "Protocol", "Sample", "Trial", "Verdict", "Watch",
    "Work", "judge", "read_experiment", "run_experiment", "write_experiment",
]  # fmt: skip
