"""What a process runs in place of a script's own files, and where it trains: the parent writes it down, the child reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.texts.load import encoded, lines_between, source_of
from outpace.tune.texts.place import Place, header_of


@dataclass(frozen=True)
class Edition:
    """texts: by absolute path of the file that each stands in for. place: the loop that trains, in the original; a `fit` has none, and is
    counted (`fit`). grouped: an item of the edited loop begins with a list of the original's items. limit: `model` for steps on one batch that
    is held in memory, `input` for what they read, without them; empty for the program itself."""

    texts: Mapping[str, str] = field(default_factory=dict)
    place: Place = Place()
    fit: int = 1
    grouped: bool = False
    limit: str = ""

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write it below a private folder; the file that `Loaded.read` takes."""
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        texts, lines = {}, {}
        for at, (path, text) in enumerate(self.texts.items()):
            texts[path] = str(base / f"text-{at}")
            Path(texts[path]).write_bytes(encoded(text))
            lines[os.path.realpath(path)] = lines_between(text, source_of(path))
        place = {"file": self.place.file, "function": self.place.function, "path": list(self.place.path)}
        header = header_of(source_of(self.place.file), self.place) if self.place.file else None
        said: dict[str, Any] = {
            "texts": texts,
            "lines": lines,
            "place": place,
            "header": header,
            "fit": self.fit,
            "grouped": self.grouped,
            "limit": self.limit,
        }
        written = base / "edition"
        written.write_text(json.dumps(said), encoding="utf-8")
        return written


@dataclass(frozen=True)
class Loaded:
    """An edition in the process that runs it. texts: by real path. lines: for lines of the texts those of the original. header: what the
    original's loop goes over."""

    texts: Mapping[str, bytes]
    lines: Mapping[str, Mapping[int, int]]
    place: Place
    header: str | None
    fit: int
    grouped: bool
    limit: str

    @classmethod
    def read(cls, path: str) -> Loaded:
        """What `Edition.write` has written."""
        said = json.loads(Path(path).read_text(encoding="utf-8"))
        place = Place(said["place"]["file"], said["place"]["function"], tuple(said["place"]["path"]))
        texts = {os.path.realpath(path): Path(text).read_bytes() for path, text in said["texts"].items()}
        lines = {file: {int(at): line for at, line in those.items()} for file, those in said["lines"].items()}
        return cls(texts, lines, place, said["header"], said["fit"], said["grouped"], said["limit"])
