"""Does a comment make a script faster? python bench/equals.py [LOOP ...] [--races 40] [--budget 20]

Each race is the one that `outpace tune` proves a patch with: the script as it is against an edited text of it, in processes of their own. Here
the edit is a comment in the loop, so that any difference which a race calls is a false one: of 40 at most 2. The loops (names of
net/programs/loops) take turns. Run it with PYTHONPATH=src, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from outpace.capture.process_tree import ProcessTree
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.place import loop_at
from outpace.tune.trial.engine import run_experiment
from outpace.tune.trial.record import Decision, Experiment, Protocol
from outpace.tune.trial.script import Command, ScriptArm

LOOPS = Path(__file__).resolve().parent / "net" / "programs" / "loops"
DEFAULT = ("jax_compiled", "jax_donated", "steps_jax", "jax_eager")
CALLED = (Decision.FASTER, Decision.SLOWER)


def training_line(text: str) -> int:
    """Line of the last `for` of a text: in these programs the loop that trains."""
    return max(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("for "))


def raced(loop: str, budget: float, seed: int, folder: str) -> Experiment:
    """One race of a loop against itself with a comment."""
    file = LOOPS / f"{loop}.py"
    text = file.read_text(encoding="utf-8")
    line = training_line(text)
    place = loop_at(text, line, str(file))
    assert place is not None, f"{loop} has no loop in line {line}"
    lines = text.splitlines(keepends=True)
    inside = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    edited = "".join([*lines[:line], f"{inside}# a step\n", *lines[line:]])
    command = Command((str(file),), False)
    texts = {"as it is": {}, "with a comment": {str(file): edited}}
    arms = [
        ScriptArm(command, first_epoch=budget / 4, edition=Edition(each, place), folder=folder).arm(name)
        for name, each in texts.items()
    ]
    return run_experiment(arms, baseline="as it is", budget=budget, protocol=Protocol(search=False, alive=4), seed=seed)


def main() -> int:
    """Race, print a row for each, and how many were called different; 1 where these are more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loops", nargs="*", default=DEFAULT)
    parser.add_argument("--races", type=int, default=40)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of each race")
    options = parser.parse_args()
    decisions = Counter[str]()
    called = held = 0
    for seed, loop in zip(range(options.races), itertools.cycle(options.loops), strict=False):
        began = time.monotonic()
        with ProcessTree(), tempfile.TemporaryDirectory() as folder:
            verdict = raced(loop, options.budget, seed, folder).verdicts[0]
        found = verdict.estimate
        decisions[verdict.decision.value] += 1
        called += verdict.decision in CALLED
        held += found is not None and found.contains(1.0)
        row = {"loop": loop, "decision": verdict.decision.value, "seconds": round(time.monotonic() - began, 1)}
        if found is not None:
            row |= {"ratio": round(found.ratio, 4), "low": round(found.low, 4), "high": round(found.high, 4)}
        print(json.dumps(row), flush=True)
    print(f"{called} of {options.races} called different; {held} intervals hold 1.0; {dict(decisions)}")
    return int(called > 0.05 * options.races)


if __name__ == "__main__":
    sys.exit(main())
