# SPDX-License-Identifier: Apache-2.0
"""Chance fixed by the place that asks for it: Python's, NumPy's and TensorFlow's random numbers,
and what seeds itself by the system's entropy.

Two texts of a program draw the same numbers where the same line of the user's draws for the same
time, whatever else has drawn in between.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any

from outpace.capture.frames import find_mapped_call_site
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE, GET_SEED

SEED = 20_011


class Chance:
    """Fixes chance in this process. users: whether a file is one of the user's. lines: by file, for
    each line of an edited text that of the original, so that a place keeps its numbers where lines
    moved. draw: of which random numbers.
    """

    def __init__(self, users: Callable[[str], bool], lines: Mapping[str, Mapping[int, int]], draw: int = 0) -> None:
        self._users, self._lines, self._draw = users, lines, SEED + draw
        self._counts: dict[tuple[str, int], int] = {}
        self._hashed: Any = None

    def begin(self) -> None:
        """Of Python, before anything else is imported."""
        random.seed(self._draw)
        tempfile._name_sequence = None  # type: ignore[attr-defined]  # of names that begin anew, by the seed
        os.urandom = self._urandom
        random._urandom = self._urandom  # type: ignore[attr-defined]  # the name that it was imported by
        plain = random.Random.seed

        def seed(this: random.Random, a: Any = None, version: int = 2) -> None:
            plain(this, self.seed() if a is None else a, version)

        random.Random.seed = seed  # type: ignore[method-assign, assignment]  # this process does nothing else

    def on_numpy(self, numpy: ModuleType) -> None:
        """Its global state, and generators without a seed."""
        chance: Any = numpy.random
        chance.seed(self._draw)
        for name in ("default_rng", "RandomState", "SeedSequence"):
            self._seeded(chance, name)

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Its global seed, and a seed for each place that gives none."""
        tf.random.set_seed(self._draw)
        plain = GET_SEED.value
        if plain is None:
            return

        def get_seed(op_seed: int | None) -> Any:
            return plain(self.seed() % 2**31 if op_seed is None else op_seed)

        GET_SEED.replace(get_seed)
        from outpace.tune.same.chance_tf import Hashed

        self._hashed = Hashed(
            tf, lambda: self._number(sys._getframe(1)), lambda: "{}:{}".format(*self._place(sys._getframe(1)))
        )
        self._hashed.install(self._draw)

    @property
    def coupled(self) -> frozenset[str]:
        """Lines, in pairs, that draw the same numbers in TensorFlow's graphs, where the hashes that
        stand in for them do not.
        """
        return self._hashed.coupled if self._hashed is not None else frozenset()

    @property
    def hidden(self) -> frozenset[str]:
        """What of TensorFlow's own ways to draw does not show with the hashes, in words."""
        return frozenset(self._hashed.hidden) if self._hashed is not None else frozenset()

    @property
    def drew(self) -> bool:
        """Whether the user's code asked for random numbers without a seed."""
        return any(file for file, _ in self._counts)

    def seed(self) -> int:
        """A number for the user's line that asks, and for the how manieth time."""
        place = self._place(sys._getframe(1))
        count = self._counts[place] = self._counts.get(place, 0) + 1
        return int.from_bytes(self._digest(f"{place} {count}", 7), "little")

    def _number(self, frame: FrameType | None) -> int:
        """A number for the user's line, the same each time."""
        return int.from_bytes(self._digest(str(self._place(frame)), 4), "little")

    def _digest(self, text: str, size: int) -> bytes:
        return hashlib.blake2b(f"{text} {self._draw}".encode(), digest_size=size).digest()

    def _place(self, frame: FrameType | None) -> tuple[str, int]:
        while frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if AUTOGRAPH_FILE in file and (place := find_mapped_call_site(None)) is not None:
                file, line = place.file, place.line
            if self._users(file):
                return os.path.basename(file), self._lines.get(os.path.realpath(file), {}).get(line, line)
            frame = frame.f_back
        return "", 0

    def _urandom(self, size: int) -> bytes:
        return random.Random(self.seed()).randbytes(size)

    def _seeded(self, owner: Any, name: str) -> None:
        """Of something that is made from a seed, its first argument, `seed` or `entropy`."""
        plain, chance = getattr(owner, name), self

        def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if (args[0] if args else kwargs.get("seed", kwargs.get("entropy"))) is not None:
                return args, kwargs
            rest = {key: value for key, value in kwargs.items() if key not in ("seed", "entropy")}
            return (chance.seed() % 2**32, *args[1:]), rest

        if not isinstance(plain, type):

            @functools.wraps(plain)
            def seeded(*args: Any, **kwargs: Any) -> Any:
                args, kwargs = given(args, kwargs)
                return plain(*args, **kwargs)

            setattr(owner, name, seeded)
            return

        class Seeded(plain):  # type: ignore[misc, valid-type]  # whichever class it is: itself, but for a seed that is missing
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                args, kwargs = given(args, kwargs)
                super().__init__(*args, **kwargs)

        Seeded.__name__, Seeded.__qualname__, Seeded.__module__ = plain.__name__, plain.__qualname__, plain.__module__
        setattr(owner, name, Seeded)
