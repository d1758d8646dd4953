"""Published rules on the same pairs: python bench/verdicts/peers.py OUT [--picture FILE.svg] [--json FILE]

False: any two captures of one program as it is, also beside a neighbour, of which one is called faster or slower than the other. True: a change
that adds time, called slower. "At our false rate" moves a rule's own threshold until it is wrong as rarely as Outpace: what it finds then.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capture import PROGRAMS
from judge import called, judged
from pairs import Pair, every_pair, over
from picture import Point, drawn
from rules import RULES, Rule, Sample
from sides import Known, campaign

EQUAL = ("quiet", "neighbour", "beside")
EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08)  # of a step, below which a verdict of ours is kept back


@dataclass(frozen=True)
class Rates:
    """How often a rule is wrong and right. quiet, neighbour: the false ones of such pairs. ten, five: changes called slower, by what was added;
    true: all of them. matched: the same with a threshold at which the rule is wrong as rarely as we are."""

    rule: str
    false: float
    quiet: float
    neighbour: float
    true: float
    ten: float
    five: float
    matched: float


def sample(parts: Sequence[Known]) -> Sample:
    """What the rules see of a side."""
    counts = parts[0].counts
    return Sample(
        tuple(known.steps for known in parts), tuple(known.device for known in parts), tuple(known.host for known in parts), counts
    )  # fmt: skip


def scores(pair: Pair) -> dict[str, float]:
    """Every rule's score of a pair."""
    before, after = sample(pair.before), sample(pair.after)
    return {rule.name: rule.score(before, after) for rule in RULES}


def share(told: Sequence[bool]) -> float:
    """How many of some."""
    return sum(told) / len(told) if told else float("nan")


def rates(rule: Rule, pairs: Sequence[Pair], said: Sequence[float], ours: float | None = None) -> Rates:
    """A rule's rates. said: its scores; ours: the false rate at which to compare, its own where there is none."""
    equal = [(pair.kind, score) for pair, score in zip(pairs, said, strict=True) if pair.kind in EQUAL]
    more = [(pair.percent, score) for pair, score in zip(pairs, said, strict=True) if pair.kind == "change"]
    false = share([rule.calls(score) for _, score in equal])
    kinds = (share([rule.calls(score) for kind, score in equal if kind == each]) for each in ("quiet", "neighbour"))
    sizes = (share([rule.calls(score) and score > 0 for size, score in more if size == each]) for each in (10, 5))
    true = share([rule.calls(score) and score > 0 for _, score in more])
    matched = at_rate([score for _, score in equal], [score for _, score in more], false if ours is None else ours)
    return Rates(rule.name, false, *kinds, true, *sizes, matched)


def at_rate(equal: Sequence[float], more: Sequence[float], rate: float) -> float:
    """What a rule finds with the least threshold at which no more than that share of equal pairs is called."""
    allowed = int(rate * len(equal) + 1e-9)
    largest = sorted(map(abs, equal), reverse=True)
    threshold = largest[allowed] if allowed < len(largest) else 0.0
    return share([score > threshold for score in more])


def table(found: Sequence[Rates], captures: int) -> str:
    """The rates as Markdown."""
    columns = ("false, all equal pairs", "quiet", "a neighbour on one side", "10% found", "5% found", "both, at our false rate")
    lines = [f"| rule, {captures} a side | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for each in found:
        cells = (each.false, each.quiet, each.neighbour, each.ten, each.five, each.matched)
        lines.append(f"| {each.rule} | {' | '.join(f'{cell:.1%}' if cell == cell else '–' for cell in cells)} |")
    return "\n".join(lines)


def compared(pairs: Sequence[Pair]) -> tuple[list[Rates], list[Rates]]:
    """Ours by what we keep back, the smallest first; and those of all rules, ours as it is first."""
    own = [row["program_share"] if called(row) else 0.0 for row in over(pairs, judged)]
    line = [rates(Rule(f"Outpace, from {effect:.0%}", lambda *_: 0.0, effect), pairs, own) for effect in EFFECTS]
    us = rates(Rule("Outpace", lambda *_: 0.0, 0.0), pairs, own)
    theirs = over(pairs, scores)
    return line, [us, *(rates(rule, pairs, [row[rule.name] for row in theirs], us.false) for rule in RULES)]


def _plain(found: Rates) -> dict[str, object]:
    return {name: None if value != value else value for name, value in vars(found).items()}  # of no pair there is no rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--picture", type=Path, help="OUT/rules.svg by default")
    parser.add_argument("--json", type=Path, help="all rates; OUT/rules.json by default")
    parser.add_argument("--folder", type=Path, default=PROGRAMS, help="where the programs are")
    options = parser.parse_args()
    pairs = [pair for pair in every_pair(campaign(options.out), options.folder) if pair.kind in (*EQUAL, "change")]
    document = {}
    for name, mine in (("one", [p for p in pairs if p.captures == 1]), ("several", [p for p in pairs if p.captures > 1])):
        if not mine:
            continue
        line, found = compared(mine)
        print(table([found[0], *line[1:], *found[1:]], max(pair.captures for pair in mine)), end="\n\n")
        document[name] = {"line": [_plain(each) for each in line], "rules": [_plain(each) for each in found]}
        if name == "one":
            points = [Point(each.rule, each.false, each.true) for each in found]
            picture = drawn(points[1:], points[0], [(each.false, each.true) for each in line])
            (options.picture or options.out / "rules.svg").write_text(picture, encoding="utf-8")
    (options.json or options.out / "rules.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
