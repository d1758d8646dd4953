"""The table of results in bench/README.md: python bench/results.py [--check]

`results/BENCH.json` holds what a bench measured last, one object per figure: name, figure,
interval, unit, other (the other side and its version), command, date, machine. A bench writes its
own with `--record`; this script makes the table of all of them. `--check` ends with code 1 where
the README's is another one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README, RESULTS = HERE / "README.md", HERE / "results"
BEGIN, END = "<!-- results: python bench/results.py -->", "<!-- end of results -->"
COLUMNS = ("what", "figure", "95 %", "beside", "date", "machine", "command")


@dataclass(frozen=True)
class Figure:
    """One figure of a bench. interval: of 95 %, as it is shown; other: the side that it is measured
    against, with its version.
    """

    name: str
    figure: str
    interval: str = ""
    unit: str = ""
    other: str = ""


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the option that keeps a run's figures."""
    parser.add_argument(
        "--record", action="store_true", help="keep the figures in bench/results, for the table of bench/README.md"
    )


def record(options: argparse.Namespace, bench: str, figures: Iterable[Figure], folder: Path = RESULTS) -> None:
    """Keep the figures of a run where it was asked for that; figures of the same name and other
    side go.
    """
    if not options.record:
        return
    command = shlex.join(
        ["python", os.path.relpath(sys.argv[0], HERE.parent), *(arg for arg in sys.argv[1:] if arg != "--record")]
    )
    machine = f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    told = {"command": command, "date": datetime.date.today().isoformat(), "machine": machine}
    rows = {(row["name"], row["other"]): row for row in _read(folder / f"{bench}.json")}
    rows.update({(each.name, each.other): {**asdict(each), **told} for each in figures})
    lines = ",\n".join(f" {json.dumps(row, ensure_ascii=False)}" for row in rows.values())
    folder.mkdir(exist_ok=True)
    (folder / f"{bench}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def release(python: str, package: str) -> str:
    """A package of another environment with its version."""
    command = [python, "-c", "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))", package]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return f"{package} {said}".strip()


def table(folder: Path = RESULTS) -> str:
    """All figures as Markdown, bench by bench."""
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *_lines(folder)])


def _lines(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.json")):
        for row in _read(file):
            figure = f"{row['figure']} {row['unit']}".strip()
            command = f"`{row['command']}`" if row["command"] else ""
            cells = (row["name"], figure, row["interval"], row["other"], row["date"], row["machine"], command)
            yield f"| {' | '.join(cell or '–' for cell in cells)} |"


def _read(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def with_table(text: str, folder: Path = RESULTS) -> str:
    """A README with the table of today's figures between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"the README has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table(folder)}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 where the table is not of today's figures")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    if options.check:
        return int(with_table(text) != text)
    README.write_text(with_table(text), encoding="utf-8")
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
