# SPDX-License-Identifier: Apache-2.0
"""The trainings whose numbers `outpace.Monitor` writes below the workbench's folders, and their
curves over time.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import NotFoundError
from outpace.model.input_files import MONITOR_SERIES, open_file
from outpace.model.text import clean
from outpace.monitor.sinks import MONITOR_FOLDER
from outpace.store.logdir import iter_logdirs
from outpace.store.tree import is_url, open_tree
from outpace.ui.folders import Folders
from outpace.ui.monitor_series import MAX_LINE_BYTES, MonitorSeries
from outpace.ui.runs import path_id

# maximum number of bytes that one request reads, of all files together, which takes a fraction of a
# second; the next request continues there
MAX_READ_BYTES = 1 << 20
MAX_FILES = 200  # maximum number of listed trainings: those that wrote last
# seconds without a line after which a training that has not ended is no longer called running
_SILENT = 60.0


@dataclass(frozen=True)
class TrainingFile:
    """The monitor's file of one training.

    path: path or URL of the file.
    name: name of the file without its suffix.
    logdir: log directory below its root.
    size, modified: size in bytes and modification time; they change when the file does.
    """

    path: str
    name: str
    logdir: str
    size: int
    modified: float

    @property
    def id(self) -> str:
        """Id in the training's addresses."""
        return path_id(self.path)


class Trainings:
    """The trainings below the folders, without those that a link leads out of them. Each update
    reads only what was appended to their files, and memory is limited to what is shown.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._known: dict[str, MonitorSeries] = {}
        self._lock = threading.Lock()

    def list_trainings(self, now: float) -> list[dict[str, Any]]:
        """Return the list's entry of each training, latest write first, and the number of omitted
        trainings.
        """
        found, left_out = self._latest()
        with self._lock:
            self._known = {one.path: self._known.get(one.path, MonitorSeries()) for one in found}
            self._read(found)
            return [{**_line(one, self._known[one.path], now), "left_out": left_out} for one in found]

    def find(self, training_id: str) -> TrainingFile:
        """Return the training with an id. Raises NotFoundError for a training that is not in the
        list.
        """
        found = next((one for one in self._latest()[0] if one.id == training_id), None)
        if found is None:
            raise NotFoundError("This training is not, or no longer, below the workbench's folders.")
        return found

    def curves(self, training_id: str) -> dict[str, Any]:
        """Return a training's numbers over its steps, one entry per interval, as JSON values.

        `step` is the last step of each interval, `p50` and `p95` the median and the 95th percentile
        of the step time (ps), `wait` the wait for input (ps), `memory` the memory (bytes).
        Neighbouring intervals are merged where there are many. `events` lists what happened
        meanwhile, with the run of each capture. Raises NotFoundError as `find` does.
        """
        one = self.find(training_id)
        with self._lock:
            self._read([one])
            series = self._known[one.path]
            numbers = {name: series.curve.column_means(i) for i, name in enumerate(("p50", "p95", "wait", "memory"))}
            return {"name": clean(one.name), "step": series.curve.steps(), **numbers, "events": series.events()}

    def _latest(self) -> tuple[tuple[TrainingFile, ...], int]:
        """Return the listed trainings, latest write first, and the number of the others."""
        found: dict[str, TrainingFile] = {}
        for root in self._folders.roots:
            with contextlib.suppress(Exception):  # every store has errors of its own
                tree = open_tree(root)
                for logdir in iter_logdirs(tree, tree.root):
                    place = logdir.removeprefix(tree.root.rstrip("/")).strip("/")
                    for entry in tree.files(f"{logdir}/{MONITOR_FOLDER}"):
                        if entry.name.endswith(".jsonl") and entry.size <= MONITOR_SERIES.max_bytes:
                            path = tree.with_scheme(f"{logdir}/{MONITOR_FOLDER}/{entry.name}")
                            name = entry.name.removesuffix(".jsonl")
                            found.setdefault(path, TrainingFile(path, name, place, entry.size, entry.modified))
        latest = iter(sorted(found.values(), key=lambda one: one.modified, reverse=True))
        inside = (one for one in latest if is_url(one.path) or self._folders.contains(one.path))
        return tuple(itertools.islice(inside, MAX_FILES)), sum(1 for _ in latest)

    def _read(self, found: Sequence[TrainingFile]) -> None:
        """Read further in some files, first in those with the fewest unread bytes, so that a large
        file delays none.
        """
        left = MAX_READ_BYTES
        for one in sorted(found, key=self._left):
            if left >= MAX_LINE_BYTES:
                with contextlib.suppress(Exception):  # every store has errors of its own
                    left -= self._read_on(one, left)

    def _left(self, one: TrainingFile) -> int:
        """Return the number of unread bytes of a file."""
        return one.size - self._known.setdefault(one.path, MonitorSeries()).offset

    def _read_on(self, one: TrainingFile, most: int) -> int:
        """Read further in a file, `most` bytes at most, and return the number of bytes read.

        Where the bytes before the known offset are not those that were read, the file was replaced
        and is read from its beginning. The inode is no criterion, because a copy of the same file,
        longer than before, has another one.
        """
        known = self._known[one.path]
        if known.file_state == (one.size, one.modified):
            return 0
        begin = known.offset - len(known.tail)
        data = _piece(one, begin, len(known.tail) + most)
        if not data.startswith(known.tail):
            known = self._known[one.path] = MonitorSeries()
            begin, data = 0, _piece(one, 0, most)
        known.file_state = (one.size, one.modified) if begin + len(data) == one.size else known.file_state
        known.feed(data)
        return len(data)


def _piece(one: TrainingFile, begin: int, most: int) -> bytes:
    """Return some bytes of a file, none beyond the size that it had when it was listed."""
    most = max(0, min(most, one.size - begin))
    if is_url(one.path):
        tree = open_tree(one.path)
        return tree.read(tree.root, MONITOR_SERIES)[begin : begin + most]
    with open_file(one.path, MONITOR_SERIES) as file:
        file.seek(begin)
        return file.read(most)


def _line(one: TrainingFile, series: MonitorSeries, now: float) -> dict[str, Any]:
    """Return the list's entry of a training."""
    return {
        "id": one.id,
        "name": clean(one.name),
        "place": clean(one.logdir),
        "when": one.modified,
        "state": "ended" if series.has_ended else "running" if now - one.modified < _SILENT else "silent",
        "step": series.step,
        "ps": series.step_ps,
        "text": series.format_last(),
        "slow": series.slowdown_count,
    }
