"""Where the test data is, and how to open it."""

from __future__ import annotations

import gzip
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from outpace import api
from outpace.testing import SpaceBuilder

DATA = Path(__file__).parent / "data"
PROFILES = tuple(sorted(p.name for p in (DATA / "profiles").iterdir()))
FAST = "OUTPACE_FAST" in os.environ
"""Whether `make fast` runs: what is shown of every profile is then shown of a few that differ, and
no framework can be imported.
"""

SOME = (
    (
        "eager_loop",
        "idle_empty",
        "jax_loop",
        "jax_rocm_gemm",
        "keras_fit_multi_step",
        "multi_host",
        "retracing",
        "unicode_names",
    )
    if FAST
    else PROFILES
)
MARKED = (
    "custom_loop",
    "eager_loop",
    "input_bound_generator",
    "iterator_outside_step",
    "jax_cpu_steps",
    "jax_loop",
    "keras_sleeping_callback",
    "loop_sync_generator",
    "memory_heavy",
    "multi_host",
    "multi_worker_strategy",
    "python_tracer",
    "retracing",
    "tfdata_heavy",
    "tfrecord_pipeline",
    "unicode_names",
    "verbose_tracer",
)


def crowded(space: SpaceBuilder, events: int = 5000) -> SpaceBuilder:
    """The same with so many events more, of no time: noting them may have made its steps longer."""
    line = space.plane("/host:CPU").line("crowd")
    for number in range(events):
        line.event("crowd", number, 0)
    return space


def profile_path(name: str) -> Path:
    """Folder of a capture."""
    return DATA / "profiles" / name


def profile_bytes(name: str, host: str) -> bytes:
    """One host's profile, uncompressed."""
    return gzip.decompress((profile_path(name) / f"{host}.xplane.pb.gz").read_bytes())


@lru_cache(maxsize=64)
def opened(name: str, *, use_marks: bool = True) -> api.Profile:
    """An opened capture; profiles are immutable, so tests share them."""
    return api.open(profile_path(name), use_marks=use_marks)


@lru_cache(maxsize=64)
def reference(name: str, tool: str) -> Any:
    """What a reference implementation says (`pod_viewer.xprof`, ...); None when it has
    no answer.
    """
    path = DATA / "reference" / name / f"{tool}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None


SHARED = next((p / "shared" for p in Path(__file__).resolve().parents if (p / "shared" / "profiles").is_dir()), None)


def beside(names: tuple[str, ...]) -> list[str]:
    """Of these profiles, those of `tests/data`, and those that lie in the folder `shared` beside
    the repository where there is one.
    """
    return [n for n in names if n in PROFILES or (SHARED and (SHARED / "profiles" / n).is_dir())]


@lru_cache(maxsize=16)
def opened_beside(name: str) -> api.Profile:
    """An opened capture of `tests/data`, or of the folder `shared`."""
    return opened(name) if name in PROFILES or SHARED is None else api.open(SHARED / "profiles" / name)


def reference_beside(name: str, tool: str) -> Any:
    """What a reference implementation says, for a profile of either place."""
    if name in PROFILES or SHARED is None:
        return reference(name, tool)
    path = SHARED / "reference" / name / f"{tool}.json"
    return json.loads(path.read_text()) if path.exists() else None


def reference_table(name: str, tool: str) -> list[dict[str, Any]]:
    """The rows of a reference's (first) table, by the ids of its columns."""
    answer = reference_beside(name, tool)
    table = answer[0] if isinstance(answer, list) else answer
    ids = [column["id"] for column in table["cols"]]
    return [dict(zip(ids, (cell["v"] if cell else None for cell in row["c"]), strict=True)) for row in table["rows"]]
