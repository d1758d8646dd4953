# SPDX-License-Identifier: Apache-2.0
"""What a capture record holds of a script's start: the parts of the time from the command to the
first steady step. Standard library only, as the record itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from outpace._dataclass import dataclass


class StartupKind(str, Enum):
    """What the main thread did before the training was steady."""

    INTERPRETER = "interpreter"
    OUTPACE = "Outpace"
    IMPORT = "import"
    CODE = "code"
    GRAPH = "graph"
    TRACE = "trace"
    LOWER = "lower"
    COMPILE = "compile"
    BATCH = "first batch"
    TRANSFER = "transfer"
    STEP = "first steps"


@dataclass(frozen=True)
class StartupPart:
    """Time of the main thread before the training was steady.

    kind: value of a `StartupKind`.
    name: package, function or program; of code, the function of a library that the line calls.
    duration_ns: time, that of other parts inside of it left out, ns.
    count: how often.
    file, line, text: the user's line; "" and 0 where unknown.
    library: package of the function in `name`, of code that calls one.
    hits: for compilations, how many came from JAX's persistent cache.
    before, arguments: what the last compilation of several differed in, as in `Compilation`.
    """

    kind: str
    name: str
    duration_ns: int
    count: int = 1
    file: str = ""
    line: int = 0
    text: str = ""
    library: str = ""
    hits: int = 0
    before: Mapping[str, str] | None = None
    arguments: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Startup:
    """What the script's main thread did from the start of its process until the training was
    steady.

    duration_ns: length of that time, ns.
    end: what ended it: `steps`, where the first steady step began; `compilation`, where steps were
        not seen, so that it is the end of the last compilation, graph or import before the window.
    parts: its parts, in the order in which they began; they add up to `duration_ns`.
    first_steps: number of steps before the first steady one.
    cache_folder: folder of JAX's persistent compilation cache; "" where it is off.
    cache_min_s: duration from which JAX stores a compilation there, s.
    """

    duration_ns: int
    end: str
    parts: tuple[StartupPart, ...] = ()
    first_steps: int = 0
    cache_folder: str = ""
    cache_min_s: float = 0.0
