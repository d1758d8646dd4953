"""What `compare` says of the captures of a campaign: python bench/verdicts/judge.py OUT [--json FILE]

Pairs of captures of one program as it is (a verdict "faster" or "slower" is false, and so is a part that is called changed), pairs that differ
by a neighbour alone, changes and cost shifts in rounds, and one core instead of two. Rates come with an interval over programs: pairs of one
program are no independent trials. Prints the tables of bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from capture import PROGRAMS
from pairs import Pair, every_pair, over
from sides import Known, campaign, side

from outpace.compare import compare
from outpace.compare.verdict import Kind, Verdict

CALLED = (Verdict.FASTER.value, Verdict.SLOWER.value)
DRAWS = 4000
Row = dict[str, Any]


def judged(pair: Pair) -> Row:
    """The verdict on a pair, as a row of the JSON file."""
    found = compare(side("before", pair.before), side("after", pair.after))
    first = found.own[0] if found.own else None
    named = " ".join(dict.fromkeys((*first.part, first.name_after))) if first else ""
    return {
        "kind": pair.kind,
        "program": pair.program,
        "change": pair.change,
        "percent": pair.percent,
        "round": pair.round,
        "captures": pair.captures,
        "neighbours": pair.neighbours,
        "verdict": found.verdict.value,
        "comparable": found.comparable,
        "ratio": found.ratio,
        "program_share": found.program if found.own else found.ratio - 1,
        "realised": _median(pair, "after") / _median(pair, "before") - 1,
        "changed": len(found.own),
        "moved": sum(each.kind is Kind.MOVED for each in found.changes),
        "first": named,
        "culprit": bool(first and pair.match and re.search(pair.match, named, re.IGNORECASE)),
        "differs": [name for name, *_ in found.differs],
    }


def _median(pair: Pair, which: str) -> float:
    """The median over captures of the median of their steps, ps."""
    return median(float(np.median(known.steps)) for known in getattr(pair, which))


def rate(rows: Sequence[Row], holds: Callable[[Row], bool]) -> tuple[float, float, float]:
    """The share of rows of which something holds, with its 95 % interval: programs are drawn with replacement, each with all of its rows."""
    by_program: dict[str, list[bool]] = {}
    for row in rows:
        by_program.setdefault(row["program"], []).append(holds(row))
    if not by_program:
        return (float("nan"),) * 3
    counts = np.array([(sum(told), len(told)) for told in by_program.values()])
    drawn = counts[np.random.default_rng(0).integers(len(counts), size=(DRAWS, len(counts)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return float(counts[:, 0].sum() / counts[:, 1].sum()), float(low), float(high)


def called(row: Row) -> bool:
    """Whether the program is said to be faster or slower."""
    return row["comparable"] and row["verdict"] in CALLED


def found(row: Row) -> bool:
    """Whether a change that adds time is called slower, with the culprit in the first row."""
    return called(row) and row["verdict"] == Verdict.SLOWER.value and row["culprit"]


def moved(row: Row) -> bool:
    """Whether a cost shift is told as such: something moved, and nothing is called changed."""
    return row["moved"] > 0 and not called(row)


def shown(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    """A rate as a cell of a table."""
    if not rows:
        return "–"
    share, low, high = rate(rows, holds)
    return f"{sum(map(holds, rows))} of {len(rows)} ({share:.1%} [{low:.1%}, {high:.1%}])"


def _quiet(found: Sequence[Known]) -> str:
    """How busy others kept the machine."""
    others = [known.row["others"] for known in found]
    middle, most = np.quantile(others, (0.5, 0.9))
    return f"{len(found)} captures. Others kept {middle:.2f} cores busy meanwhile, in one of ten {most:.2f} or more."


def tables(rows: Sequence[Row]) -> str:
    """What was found, as Markdown."""
    one = [row for row in rows if row["captures"] == 1]
    several = [row for row in rows if row["captures"] > 1]
    return "\n\n".join(
        "\n".join(lines) for lines in (_rates(one, several), _programs(one), _machine(one), _changes(rows)) if lines
    )


def _rates(one: Sequence[Row], several: Sequence[Row]) -> list[str]:
    size = max((row["captures"] for row in several), default=0)
    asked: list[tuple[str, Callable[[Row], bool], Callable[[Row], bool]]] = [
        ("equal, quiet: called faster or slower", lambda row: row["kind"] == "quiet", called),
        ("equal, quiet: no part called changed", lambda row: row["kind"] == "quiet", lambda row: not row["changed"]),
        ("equal, quiet: inconclusive", lambda row: row["kind"] == "quiet", _is(Verdict.OPEN)),
        ("a neighbour on one side: called faster or slower", lambda row: row["kind"] == "neighbour", called),
        ("a neighbour on one side: the machine", lambda row: row["kind"] == "neighbour", _is(Verdict.MACHINE)),
        ("a neighbour on both sides: called faster or slower", lambda row: row["kind"] == "beside", called),
        *(
            (f"{percent}% added: {what}", lambda row, percent=percent: row["kind"] == "change" and row["percent"] == percent, holds)
            for percent in (10, 5)
            for what, holds in (("slower, the culprit first", found), ("slower", _is(Verdict.SLOWER)), ("inconclusive", _is(Verdict.OPEN)))
        ),
        ("cost shifts: moved, and nothing called", lambda row: row["kind"] == "shift", moved),
        ("cost shifts: called faster or slower", lambda row: row["kind"] == "shift", called),
        ("one core instead of two: comparability names it", lambda row: row["kind"] == "core", lambda row: "cores" in row["differs"]),
    ]  # fmt: skip
    lines = [f"| pairs | one capture a side | {size} a side |", "|---|---|---|"]
    for name, of, holds in asked:
        lines.append(f"| {name} | {shown(list(filter(of, one)), holds)} | {shown(list(filter(of, several)), holds)} |")
    return lines


def _is(verdict: Verdict) -> Callable[[Row], bool]:
    return lambda row: row["verdict"] == verdict.value


def _programs(one: Sequence[Row]) -> list[str]:
    lines = ["| program, equal and quiet | pairs | called | a part changed | spread of the ratio |", "|---|---|---|---|---|"]
    for program in sorted({row["program"] for row in one}):
        mine = [row for row in one if row["program"] == program and row["kind"] == "quiet"]
        if mine:
            spread = float(np.std(np.log([row["ratio"] for row in mine])))
            changed = sum(bool(row["changed"]) for row in mine)
            lines.append(f"| `{program}` | {len(mine)} | {sum(map(called, mine))} | {changed} | {spread:.1%} |")
    return lines


def _machine(one: Sequence[Row]) -> list[str]:
    verdicts = [each.value for each in Verdict]
    lines = [f"| a neighbour on one side | {' | '.join(verdicts)} |", "|---" * (len(verdicts) + 1) + "|"]
    beside = [row for row in one if row["kind"] == "neighbour"]
    for name in sorted({row["neighbours"][0] for row in beside}):
        said = Counter(row["verdict"] for row in beside if row["neighbours"][0] == name)
        lines.append(f"| {name} | {' | '.join(str(said[verdict]) for verdict in verdicts)} |")
    return lines


def _changes(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| program | change | planned | realised | rounds: slower | culprit first | all rounds together | first row |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for whole in (row for row in rows if row["kind"] in ("change", "shift") and row["round"] < 0):
        mine = [
            row for row in rows if (row["program"], row["change"]) == (whole["program"], whole["change"]) and row["round"] >= 0
        ]
        slower = sum(row["verdict"] == Verdict.SLOWER.value for row in mine)
        right = f"{sum(row['culprit'] for row in mine)}" if whole["kind"] == "change" else f"moved {sum(map(moved, mine))}"
        realised = median(row["realised"] for row in mine)
        planned = f"{whole['percent']}%" if whole["kind"] == "change" else "a shift"
        said = f"{whole['verdict']}{', the culprit first' if whole['culprit'] else ', moved' if whole['moved'] else ''}"
        lines.append(
            f"| `{whole['program']}` | {whole['change']} | {planned} | {realised:+.1%} | {slower} of {len(mine)} | {right} | "
            f"{said} | {whole['first']} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--json", type=Path, help="every verdict; OUT/verdicts.json by default")
    parser.add_argument("--folder", type=Path, default=PROGRAMS, help="where the programs are")
    options = parser.parse_args()
    known = campaign(options.out)
    rows = over(every_pair(known, options.folder), judged)
    (options.json or options.out / "verdicts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"{_quiet(known)}\n\n{tables(rows)}")


if __name__ == "__main__":
    main()
