"""Is the first thing to change right? python bench/advice.py run|race|clock ... [--corpus DIR], see
`bench/advice.py run --help`.

run    captures programs of the corpus by `outpace profile` as a user would, and judges the
       report's findings (plants.py): is the first one right in cause and place, or one of the
       first three; does a healthy program get a promise above 5 % of its step?
race   says whether programs that were mended from the text of the first finding alone save what
       it promised. Both run as whole processes, in random order; the time of a step is the mean by
       the program's own clock (what comes round every few steps is in it). A bound holds when no
       more was saved, and counts when at least a third of it was; a prediction holds when it
       contains what was saved.
clock  compares the report's steady step time with the program's own clock in the same capture
       (clock.py).

A program takes about fifteen seconds. Run it with PYTHONPATH=src, on a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clock import step_times
from plants import judge, promised, rank_of
from results import Figure, add_record, record
from truths import Program, add_corpus, select

FALSE_ALARM = 0.05
SECONDS = 180
MARK = "OWN_CLOCK "
THIRD = 1 / 3
NOISE = 0.05  # of the step: what two runs of one program differ by
NEAR = 0.05  # of a step: as close as two clocks are to be


@dataclass(frozen=True)
class Row:
    """One program: what was planted, what the report said first, and where the right finding stood
    (None: nowhere).
    """

    program: str
    kind: str
    share: float | None
    rank: int | None
    cause: bool
    place: bool
    first: str
    said: str
    location: str
    promise: float
    promise_low: float
    action: str
    headline: str
    second: int | None = None

    @property
    def right(self) -> bool:
        """First finding right; of a healthy program: no false alarm."""
        return self.promise <= FALSE_ALARM if self.kind == "healthy" else self.rank == 1


@dataclass(frozen=True)
class Result:
    """What a mend saved of the mean step: the median of the rounds, and their range; and what the
    finding promised.
    """

    program: str
    rule: str
    low: float
    saved: float
    high: float
    promised_low: float
    promised_high: float

    @property
    def holds(self) -> bool:
        """Whether what was saved lies inside the promise, but for noise."""
        return self.promised_low - NOISE <= self.saved <= self.promised_high + NOISE

    @property
    def counts(self) -> bool:
        """Whether the promise was worth making: a third of a bound was saved."""
        return self.holds and (self.promised_low > 0 or self.saved >= THIRD * self.promised_high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    works = parser.add_subparsers(required=True)
    run = works.add_parser("run", help="judge the first findings")
    run.add_argument("--json", type=Path, help="write the rows there")
    run.add_argument("--logs", type=Path, help="keep the profiles in this folder, and use those that are there")
    add_record(run)
    mended = works.add_parser("race", help="race mended programs against the originals")
    mended.add_argument("mended", type=Path, help="a folder of programs with the names of those that they mend")
    mended.add_argument("--rows", type=Path, required=True, help="what `run --json` wrote: the promises")
    mended.add_argument("--rounds", type=int, default=3)
    mended.add_argument("--json", type=Path)
    clocks = works.add_parser("clock", help="hold step times against programs' own clocks")
    for each, work in ((run, run_programs), (mended, race_mended), (clocks, check_clocks)):
        add_corpus(each)
        each.set_defaults(work=work)
    for each in (run, clocks):
        each.add_argument("names", nargs="*", help="programs, or folders of them; all with a kind or nothing wrong by default")
    options = parser.parse_args()
    options.work(options)


def run_programs(options: argparse.Namespace) -> None:
    """Capture and judge programs, and print what came out."""
    rows = []
    for program in select(options.names, options.corpus, "kind", "healthy"):
        rows.append(row := one(program, options.logs))
        print(line(row), flush=True)
    print("\n".join(summary(rows)))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    planted, healthy = [r for r in rows if r.kind != "healthy"], [r for r in rows if r.kind == "healthy"]
    record(options, "advice", [
        Figure("first finding right, of all planted", f"{sum(r.right for r in planted)} of {len(planted)}"),
        Figure("false alarms, of all healthy", f"{sum(not r.right for r in healthy)} of {len(healthy)}"),
    ])  # fmt: skip


def one(program: Program, logs: Path | None) -> Row:
    """Capture and judge one program."""
    truth, file = program.truth, program.script.name
    healthy = bool(truth.get("healthy"))
    with tempfile.TemporaryDirectory() as scratch:
        document = capture(program.script, logs / program.name if logs else Path(scratch))
    findings = [f for f in document.get("findings", []) if f["severity"] != "info"]
    first = findings[0] if findings else None
    common = {
        "program": program.name,
        "kind": "healthy" if healthy else truth["kind"],
        "share": truth.get("share_percent"),
        "first": first["id"] if first else "-",
        "said": first["sentence"] if first else "",
        "location": first["location"] if first else "",
        "promise": promised(findings),
        "promise_low": first["saving"]["low"] if first and first["saving"] else 0.0,
        "action": first["action"] if first else "",
        "headline": document.get("headline", ""),
    }
    if healthy:
        return Row(rank=None, cause=True, place=True, **common)
    second = truth.get("second_cause")
    causes = [truth, second] if second else [truth]
    ranks = [rank for cause in causes if (rank := rank_of(findings, cause, file))]
    verdicts = [judge(first, cause, file) for cause in causes] if first else []
    return Row(
        rank=min(ranks, default=None),
        cause=any(v.cause for v in verdicts),
        place=any(v.place for v in verdicts),
        second=max(ranks) if second and len(ranks) == 2 else None,
        **common,
    )


def capture(script: Path, logdir: Path) -> dict[str, Any]:
    """The report of a program as JSON; of a profile that is there already, made anew."""
    known = logdir.exists() and any(logdir.rglob("*.xplane.pb"))
    command = ["report", str(logdir), "--json"] if known else ["profile", "--json", "--logdir", str(logdir), str(script)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "outpace.cli", *command], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"headline": f"no report in {SECONDS} s", "findings": []}
    for text in reversed(done.stdout.splitlines()):
        if text.startswith('{"schema"'):
            document: dict[str, Any] = json.loads(text)
            return document
    return {"headline": f"no report, exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", "findings": []}


def line(row: Row) -> str:
    """One program in a line."""
    mark = "right" if row.right else "in 3 " if row.rank and row.rank <= 3 else "WRONG"
    share = f"{row.share:.0f}%" if isinstance(row.share, (int, float)) else ""
    what = f"{mark} {row.program:44} {row.kind[:22]:22} {share:>4}"
    return f"{what} rank {row.rank or '-'} {row.first:22} {row.promise:4.0%} {row.location}"


def summary(rows: list[Row]) -> Iterator[str]:
    """Totals, of all and per folder."""
    planted, healthy = [r for r in rows if r.kind != "healthy"], [r for r in rows if r.kind == "healthy"]
    for name in ("all", *dict.fromkeys(r.program.rpartition("/")[0] for r in planted)):
        mine = [r for r in planted if name in ("all", r.program.rpartition("/")[0])]
        if mine:
            first, three = sum(r.rank == 1 for r in mine), sum((r.rank or 9) <= 3 for r in mine)
            shares = f"({first / len(mine):.0%}), within three in {three} ({three / len(mine):.0%})"
            yield f"{name}: first finding right in {first} of {len(mine)} {shares}"
    if healthy:
        yield f"healthy: {sum(not r.right for r in healthy)} false alarms of {len(healthy)}"


def race_mended(options: argparse.Namespace) -> None:
    """Race every mended program against its original, and print what was saved."""
    promises = {row["program"]: row for row in json.loads(options.rows.read_text())}
    results = []
    for mended in sorted(options.mended.rglob("*.py")):
        place = mended.relative_to(options.mended).with_suffix("").as_posix()
        program = select([place], options.corpus, "kind")[0]
        row = promises[program.name]
        shares = savings(program.script, mended, options.rounds)
        promise = (row.get("promise_low", 0.0), row["promise"])
        results.append(Result(program.name, row["first"], min(shares), statistics.median(shares), max(shares), *promise))
        print(raced_line(results[-1]), flush=True)
    worth = [r for r in results if r.promised_high > 0]
    held = sum(r.counts for r in worth)
    print(f"{held} of {len(worth)} promises held and counted; {len(results) - len(worth)} findings promised nothing")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


def savings(before: Path, after: Path, rounds: int) -> list[float]:
    """Share of the mean step that each round saved."""
    shares = []
    for _ in range(rounds):
        times = {}
        for program in random.sample([before, after], 2):
            times[program] = step_ms(program)
        shares.append(1 - times[after] / times[before])
    return shares


def step_ms(program: Path) -> float:
    """Mean step by the program's own clock, ms."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(program.resolve())], capture_output=True, text=True, timeout=SECONDS, check=True, cwd=folder
        )
    text = next((text for text in reversed(done.stdout.splitlines()) if text.startswith(MARK)), "")
    if not text:
        raise SystemExit(f"{program} prints no clock of its own ({MARK.strip()})")
    return float(json.loads(text.removeprefix(MARK))["mean_step_ms"])


def raced_line(result: Result) -> str:
    """One race in a line."""
    share = f"saved {result.saved:4.0%} [{result.low:.0%}, {result.high:.0%}]"
    low, high = f"{result.promised_low:.0%}", f"{result.promised_high:.0%}"
    promise = f"{low} to {high}" if result.promised_low else f"at most {high}"
    mark = "holds" if result.counts else "small" if result.holds else "WRONG" if result.promised_high else "     "
    return f"{mark} {result.program:44} {result.rule:22} promised {promise:14} {share}"


def check_clocks(options: argparse.Namespace) -> None:
    """Hold the report's step times against the programs' own clocks."""
    apart = []
    for program in select(options.names, options.corpus, "kind", "healthy"):
        ours, own = step_times(program.script)
        said = (
            f"{ours:9.3f} ms, own clock {own:9.3f} ms, {ours / own - 1:+6.1%}" if own else "no clock of its own in these steps"
        )
        print(f"{program.name:44} {said}", flush=True)
        apart += [abs(ours / own - 1)] if own else []
    print(f"{sum(a <= NEAR for a in apart)} of {len(apart)} within {NEAR:.0%}")


if __name__ == "__main__":
    main()
