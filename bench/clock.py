"""The steady step time of a report beside that of the program's own clock, for `bench/advice.py
clock`.

The programs read `time.perf_counter()` once in every step. Here each of these readings is noted
with its line and Unix time while `outpace profile` captures the program, so that both clocks speak
of the same steps: the mean time between two readings of the line that reads most regularly once per
step, over the steady steps of the capture, against the report's steady step time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import outpace
from outpace.timeline import Run

ALIKE = 0.1  # of the steps: as many readings, to one of them more or fewer, make a line the program's clock of steps
HOOK = """
import os, sys, time
_script, _out, _read = os.environ["CLOCK_SCRIPT"], open(os.environ["CLOCK_OUT"], "a", buffering=1), time.perf_counter
def perf_counter():
    at = _read()
    caller = sys._getframe(1)
    if caller.f_code.co_filename.endswith(_script):
        _out.write(f"{caller.f_lineno} {time.time_ns()}\\n")
    return at
time.perf_counter = perf_counter
"""


def step_times(script: Path) -> tuple[float, float]:
    """(steady step time of the report, mean of the program's own clock over the same steps; 0 where
    it has none), ms.
    """
    with tempfile.TemporaryDirectory() as scratch:
        hook = Path(scratch) / "site-packages"  # code there is a library's, and no line of the program's
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        readings = Path(scratch) / "readings"
        readings.touch()
        path = os.pathsep.join((str(hook), os.environ.get("PYTHONPATH", "")))
        environment = {**os.environ, "PYTHONPATH": path, "CLOCK_SCRIPT": script.name, "CLOCK_OUT": str(readings)}
        command = [sys.executable, "-m", "outpace.cli", "profile", "--json", "--logdir", f"{scratch}/log", str(script)]
        subprocess.run(command, env=environment, capture_output=True, timeout=240, check=False)
        if not any(Path(scratch, "log").rglob("*.xplane.pb")):
            return 0.0, 0.0
        return compared(outpace.open(f"{scratch}/log").run, readings.read_text())


def compared(run: Run, readings: str) -> tuple[float, float]:
    """As `step_times`, of a run and the lines and times (Unix ns) of the readings."""
    timeline = run.hosts[0]
    steps, origin = timeline.steps, timeline.unix_origin_ns
    if len(steps) == 0 or origin is None:
        return 0.0, 0.0
    whole = steps.steady_rows
    begin, end = origin + int(steps.start[whole].min()) // 1000, origin + int(steps.end[whole].max()) // 1000
    count = int(((steps.start >= steps.start[whole].min()) & (steps.end <= steps.end[whole].max())).sum())
    of_line = defaultdict(list)
    for line, at in (map(int, row.split()) for row in readings.splitlines()):
        if begin <= at <= end:
            of_line[line].append(at)
    steady = np.array([(int(steps.start[at]) // 1000 + origin, int(steps.end[at]) // 1000 + origin) for at in whole.tolist()])
    every = [
        np.array(times) for times in of_line.values() if abs(len(times) - count) <= max(1, ALIKE * count) and len(times) > 2
    ]
    # (our step times, the clock's) of one line each, ns. After its last reading the clock tells
    # nothing, and a window likes to end with a rare, long step: only steps between two readings are
    # compared.
    pairs = [
        (
            np.diff(steady, axis=1)[_inside(steady.mean(axis=1), [(times[0], times[-1])])],
            np.diff(times)[_inside((times[:-1] + times[1:]) // 2, steady.tolist())],
        )
        for times in every
    ]
    pairs = [(ours, own) for ours, own in pairs if len(ours) and len(own)]
    if not pairs:
        return float(steps.duration[whole].mean()) / 1e9, 0.0
    ours, own = min(pairs, key=lambda pair: float(np.std(pair[1]) / np.mean(pair[1])))
    return float(ours.mean()) / 1e6, float(own.mean()) / 1e6


def _inside(moment: np.ndarray, spans: list[tuple[int, int]]) -> np.ndarray:
    """Whether each moment lies in one of the spans: what was set aside is set aside on
    both clocks.
    """
    return np.array([any(begin <= at < end for begin, end in spans) for at in moment.tolist()], bool)
