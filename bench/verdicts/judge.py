"""What `compare` says of the captures of a campaign: python bench/verdicts/judge.py OUT [--json FILE]

Pairs of captures of one program as it is (a verdict "faster" or "slower" is false, and so is a part that is called changed), pairs that differ
by a neighbour alone, changes and cost shifts in rounds, and one core instead of two. Rates come with an interval over programs: pairs of one
program are no independent trials. Prints the tables of bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from statistics import median

import numpy as np
from capture import PROGRAMS
from pairs import Pair, every_pair, over
from sides import campaign, side
from tables import Row, quiet, tables

from outpace.compare import compare
from outpace.compare.verdict import Kind


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--json", type=Path, help="every verdict; OUT/verdicts.json by default")
    parser.add_argument("--folder", type=Path, default=PROGRAMS, help="where the programs are")
    options = parser.parse_args()
    known = campaign(options.out)
    rows = over(every_pair(known, options.folder), judged)
    (options.json or options.out / "verdicts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"{quiet(known)}\n\n{tables(rows)}")


if __name__ == "__main__":
    main()
