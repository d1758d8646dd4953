"""What the programs of this folder share: how much of a change makes a step so many percent longer on this GPU."""

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path

FILE = Path(os.environ.get("AMOUNTS", Path(__file__).with_name("amounts.json")))
CALIBRATE = os.environ.get("CALIBRATE", "")
BLOCK, BLOCKS = 20, 7


def amount(program):
    """How much of what CHANGE names is asked for: 0 of the program as it is, and of a shift."""
    return json.loads(FILE.read_text())[program].get(os.environ.get("CHANGE", ""), 0)


@contextlib.contextmanager
def _turn():
    """The GPU to oneself: several changes are calibrated at once, since they are compiled longer than they run."""
    path = os.environ.get("TURNS", "")
    with open(path or os.devnull, "a") as lock:
        if path:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def calibrate(program, wanted, step_of):
    """An amount such that a step takes as much longer as wanted says of the change that CALIBRATE names; kept in FILE.

    wanted: percent and first guess by change. step_of(change, amount) gives a function that runs one step and waits for it.
    """
    percent, tried = wanted[CALIBRATE]
    plain = step_of("", 0)
    for _ in range(3):
        longer = step_of(CALIBRATE, tried)
        plain(), longer()  # compiled beside others, timed alone
        with _turn():
            base, more = _in_turns(plain, longer)
        gained = more / base - 1
        print(f"{program} {CALIBRATE}: {tried} gives {gained:+.1%} of {base * 1e3:.2f} ms, {percent}% asked", flush=True)
        ratio = percent / 100 / max(gained, 0.003)
        if 0.92 < ratio < 1.08:
            break
        tried = max(1, round(tried * min(max(ratio, 0.1), 10.0)))
    with _turn():
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        known.setdefault(program, {})[CALIBRATE] = tried
        FILE.write_text(json.dumps(known, indent=1) + "\n")


def _in_turns(first, second):
    """Seconds of a step of each, the best of blocks in turns."""
    best = [1e9, 1e9]
    for run in (first, second):
        run(), run()
    for _ in range(BLOCKS):
        for which, run in enumerate((first, second)):
            began = time.perf_counter()
            for _ in range(BLOCK):
                run()
            best[which] = min(best[which], (time.perf_counter() - began) / BLOCK)
    return best
