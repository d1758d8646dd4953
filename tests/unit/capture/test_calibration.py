"""The loops that say how fast the machine is."""

from __future__ import annotations

import subprocess
import sys

from outpace.capture.calibration import calibrate
from outpace.compare.evidence import CALIBRATION_LOOPS


def test_each_loop_takes_some_time() -> None:
    found = calibrate()
    assert tuple(found) == CALIBRATION_LOOPS and all(type(ns) is int and 1_000 < ns < 10**9 for ns in found.values())


def test_it_needs_nothing_but_the_standard_library() -> None:
    """It runs in every training process, before the profiler opens."""
    code = "import sys; from outpace.capture.calibration import calibrate; calibrate(); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
