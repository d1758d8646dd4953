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
        self._series: dict[str, MonitorSeries] = {}
        self._lock = threading.Lock()

    def list_trainings(self, now: float) -> list[dict[str, Any]]:
        """Return the list's entry of each training, latest write first, and the number of omitted
        trainings.
        """
        files, left_out = self._latest()
        with self._lock:
            self._series = {training.path: self._series.get(training.path, MonitorSeries()) for training in files}
            self._read(files)
            return [{**_line(training, self._series[training.path], now), "left_out": left_out} for training in files]

    def find(self, training_id: str) -> TrainingFile:
        """Return the training with an id. Raises NotFoundError for a training that is not in the
        list.
        """
        match = next((training for training in self._latest()[0] if training.id == training_id), None)
        if match is None:
            raise NotFoundError("This training is not, or no longer, below the workbench's folders.")
        return match

    def curves(self, training_id: str) -> dict[str, Any]:
        """Return a training's numbers over its steps, one entry per interval, as JSON values.

        `step` is the last step of each interval, `p50` and `p95` the median and the 95th percentile
        of the step time (ps), `wait` the wait for input (ps), `memory` the memory (bytes).
        Neighbouring intervals are merged where there are many. `events` lists what happened
        meanwhile, with the run of each capture. Raises NotFoundError as `find` does.
        """
        training = self.find(training_id)
        with self._lock:
            self._read([training])
            series = self._series[training.path]
            numbers = {name: series.curve.column_means(i) for i, name in enumerate(("p50", "p95", "wait", "memory"))}
            return {"name": clean(training.name), "step": series.curve.steps(), **numbers, "events": series.events()}

    def _latest(self) -> tuple[tuple[TrainingFile, ...], int]:
        """Return the listed trainings, latest write first, and the number of the others."""
        by_path: dict[str, TrainingFile] = {}
        for root in self._folders.roots:
            with contextlib.suppress(Exception):  # every store has errors of its own
                tree = open_tree(root)
                for logdir in iter_logdirs(tree, tree.root):
                    place = logdir.removeprefix(tree.root.rstrip("/")).strip("/")
                    for entry in tree.files(f"{logdir}/{MONITOR_FOLDER}"):
                        if entry.name.endswith(".jsonl") and entry.size <= MONITOR_SERIES.max_bytes:
                            path = tree.with_scheme(f"{logdir}/{MONITOR_FOLDER}/{entry.name}")
                            name = entry.name.removesuffix(".jsonl")
                            by_path.setdefault(path, TrainingFile(path, name, place, entry.size, entry.modified))
        latest = iter(sorted(by_path.values(), key=lambda training: training.modified, reverse=True))
        inside = (training for training in latest if is_url(training.path) or self._folders.contains(training.path))
        return tuple(itertools.islice(inside, MAX_FILES)), sum(1 for _ in latest)

    def _read(self, files: Sequence[TrainingFile]) -> None:
        """Read further in some files, first in those with the fewest unread bytes, so that a large
        file delays none.
        """
        budget = MAX_READ_BYTES
        for training in sorted(files, key=self._unread_bytes):
            if budget >= MAX_LINE_BYTES:
                with contextlib.suppress(Exception):  # every store has errors of its own
                    budget -= self._read_further(training, budget)

    def _unread_bytes(self, training: TrainingFile) -> int:
        """Return the number of unread bytes of a file."""
        return training.size - self._series.setdefault(training.path, MonitorSeries()).offset

    def _read_further(self, training: TrainingFile, most: int) -> int:
        """Read further in a file, `most` bytes at most, and return the number of bytes read.

        Where the bytes before the known offset are not those that were read, the file was replaced
        and is read from its beginning. The inode is no criterion, because a copy of the same file,
        longer than before, has another one.
        """
        series = self._series[training.path]
        if series.file_state == (training.size, training.modified):
            return 0
        begin = series.offset - len(series.tail)
        data = _piece(training, begin, len(series.tail) + most)
        if not data.startswith(series.tail):
            series = self._series[training.path] = MonitorSeries()
            begin, data = 0, _piece(training, 0, most)
        series.file_state = (training.size, training.modified) if begin + len(data) == training.size else series.file_state
        series.feed(data)
        return len(data)


def _piece(training: TrainingFile, begin: int, most: int) -> bytes:
    """Return some bytes of a file, none beyond the size that it had when it was listed."""
    most = max(0, min(most, training.size - begin))
    if is_url(training.path):
        tree = open_tree(training.path)
        return tree.read(tree.root, MONITOR_SERIES)[begin : begin + most]
    with open_file(training.path, MONITOR_SERIES) as file:
        file.seek(begin)
        return file.read(most)


def _line(training: TrainingFile, series: MonitorSeries, now: float) -> dict[str, Any]:
    """Return the list's entry of a training."""
    return {
        "id": training.id,
        "name": clean(training.name),
        "place": clean(training.logdir),
        "when": training.modified,
        "state": "ended" if series.has_ended else "running" if now - training.modified < _SILENT else "silent",
        "step": series.step,
        "ps": series.step_ps,
        "text": series.format_last(),
        "slow": series.slowdown_count,
        "run": series.find_last_capture(),
    }
