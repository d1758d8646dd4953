"""Do findings predict what a change saves? python bench/predictions.py [NAME ...] [--of limits|profile] [--budget 30] [--json FILE]

For each of the twelve programs in bench/programs: `outpace tune --only-limits` measures how fast it could be, or `outpace profile` captures
twenty steps, and says in its findings what it expects of the practices that it can predict. The first practice that Outpace can apply is then
raced against the program as it is, in a process of its own, on fresh rounds. The measured saving of the step time (1 - 1/ratio) is inside the
predicted interval, or not. An interval that touches zero is no prediction. Targets: at least 80 % inside, with a median width of at most half
of the predicted saving.
Takes about a minute and a half per program. Run it with PYTHONPATH=src, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Variant
    from outpace.tune.program.program import Program

PROGRAMS = Path(__file__).parent / "programs"
CHANGE = "OUTPACE_BENCH_CHANGE"  # what a child process races against the program: the id of a rewrite or a knob
FILL_SECONDS = 60.0
COMMANDS = {"limits": ["tune", "--only-limits", "--json"], "profile": ["profile", "--json", "--logdir"]}
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Row:
    """One program: what was predicted (shares of the step time) and what came of it (low, middle, high); None where there is nothing to say."""

    program: str
    change: str = ""
    predicted: tuple[float, float] | None = None
    measured: tuple[float, float, float] | None = None
    remark: str = ""

    @property
    def inside(self) -> bool | None:
        """Whether the measured saving lies in the predicted interval."""
        if self.predicted is None or self.measured is None:
            return None
        return self.predicted[0] <= self.measured[1] <= self.predicted[1]

    @property
    def width(self) -> float:
        """Width of the prediction per predicted saving (its middle)."""
        return 0.0 if self.predicted is None else (self.predicted[1] - self.predicted[0]) * 2 / sum(self.predicted)


def main() -> int:
    """Run all programs, print one line each and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs; all by default")
    parser.add_argument(
        "--of", choices=COMMANDS, default="limits", help="what predicts: the limits measured first, or a profile"
    )
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of each race")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or sorted(path.stem for path in PROGRAMS.glob("*.py")):
            rows.append(examined(name, folder, options.of, options.budget))
            print(said(rows[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(
            json.dumps([{**asdict(row), "inside": row.inside, "width": row.width} for row in rows], indent=1)
        )
    predicted = [row for row in rows if row.inside is not None]
    print(
        f"{sum(bool(row.inside) for row in predicted)} of {len(predicted)} predictions hold; {len(rows) - len(predicted)} without."
    )
    if predicted:
        print(f"median width: {statistics.median(row.width for row in predicted):.2f} of the predicted saving")
    return 0


def said(row: Row) -> str:
    """A row as a line."""
    if row.predicted is None or row.measured is None:
        return f"{row.program:16} no prediction: {row.remark}"
    low, high = row.predicted
    return (
        f"{row.program:16} {row.change:10} predicted {low:4.0%} to {high:4.0%}  measured {row.measured[1]:4.0%} "
        f"[{row.measured[0]:.0%}, {row.measured[2]:.0%}]  {'inside' if row.inside else 'OUTSIDE'}"
    )


def examined(name: str, folder: str, source: str, budget: float) -> Row:
    """Let the limits or a profile predict, apply what the first prediction is about, and race it."""
    from outpace.tune.optimisations import all_rewrites

    script = [str(PROGRAMS / f"{name}.py"), folder]
    where = [f"{folder}/profiles/{name}"] if source == "profile" else []
    report = json.loads(_child(["-m", "outpace", *COMMANDS[source], *where, *script]))
    known = {rewrite.id for rewrite in all_rewrites()}
    predicted = (
        (knob, finding["saving_fraction"]) for finding in report["findings"] for knob in finding["knobs"] if knob in known
    )
    change, share = next(((knob, share) for knob, share in predicted if share), ("", None))
    if share is None:
        return Row(name, remark=report["headline"])
    raced = json.loads(_child([__file__, str(budget), *script], {CHANGE: change}))
    saving = raced["saving"]
    return Row(name, change, (share["low"], share["high"]), tuple(saving) if saving else None, raced["reason"])


def _child(arguments: list[str], environment: Mapping[str, str] | None = None) -> str:
    """The last line or document that a Python process prints; ends the bench where it fails."""
    command = [sys.executable, *arguments]
    variables = {**os.environ, **ENVIRONMENT, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def race_instead_of_training(change: str, budget: float) -> None:
    """Let the next Keras `fit` of this process race its program with a change against it as it is, print the saving, and end."""
    import keras
    import tensorflow as tf

    from outpace.capture.pipeline import PipelineRecorder

    recorder = PipelineRecorder(False)
    recorder.install(tf)
    signature = inspect.signature(keras.Model.fit)

    def fit(self: Any, *args: Any, **kwargs: Any) -> None:
        from outpace.tune.climb.limits import FRESH, raced
        from outpace.tune.climb.running import Copies, Running, buffer_bytes
        from outpace.tune.program.program import Program

        bound = dict(signature.bind(self, *args, **kwargs).arguments)
        program = Program.of(bound.pop("self"), bound.pop("x"), **bound)
        variant = variant_with(change, program, recorder)
        copies = Copies(FILL_SECONDS, buffer_bytes(program), program.feed)
        arms = [Running(program, one, one.name, copies).arm() for one in (variant.rungs[-1].base or variant, variant)]
        verdict = raced(arms, arms[0].name, budget, None, FRESH).verdict(variant.name)
        found = verdict.estimate
        saving = None if found is None else (1 - 1 / found.low, 1 - 1 / found.ratio, 1 - 1 / found.high)
        print(json.dumps({"saving": saving, "reason": verdict.reason}), flush=True)
        os._exit(0)  # a generator's threads can hang at the interpreter's own end

    keras.Model.fit = fit


def variant_with(change: str, program: Program, recorder: Any) -> Variant:
    """The program with one practice; raises ValueError where that does not apply."""
    from outpace.tune.optimisations.rewrite import Rewritten, attempt

    from outpace.tune.climb.variant import Change, Variant
    from outpace.tune.data.tree import describe
    from outpace.tune.optimisations import all_rewrites

    rewrite = next(rewrite for rewrite in all_rewrites() if rewrite.id == change)
    found = attempt(rewrite, describe(program.dataset, recorder))
    if not isinstance(found, Rewritten):
        raise ValueError(found.sentence)
    made = Change(rewrite, found.reason.sentence, found.reason.risk)
    return Variant("as it is", program.dataset).with_change(made, found.dataset)


if __name__ == "__main__":
    if CHANGE in os.environ:
        budget, *sys.argv = sys.argv[1:]
        race_instead_of_training(os.environ[CHANGE], float(budget))
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        sys.exit(main())
