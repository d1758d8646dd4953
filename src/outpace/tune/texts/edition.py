# SPDX-License-Identifier: Apache-2.0
"""What a process runs in place of a script's own files, and where it trains: the parent writes it
down, the child reads it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.tune.texts.load import lines_between, source_of
from outpace.tune.texts.place import Place, header_of


@dataclass(frozen=True)
class Edition:
    """texts: by absolute path of the file that each stands in for. place: the loop that trains, in
    the original; a `fit` has none, and is counted (`fit`). grouped: an item of the edited loop
    begins with a list of the original's items. limit: `model` for steps on one batch that is held
    in memory, `input` for what they read, without them; empty for the program itself.

    Where it is read also, by the originals as they were when it was written: lines: for lines of
    the texts those of the original, by real path. header: what the original's loop goes over.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    place: Place = Place()
    fit: int = 1
    grouped: bool = False
    limit: str = ""
    lines: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    header: str | None = None

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write it below a private folder; the file that `read` takes."""
        lines = {os.path.realpath(path): lines_between(text, source_of(path)) for path, text in self.texts.items()}
        header = header_of(source_of(self.place.file), self.place) if self.place.file else None
        os.makedirs(folder, exist_ok=True)
        written = Path(folder, "edition")
        written.write_bytes(pickle.dumps(replace(self, lines=lines, header=header)))
        return written

    @classmethod
    def read(cls, path: str) -> Edition:
        """What a process of ours has written."""
        found = pickle.loads(Path(path).read_bytes())
        assert isinstance(found, cls)
        return found
