"""What a process runs in place of a script's own files, and where it trains: the parent writes it down, the child reads it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

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
        texts = {os.path.realpath(path): text for path, text in self.texts.items()}
        loaded = Loaded(
            {path: encoded(text) for path, text in texts.items()},
            {path: lines_between(text, source_of(path)) for path, text in texts.items()},
            self.place,
            header_of(source_of(self.place.file), self.place) if self.place.file else None,
            self.fit,
            self.grouped,
            self.limit,
        )
        os.makedirs(folder, exist_ok=True)
        written = Path(folder, "edition")
        written.write_bytes(pickle.dumps(loaded))
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
        found = pickle.loads(Path(path).read_bytes())
        assert isinstance(found, cls)
        return found
