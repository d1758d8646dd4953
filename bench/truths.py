"""The programs of a corpus, found by their truth files. No bench has a list of its own.

A truth is `NAME.json` beside `NAME.py` (corpus/README.md has its fields), or an entry of a folder's
`truth.json`, a list whose entries name their `file`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
LIST = "truth.json"


@dataclass(frozen=True)
class Program:
    """A training script. name: its place below the corpus, without the suffix. truth: what is known
    of it.
    """

    name: str
    script: Path
    truth: dict[str, Any]

    @property
    def stem(self) -> str:
        """The name of its file, without folder and suffix."""
        return self.script.stem


def programs(corpus: Path = CORPUS, *keys: str) -> list[Program]:
    """The programs whose truth has one of the keys (all without keys), by name."""
    found = [program for program in _all(corpus) if not keys or any(program.truth.get(key) for key in keys)]
    return sorted(found, key=lambda program: program.name)


def _all(corpus: Path) -> Iterator[Program]:
    """Every script that has a truth."""
    for file in corpus.rglob("*.json"):
        if file.name == LIST:
            truths = [(file.parent / truth["file"], truth) for truth in _read(file)]
        else:
            script = file.with_suffix(".py")
            truths = [(script, _read(file))] if script.exists() else []
        for script, truth in truths:
            yield Program(script.relative_to(corpus).with_suffix("").as_posix(), script, truth)


def select(names: list[str], corpus: Path, *keys: str) -> list[Program]:
    """The programs that names tell (a file's stem, a place below the corpus or a folder there), all
    of them where there is no name.
    """
    known = programs(corpus, *keys)
    unknown = [name for name in names if not any(_meant(name, program) for program in known)]
    if unknown or not known:
        said = (
            f"no such program: {', '.join(unknown)}; known"
            if unknown
            else f"no program with {' or '.join(keys)} in {corpus}; known"
        )
        raise SystemExit(f"{said} are {', '.join(program.name for program in known) or 'none'}")
    return [program for program in known if not names or any(_meant(name, program) for name in names)]


def _meant(name: str, program: Program) -> bool:
    return name in (program.stem, program.name) or program.name.startswith(f"{name.rstrip('/')}/")


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """Add the option that every bench of programs has."""
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="where the programs are; corpus/ by default")


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
