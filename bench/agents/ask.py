"""Ten questions on profiles of tests/data, asked of `outpace mcp` by the SDK's own client over
stdio, and graded by facts.

`questions.json` holds for each question which calls answer it, and for each fact of the answer two
patterns: one for answers of the server, one for the text of `outpace report`, with which the same
question is graded without the server.

    python bench/agents/ask.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "tests" / "data" / "profiles"
FOLDERS = ("examples", *(str(path.relative_to(ROOT)) for path in sorted(PROFILES.iterdir())))
QUESTIONS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "questions.json").read_text(encoding="utf-8"))
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "outpace", "mcp", *FOLDERS], cwd=ROOT)


@dataclass(frozen=True)
class Graded:
    """A question with the facts that its answers lack, by the server and by the report; `longest`:
    characters of the longest answer.
    """

    question: str
    missing: tuple[str, ...]
    missing_in_report: tuple[str, ...]
    longest: int


async def answers() -> list[list[str]]:
    """The answers to the calls of each question, as texts."""
    async with Client(stdio_client(SERVER)) as client:
        found = []
        for each in QUESTIONS:
            results = [await client.call_tool(name, arguments) for name, arguments in each["calls"]]
            found.append([result.content[0].text for result in results])
        return found


def report(run: str) -> str:
    """What `outpace report` prints of a run."""
    command = [sys.executable, "-m", "outpace", "report", str(PROFILES / run), "--width", "400"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def graded() -> list[Graded]:
    """All questions, graded."""
    rows = []
    for each, texts in zip(QUESTIONS, anyio.run(answers), strict=True):
        told, printed = "\n".join(texts), "\n".join(map(report, each["runs"]))
        missing = tuple(name for name, (pattern, _) in each["facts"].items() if not re.search(pattern, told))
        without = tuple(name for name, (_, pattern) in each["facts"].items() if not re.search(pattern, printed))
        rows.append(Graded(each["question"], missing, without, max(map(len, texts))))
    return rows


def main() -> None:
    """Print the grades."""
    rows = graded()
    for row in rows:
        print(
            f"{'yes' if not row.missing else 'NO':4}{'yes' if not row.missing_in_report else 'no':4}{row.longest:6}  {row.question}"
        )
    print(f"answered by the server: {sum(not row.missing for row in rows)} of {len(rows)}")
    print(f"answered by the text of 'outpace report': {sum(not row.missing_in_report for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
