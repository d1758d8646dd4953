"""Is the first thing to change right? python bench/advice/run.py [SET ...] [--only NAME] [--json FILE] [--logs DIR]

A set is a folder of programs with one planted bottleneck each (or two, or none), and their `truth.json`, written before any report was read.
Every program is captured by `outpace profile` as a user would, and the report's findings are judged (`judge.py`): is the first one right in
cause and place, or one of the first three; does a healthy program get a promise above 5 % of its step?
Takes about fifteen seconds per program. Run it with PYTHONPATH=src, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from judge import judge, promised, rank_of

HERE = Path(__file__).parent
FALSE_ALARM = 0.05
SECONDS = 180


@dataclass(frozen=True)
class Row:
    """One program: what was planted, what the report said first, and where the right finding stood (None: nowhere)."""

    set: str
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
    headline: str
    second: int | None = None

    @property
    def right(self) -> bool:
        """First finding right; of a healthy program: no false alarm."""
        return self.promise <= FALSE_ALARM if self.kind == "healthy" else self.rank == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="folders with a truth.json; those beside this file by default")
    parser.add_argument("--only", default="", help="programs whose name holds this")
    parser.add_argument("--json", help="write the rows there")
    parser.add_argument("--logs", help="keep the profiles in this folder, and use those that are there")
    options = parser.parse_args()
    folders = [Path(s) for s in options.sets] or sorted(p.parent for p in HERE.glob("*/truth.json"))
    rows = []
    for folder in folders:
        for truth in json.loads((folder / "truth.json").read_text()):
            if options.only in truth["file"]:
                rows.append(row := one(folder, truth, options.logs))
                print(line(row), flush=True)
    print("\n".join(summary(rows)))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def one(folder: Path, truth: dict[str, Any], logs: str | None) -> Row:
    """Capture and judge one program."""
    healthy = bool(truth.get("healthy"))
    with tempfile.TemporaryDirectory() as scratch:
        logdir = Path(logs) / folder.name / Path(truth["file"]).stem if logs else Path(scratch)
        document = captured(folder / truth["file"], logdir)
    findings = [f for f in document.get("findings", []) if f["severity"] != "info"]
    first = findings[0] if findings else None
    common = {
        "set": folder.name,
        "program": truth["file"],
        "kind": "healthy" if healthy else truth["kind"],
        "share": truth.get("share_percent"),
        "first": first["id"] if first else "-",
        "said": first["sentence"] if first else "",
        "location": first["location"] if first else "",
        "promise": promised(findings),
        "headline": document.get("headline", ""),
    }
    if healthy:
        return Row(rank=None, cause=True, place=True, **common)
    second = truth.get("second_cause")
    causes = [truth, {**second, "file": truth["file"]}] if second else [truth]
    ranks = [rank for cause in causes if (rank := rank_of(findings, cause))]
    verdicts = [judge(first, cause) for cause in causes] if first else []
    best = min(ranks, default=None)
    return Row(
        rank=best,
        cause=any(v.cause for v in verdicts),
        place=any(v.place for v in verdicts),
        second=max(ranks) if second and len(ranks) == 2 else None,
        **common,
    )


def captured(script: Path, logdir: Path) -> dict[str, Any]:
    """The report of a program as JSON; of a profile that is there already, made anew."""
    known = logdir.exists() and any(logdir.rglob("*.xplane.pb"))
    command = ["report", str(logdir), "--json"] if known else ["profile", "--json", "--logdir", str(logdir), str(script)]
    done = subprocess.run(
        [sys.executable, "-m", "outpace.cli", *command], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    for text in reversed(done.stdout.splitlines()):
        if text.startswith('{"schema"'):
            document: dict[str, Any] = json.loads(text)
            return document
    return {"headline": f"no report, exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", "findings": []}


def line(row: Row) -> str:
    """One program in a line."""
    mark = "right" if row.right else "in 3 " if row.rank and row.rank <= 3 else "WRONG"
    share = f"{row.share:.0f}%" if isinstance(row.share, (int, float)) else ""
    what = f"{mark} {row.set:6} {row.program:26} {row.kind[:22]:22} {share:>4}"
    return f"{what} rank {row.rank or '-'} {row.first:22} {row.promise:4.0%} {row.location}"


def summary(rows: list[Row]) -> Iterator[str]:
    """Totals, per set and per kind."""
    planted, healthy = [r for r in rows if r.kind != "healthy"], [r for r in rows if r.kind == "healthy"]
    for name in ("all", *dict.fromkeys(r.set for r in planted)):
        mine = [r for r in planted if name in ("all", r.set)]
        if mine:
            first, three = sum(r.rank == 1 for r in mine), sum((r.rank or 9) <= 3 for r in mine)
            shares = f"({first / len(mine):.0%}), within three in {three} ({three / len(mine):.0%})"
            yield f"{name}: first finding right in {first} of {len(mine)} {shares}"
    if healthy:
        yield f"healthy: {sum(not r.right for r in healthy)} false alarms of {len(healthy)}"


if __name__ == "__main__":
    main()
