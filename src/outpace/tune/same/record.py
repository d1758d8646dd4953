# SPDX-License-Identifier: Apache-2.0
"""What one run of a text leaves behind."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.tune.same.changes import TraceRead
from outpace.tune.same.shown import Items
from outpace.tune.same.state import State

CUT_SHORT = "cut"  # how a run ended that had no more time


@dataclass(frozen=True)
class Record:
    """marks: the state by loop, how often it was entered, and pass (`passes.END` for what follows
    it). passes: how many each loop made, until it was cut or ended. printed: lines of its output.
    ended: how the script ended: empty for its own end, `cut` for the time limit, else the
    exception. ran, branches: first lines of the branches that ran after training began, and of all,
    by file. files: what it would have written, by path from the folder that it ran in: lines of a
    text, else nothing. memory: bytes at most. threads: that would keep the process from ending.
    said: lines of its log and on stderr. before: like `ran`, before training began. traces: in how
    many traces functions have read what they keep. numbers: that the texts name. items: what runs
    of the loops gave, where that was looked up. made: passes in all. pace: seconds that one took at
    most. fastest: those of the fastest; 0 where that was not looked up. over: whether its training
    was over. coupled: pairs of lines that draw the same random numbers. told: seconds behind its
    training until it said something last. begin: the state where training began. lasting: what of
    the script's goes on behind its end, in words. own: lines that its own code printed.
    errors: lines on stderr, without those of C++ libraries. readings: how often its own code read
    the clock. hidden: what the numbers, times and steps that stand in for real ones do not show of
    it, in words. started: the commands of programs that it started. drawn: lines that Keras wrote.
    skipped: whether passes of its training were left out, or may have been. drew: whether it drew
    random numbers that it does not seed.
    """

    marks: Mapping[tuple[str, int, int], State]
    passes: Mapping[str, int]
    printed: tuple[str, ...]
    ended: str
    ran: Mapping[str, frozenset[int]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory: int = 0
    threads: int = 0
    said: tuple[str, ...] = ()
    before: Mapping[str, frozenset[int]] = field(default_factory=dict)
    traces: Mapping[TraceRead, int] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    items: Mapping[str, Sequence[Items]] = field(default_factory=dict)
    made: int = 0
    pace: float = 0.0
    fastest: float = 0.0
    over: bool = False
    coupled: frozenset[str] = frozenset()
    told: float = 0.0
    begin: State | None = None
    lasting: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    errors: tuple[str, ...] = ()
    readings: int = 0
    hidden: frozenset[str] = frozenset()
    started: tuple[str, ...] = ()
    drawn: frozenset[str] = frozenset()
    skipped: bool = False
    drew: bool = False

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it for the process that compares, whole or not at all."""
        part = Path(f"{os.fspath(path)}.part")
        part.write_bytes(pickle.dumps(self))
        part.replace(path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Record:
        """What a process of ours wrote into our private folder."""
        found = pickle.loads(Path(path).read_bytes())
        assert isinstance(found, cls)
        return found
