"""What makes the next start shorter."""

from __future__ import annotations

import dataclasses

from outpace.model import Severity
from outpace.store.startup import Startup, StartupKind, StartupPart
from outpace.tools.startup_time import findings as rules
from outpace.tools.startup_time.compute import build_parts
from tests.advice_cases.build import HOST
from tests.advice_cases.case import Case, Find, fires, silent

_MODERATE, _POTENTIAL = Severity.MODERATE, Severity.POTENTIAL
_FILE = "/a/train.py"
_LINE = "train.py:7"
_FOLDER = "/cache"


def _part(kind: StartupKind, seconds: float, name: str = "", count: int = 1, library: str = "", cause: str = "") -> StartupPart:
    """A part at a line; cause: what the last compilation differed in."""
    found = StartupPart(kind.value, name, round(seconds * 1e9), count, _FILE, 7, "x = load()", library)
    changed = {"x": cause} if cause != "nothing" else {}
    return dataclasses.replace(found, before={}, arguments=changed) if cause else found


def _compiled(seconds: float, name: str = "update", count: int = 1, library: str = "", cause: str = "") -> StartupPart:
    return _part(StartupKind.COMPILE, seconds, name, count, library, cause)


def _start(*parts: StartupPart, whole: float = 10.0, cache: str = "", least: float = 1.0) -> Find:
    """A start of so many seconds, of which short code takes what is left."""
    left = whole - sum(part.duration_ns for part in parts) / 1e9
    code = [StartupPart(StartupKind.CODE.value, f"f{at}", round(left / 20 * 1e9)) for at in range(20)]
    found = Startup(round(whole * 1e9), "steps", (*parts, *code), 2, cache, least)
    startups = {HOST: dataclasses.asdict(found)}
    return lambda: rules.iter_findings(startups, build_parts(startups))


CASES: list[Case] = [
    fires(
        "no_cache_of_programs",
        "a fifth of the start",
        _start(_compiled(1.5), _compiled(0.6, "loss")),
        _MODERATE,
        says=("Compiling takes 2.10 s of the 10.0 s", "JAX_COMPILATION_CACHE_DIR"),
    ),
    silent("no_cache_of_programs", "less than a fifth", _start(_compiled(1.9))),
    fires(
        "no_cache_of_programs", "half a second", _start(_compiled(0.51), whole=1.5), _MODERATE, says=("510 ms of the 1.50 s",)
    ),
    silent("no_cache_of_programs", "less than half a second", _start(_compiled(0.49), whole=1.5)),
    silent("no_cache_of_programs", "there is one", _start(_compiled(2.1), cache=_FOLDER)),
    fires(
        "programs_below_cache_limit",
        "a fifth of the start",
        _start(_compiled(2.1, count=3), cache=_FOLDER),
        _MODERATE,
        says=("programs that take less than 1 s each takes 2.10 s", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"),
    ),
    silent("programs_below_cache_limit", "less than a fifth", _start(_compiled(1.9, count=3), cache=_FOLDER)),
    silent("programs_below_cache_limit", "programs that are kept", _start(_compiled(2.1, count=2), cache=_FOLDER)),
    silent("programs_below_cache_limit", "all are kept", _start(_compiled(2.1, count=3), cache=_FOLDER, least=0.0)),
    fires(
        "compiled_anew_at_start",
        "three times, a tenth of the start",
        _start(_compiled(0.9, count=3, cause="f32[3]"), _part(StartupKind.TRACE, 0.2, "update")),
        _MODERATE,
        location=_LINE,
        says=("'update' is compiled 3 times, which takes 1.10 s", "because of x: nothing → f32[3]", "one shape and type"),
    ),
    fires(
        "compiled_anew_at_start",
        "the same arguments",
        _start(_compiled(1.1, count=3, cause="nothing")),
        _MODERATE,
        location=_LINE,
        says=("Make the jitted function once",),
        never=("because of",),
    ),
    silent("compiled_anew_at_start", "less than a tenth", _start(_compiled(0.9, count=3))),
    silent("compiled_anew_at_start", "twice", _start(_compiled(1.1, count=2))),
    fires(
        "graphs_built_anew_at_start",
        "three times, a tenth of the start",
        _start(_part(StartupKind.GRAPH, 1.1, "count", 3)),
        _MODERATE,
        location=_LINE,
        says=(
            "TensorFlow builds 3 graphs of 'count', which takes 1.10 s of the 10.0 s",
            "Pass tensors instead of Python numbers",
        ),
    ),
    silent("graphs_built_anew_at_start", "less than a tenth", _start(_part(StartupKind.GRAPH, 0.9, "count", 3))),
    silent("graphs_built_anew_at_start", "twice", _start(_part(StartupKind.GRAPH, 1.1, "count", 2))),
    fires(
        "ops_compiled_at_start",
        "a fifth of the start",
        _start(_compiled(1.1, "asarray", 9, "jax"), _part(StartupKind.LOWER, 1.0, "asarray", 9, "jax")),
        _MODERATE,
        location=_LINE,
        says=("9 programs of single operations", "2.10 s of the 10.0 s", f"most at {_LINE}", "under one jax.jit"),
    ),
    silent("ops_compiled_at_start", "less than a fifth", _start(_compiled(1.9, "asarray", 9, "jax"))),
    fires(
        "slow_import",
        "a tenth of the start",
        _start(_part(StartupKind.IMPORT, 1.1, "matplotlib")),
        _POTENTIAL,
        location=_LINE,
        says=("Importing matplotlib takes 1.10 s of the 10.0 s", "Import matplotlib where it is used"),
    ),
    fires(
        "slow_import",
        "TensorFlow where JAX trains",
        _start(_part(StartupKind.IMPORT, 1.1, "tensorflow"), _compiled(0.1)),
        _POTENTIAL,
        location=_LINE,
        says=("Importing tensorflow",),
    ),
    silent("slow_import", "less than a tenth", _start(_part(StartupKind.IMPORT, 0.9, "matplotlib"))),
    silent("slow_import", "what trains", _start(_part(StartupKind.IMPORT, 1.1, "tensorflow"))),
    fires(
        "slow_set_up_line",
        "a fifth of the start",
        _start(_part(StartupKind.CODE, 2.1, "read_csv", library="pandas")),
        _POTENTIAL,
        location=_LINE,
        says=(f"{_LINE} takes 2.10 s of the 10.0 s", "in read_csv of pandas.", "Store what the line makes"),
    ),
    silent("slow_set_up_line", "less than a fifth", _start(_part(StartupKind.CODE, 1.9))),
]
