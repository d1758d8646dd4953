"""What `outpace.Monitor` writes below the workbench's folders: the trainings that it watches or watched, and their numbers over time."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import NotFoundError
from outpace.model.inputs import SERIES, open_file
from outpace.model.text import clean
from outpace.monitor.sinks import FOLDER
from outpace.store.logdir import logdirs
from outpace.store.tree import is_url, open_tree
from outpace.ui.folders import Folders
from outpace.ui.runs import id_of
from outpace.ui.series import LONGEST, Series

AT_ONCE = 1 << 20  # bytes that one request reads, of all files: a fraction of a second. The next one goes on from there
MOST_FILES = 200  # trainings that are shown: those that wrote last
_SILENT = 60.0  # seconds without a line, after which a training that did not say so is no longer called running


@dataclass(frozen=True)
class Watched:
    """One training's file: `place` is the log directory below its root, `size` and `modified` change when it does."""

    path: str
    name: str
    place: str
    size: int
    modified: float

    @property
    def id(self) -> str:
        """What its addresses contain."""
        return id_of(self.path)


class Trainings:
    """The trainings below the folders, none that a link leads out of them for. Of their files is read what was appended since the last look,
    and no more is kept than is shown."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._known: dict[str, Series] = {}
        self._lock = threading.Lock()

    def lines(self, now: float) -> list[dict[str, Any]]:
        """What the list shows of each training, the last that wrote first, and how many are left out."""
        found, left_out = self._latest()
        with self._lock:
            self._known = {one.path: self._known.get(one.path, Series()) for one in found}
            self._read(found)
            return [{**_line(one, self._known[one.path], now), "left_out": left_out} for one in found]

    def one(self, wanted: str) -> Watched:
        """The training of an id. Raises NotFoundError for one that the list does not show."""
        found = next((one for one in self._latest()[0] if one.id == wanted), None)
        if found is None:
            raise NotFoundError("This training is not, or no longer, below the workbench's folders.")
        return found

    def curves(self, wanted: str) -> dict[str, Any]:
        """A training's numbers over its steps: of every interval the last step, the step time (median and 95th percentile, ps), the wait for
        input (ps) and the memory (bytes), neighbours taken together where they are many; and what happened meanwhile, with the run of each
        capture. Raises NotFoundError as `one` does."""
        one = self.one(wanted)
        with self._lock:
            self._read([one])
            series = self._known[one.path]
            numbers = {name: series.curve.means(i) for i, name in enumerate(("p50", "p95", "wait", "memory"))}
            return {"name": clean(one.name), "step": series.curve.steps(), **numbers, "events": series.events()}

    def _latest(self) -> tuple[tuple[Watched, ...], int]:
        """The trainings that are shown, the last that wrote first, and the number of the others."""
        found: dict[str, Watched] = {}
        for root in self._folders.given:
            with contextlib.suppress(Exception):  # every store has errors of its own
                tree = open_tree(root)
                for logdir in logdirs(tree, tree.root):
                    place = logdir.removeprefix(tree.root.rstrip("/")).strip("/")
                    for entry in tree.files(f"{logdir}/{FOLDER}"):
                        if entry.name.endswith(".jsonl") and entry.size <= SERIES.most:
                            path = tree.public(f"{logdir}/{FOLDER}/{entry.name}")
                            name = entry.name.removesuffix(".jsonl")
                            found.setdefault(path, Watched(path, name, place, entry.size, entry.modified))
        latest = iter(sorted(found.values(), key=lambda one: one.modified, reverse=True))
        inside = (one for one in latest if is_url(one.path) or self._folders.holds(one.path))
        return tuple(itertools.islice(inside, MOST_FILES)), sum(1 for _ in latest)

    def _read(self, found: Sequence[Watched]) -> None:
        """Read on in some files, first in those of which the least is left, so that a large one keeps none waiting."""
        left = AT_ONCE
        for one in sorted(found, key=self._left):
            if left >= LONGEST:
                with contextlib.suppress(Exception):  # every store has errors of its own
                    left -= self._read_on(one, left)

    def _left(self, one: Watched) -> int:
        return one.size - self._known.setdefault(one.path, Series()).offset

    def _read_on(self, one: Watched, most: int) -> int:
        """The number of bytes that were read of a file, which is another one where it does not go on after the lines that are known: its
        inode would say so, too, but also where it was copied here once more, longer than before."""
        known = self._known[one.path]
        if known.seen == (one.size, one.modified):
            return 0
        begin = known.offset - len(known.last)
        data = _piece(one, begin, len(known.last) + most)
        if not data.startswith(known.last):
            known = self._known[one.path] = Series()
            begin, data = 0, _piece(one, 0, most)
        known.seen = (one.size, one.modified) if begin + len(data) == one.size else known.seen
        known.add(data)
        return len(data)


def _piece(one: Watched, begin: int, most: int) -> bytes:
    """Some bytes of a file, none beyond the size that it had when it was listed."""
    most = max(0, min(most, one.size - begin))
    if is_url(one.path):
        tree = open_tree(one.path)
        return tree.read(tree.root, SERIES)[begin : begin + most]
    with open_file(one.path, SERIES) as file:
        file.seek(begin)
        return file.read(most)


def _line(one: Watched, series: Series, now: float) -> dict[str, Any]:
    """What the list shows of a training."""
    return {
        "id": one.id,
        "name": clean(one.name),
        "place": clean(one.place),
        "when": one.modified,
        "state": "ended" if series.ended else "running" if now - one.modified < _SILENT else "silent",
        "step": series.step,
        "ps": series.ps,
        "text": series.text(),
        "slow": series.slow,
    }
