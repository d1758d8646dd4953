# SPDX-License-Identifier: Apache-2.0
"""Findings about the start-up: what makes the next start shorter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outpace.model import Evidence, Finding, Row, Severity, Table, Threshold, Unit, humanize
from outpace.store.startup import StartupKind
from outpace.tools.startup_time.compute import PS_PER_NS, own_duration_ns

_OURS = "our choice: of the start-up"
_COMPILING = Threshold("compilation", 0.2, Unit.FRACTION, _OURS)
_ANEW = Threshold("one program compiled again", 0.1, Unit.FRACTION, _OURS)
_IMPORT = Threshold("import of one package", 0.1, Unit.FRACTION, _OURS)
_LINE = Threshold("one line", 0.2, Unit.FRACTION, _OURS)
_LEAST_PS = 0.5e12  # below it a start is no nuisance
_TIMES = 3  # compilations from which a program counts as compiled again and again
_FRAMEWORKS = ("jax", "jaxlib", "numpy")
_JAX_KINDS = (StartupKind.TRACE.value, StartupKind.LOWER.value, StartupKind.COMPILE.value)


def iter_findings(startups: Mapping[str, Mapping[str, Any]], parts: Table) -> Iterator[Finding]:
    """Yield what takes a large part of each host's start."""
    for host, startup in startups.items():
        rows = list(parts.filter_by("host", host).records())
        whole_ps = own_duration_ns(startup) * PS_PER_NS
        yield from _compiled_anew(host, rows, whole_ps)
        yield from _graphs_anew(host, rows, whole_ps)
        yield from _ops(host, rows, whole_ps)
        yield from _cache(host, startup, rows, whole_ps)
        yield from _imports(host, rows, whole_ps)
        yield from _lines(host, rows, whole_ps)


def _is_large(duration_ps: float, whole_ps: float, limit: Threshold) -> bool:
    """Whether a part is worth a word."""
    return duration_ps >= max(limit.value * whole_ps, _LEAST_PS)


def _of_start(duration_ps: float, whole_ps: float) -> str:
    """Return a part of the start-up in words."""
    return f"{humanize(duration_ps, Unit.PS)} of the {humanize(whole_ps, Unit.PS)} before the first steady step"


def _evidence(what: str, duration_ps: float, whole_ps: float) -> tuple[Evidence, ...]:
    """Return the evidence of a part."""
    return (
        Evidence(f"{what}, of the start-up", duration_ps / whole_ps, Unit.FRACTION, "startup_kinds"),
        Evidence(what, duration_ps, Unit.PS, "startup_parts"),
    )


def _cache(host: str, startup: Mapping[str, Any], rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Compilations that a persistent cache would have at the next start."""
    missed = [row for row in rows if row["kind"] == StartupKind.COMPILE.value and row["cache_hits"] < row["count"]]
    compiled_ps = sum(row["duration_ps"] for row in missed)
    if not startup["cache_folder"] and _is_large(compiled_ps, whole_ps, _COMPILING):
        yield Finding(
            id="no_cache_of_programs",
            severity=Severity.MODERATE,
            sentence=f"Compiling takes {_of_start(compiled_ps, whole_ps)}, and no start keeps its programs for the next one.",
            action="Set a folder for compiled programs: JAX_COMPILATION_CACHE_DIR=~/.cache/jax in the environment, or "
            'jax.config.update("jax_compilation_cache_dir", ...), and JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0, since by default '
            "programs that compile in less than 1 s are not kept.",
            evidence=_evidence("compilation", compiled_ps, whole_ps),
            threshold=_COMPILING,
            counter_evidence=("The first start with the cache compiles as before; so does one after a change of the program.",),
            host=host,
        )
        return
    short = [row for row in missed if row["duration_ps"] / row["count"] < startup["cache_min_s"] * 1e12]
    short_ps = sum(row["duration_ps"] for row in short)
    if startup["cache_folder"] and _is_large(short_ps, whole_ps, _COMPILING):
        yield Finding(
            id="programs_below_cache_limit",
            severity=Severity.MODERATE,
            sentence=f"Compiling programs that take less than {startup['cache_min_s']:g} s each takes {_of_start(short_ps, whole_ps)}: the "
            f"cache does not keep them.",
            action="Keep short compilations, too: JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 in the environment, or "
            'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0).',
            evidence=_evidence("compilation below the limit", short_ps, whole_ps),
            threshold=_COMPILING,
            host=host,
        )


def _compiled_anew(host: str, rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Functions of the script that are compiled again and again before the training is steady."""
    for row in rows:
        if row["kind"] != StartupKind.COMPILE.value or row["count"] < _TIMES or _is_op(row):
            continue
        of_function = (r for r in rows if r["kind"] in _JAX_KINDS and (r["name"], r["source"]) == (row["name"], row["source"]))
        duration_ps = sum(each["duration_ps"] for each in of_function)
        if not _is_large(duration_ps, whole_ps, _ANEW):
            continue
        has_changed = bool(row["cause"]) and row["cause"] != "the same arguments"
        yield Finding(
            id="compiled_anew_at_start",
            severity=Severity.MODERATE,
            sentence=f"'{row['name']}' is compiled {row['count']:.0f} times, which takes {_of_start(duration_ps, whole_ps)}"
            f"{'; the last time because of ' + row['cause'] if has_changed else ''}.",
            action=(
                "Give arguments one shape and type: pad to one size, pass changing numbers as arrays."
                if has_changed
                else "Make the jitted function once, outside of loops and of functions that are called again: each jax.jit(...) of a new "
                "function compiles anew."
            ),
            evidence=_evidence(f"compiling '{row['name']}'", duration_ps, whole_ps),
            threshold=_ANEW,
            location=row["source"],
            host=host,
        )


def _graphs_anew(host: str, rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Functions of the script of which TensorFlow builds graph after graph before the training is
    steady.
    """
    for row in rows:
        is_graph = row["kind"] == StartupKind.GRAPH.value and row["count"] >= _TIMES
        if is_graph and _is_large(row["duration_ps"], whole_ps, _ANEW):
            yield Finding(
                id="graphs_built_anew_at_start",
                severity=Severity.MODERATE,
                sentence=f"TensorFlow builds {row['count']:.0f} graphs of '{row['name']}', which takes "
                f"{_of_start(row['duration_ps'], whole_ps)}.",
                action="Pass tensors instead of Python numbers, of one shape and dtype, and create the tf.function once, outside of loops "
                "and of functions that are called again; an input_signature makes one graph do.",
                evidence=_evidence(f"graphs of '{row['name']}'", row["duration_ps"], whole_ps),
                threshold=_ANEW,
                location=row["source"],
                host=host,
            )


def _is_op(row: Row) -> bool:
    """Whether a row is about programs of JAX's own operations."""
    return bool(row["name"].startswith("jax: "))


def _ops(host: str, rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Set-up that runs op by op, each of which is compiled first."""
    ops = [row for row in rows if row["kind"] in _JAX_KINDS and _is_op(row)]
    duration_ps = sum(row["duration_ps"] for row in ops)
    if not _is_large(duration_ps, whole_ps, _COMPILING):
        return
    longest = max(ops, key=lambda row: row["duration_ps"])
    count = sum(row["count"] for row in ops if row["kind"] == StartupKind.COMPILE.value)
    yield Finding(
        id="ops_compiled_at_start",
        severity=Severity.MODERATE,
        sentence=f"{count:.0f} programs of single operations of JAX are compiled, which takes {_of_start(duration_ps, whole_ps)}"
        f"{'; most at ' + longest['source'] if longest['source'] else ''}.",
        action="Put the set-up under one jax.jit, or make its arrays with NumPy: outside of jit each operation is a program of its own.",
        evidence=_evidence("programs of single operations", duration_ps, whole_ps),
        threshold=_COMPILING,
        location=longest["source"],
        host=host,
    )


def _imports(host: str, rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Packages that take long to import, other than the framework that trains."""
    has_jax = any(row["kind"] == StartupKind.COMPILE.value for row in rows)
    needed = _FRAMEWORKS if has_jax else (*_FRAMEWORKS, "tensorflow", "keras")
    for row in rows:
        is_import = row["kind"] == StartupKind.IMPORT.value and row["name"] not in needed
        if is_import and _is_large(row["duration_ps"], whole_ps, _IMPORT):
            yield Finding(
                id="slow_import",
                severity=Severity.POTENTIAL,
                sentence=f"Importing {row['name']} takes {_of_start(row['duration_ps'], whole_ps)}.",
                action=f"Import {row['name']} where it is used, inside of the function that needs it, or not at all.",
                evidence=_evidence(f"import of {row['name']}", row["duration_ps"], whole_ps),
                threshold=_IMPORT,
                location=row["source"],
                host=host,
                counter_evidence=("Where the training needs it in each run, only a lighter package helps.",),
            )


def _lines(host: str, rows: Sequence[Row], whole_ps: float) -> Iterator[Finding]:
    """Lines of the script that take long before the training."""
    for row in rows:
        is_code = row["kind"] == StartupKind.CODE.value and row["source"]
        if is_code and _is_large(row["duration_ps"], whole_ps, _LINE):
            calls = f", in {row['name'].partition(': ')[2]} of {row['name'].partition(': ')[0]}" if row["name"] else ""
            yield Finding(
                id="slow_set_up_line",
                severity=Severity.POTENTIAL,
                sentence=f"{row['source']} takes {_of_start(row['duration_ps'], whole_ps)}{calls}.",
                action="Store what the line makes, and load that at the next start: np.save, a Parquet file, or Dataset.save.",
                evidence=_evidence("this line", row["duration_ps"], whole_ps),
                threshold=_LINE,
                location=row["source"],
                host=host,
                counter_evidence=(
                    "Samples of the stack, some seventy a second, divide the script's own time among its lines.",
                ),
            )
