"""Every way in which people meet a profile, and what must hold in all of them, whatever the profile
holds.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import outpace
from outpace import api
from outpace.compare import Side, baseline, build_report, compare, evaluate_gate
from outpace.model import Figures, OutpaceError, Page, Report, Unit
from outpace.report import csv_, html, json_, markdown, terminal
from outpace.tables import export
from outpace.trace.export import ExportFormat
from outpace.viewer import parse_selection, write_trace

_SOURCE = str(Path(outpace.__file__).parent)
_SHARE = re.compile(r"(?<![\d.])\d[\d,]*(?:\.\d+)?(?= ?%(?!\)? (?:more|less|longer|slower|faster)))")
_WHOLE = 1 + 1e-6
_NO_PARTS = {
    "input_pipeline.saturation.saturation": "how many threads there are for a core",
    "busy threads per core during steps": "the same",
    "input_pipeline.input_ops.total_fraction": "time in which others of the whole are counted, too",
    "input_pipeline.input_instances.total_fraction": "the same",
    "model_time.hlo_lines.share": "lines whose ops run side by side come to more than the step",
    "kernel_stats.copies.memory_fraction": "a rate, beside one that the device says",
    "pod.summary.excess_fraction": "by how much more, or less",
}
"""What is in percent and no part of a whole, with the reason."""
_NEGATIVE = re.compile(r"(?<![\w.:/-])-\d[\d,.]* ?(?:s|ms|µs|ns|ps|%)")


class Wrong(AssertionError):
    """Something that no reader must see."""


def faults(path: Path, folder: Path, other: Side | None, turn: int) -> Iterator[str]:
    """What goes wrong with a profile: `way: where: what`, for each way; nothing for what is refused
    with a sentence.

    `other`: a side that it is compared with. `turn` chooses among the ways that cost most: each
    comes every fourth time.
    """
    try:
        profile = api.open(path)
    except OutpaceError:
        return
    except Exception as error:
        yield f"open: {_where(error)}"
        return
    with profile:
        for name, way in _ways(profile, path, folder, other, turn):
            yield from (f"{name}: {fault}" for fault in _tried(way))


def _tried(way: Callable[[], object]) -> list[str]:
    try:
        with contextlib.suppress(OutpaceError):
            way()
    except Wrong as error:
        return str(error).splitlines()
    except Exception as error:
        return [_where(error)]
    return []


def _ways(
    profile: api.Profile, path: Path, folder: Path, other: Side | None, turn: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "report", lambda: check(profile.report())
    yield "shown", lambda: show(profile.report(), folder / "csv", turn)
    yield "explain", lambda: _explain(profile, folder, turn)
    yield "compare", lambda: _compared(profile, other, folder, turn)
    if turn % 4 == 0:
        yield "redact", lambda: _redacted(path, folder, turn)
    elif turn % 4 == 1:
        yield "trace", lambda: _traced(profile, folder, turn)
    elif turn % 4 == 2:
        yield "export", lambda: export(path, parquet=folder / "parquet")
        yield "notebook", profile._repr_html_
    else:
        yield "part", lambda: check(profile.part(steps=(1, 2)).report())
        yield "window", lambda: _window(path)


def _where(error: BaseException) -> str:
    """The innermost place of ours, and the error."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(_SOURCE)]
    place = f"{frames[-1].filename[len(_SOURCE) + 1 :]}:{frames[-1].lineno}" if frames else "here"
    return f"{place}: {type(error).__name__}: {str(error)[:200]}"


def check(report: Report) -> None:
    """No page has failed, no share is above 100 %, and no time in a headline is negative."""
    wrong = [
        *_failures(report),
        *_headlines(report),
        *(f"share: {page.id}.{each}" for page in report.pages for each in _shares(page)),
    ]
    if wrong:
        raise Wrong("\n".join(wrong))


def _failures(report: Report) -> Iterator[str]:
    for page in report.failed_pages():
        if page.failure is not None:
            frames = re.findall(rf'File "{re.escape(_SOURCE)}/([^"]+)", line (\d+)', page.failure.trace)
            yield f"page {page.id}: {':'.join(frames[-1]) if frames else ''}: {page.failure.error}"


def _headlines(report: Report) -> Iterator[str]:
    for text in dict.fromkeys((report.headline, *(page.headline for page in report.pages))):
        if _NEGATIVE.search(text) or any(float(share.replace(",", "")) > 100 for share in _SHARE.findall(text)):
            yield f"headline: {text}"


def _shares(page: Page) -> Iterator[str]:
    """Shares that are none."""
    for table in page.tables():
        for field in table.fields:
            if field.unit is Unit.FRACTION and f"{page.id}.{table.name}.{field.name}" not in _NO_PARTS:
                values = table[field.name].astype(np.float64)
                for value in values[(values < 0) | (values > _WHOLE)][:1].tolist():
                    yield f"{table.name}.{field.name}: {value}"
    figures = [item for section in page.sections if isinstance(section, Figures) for item in section.items]
    for item in (*page.key_figures, *figures):
        if item.unit is Unit.FRACTION and isinstance(item.value, (int, float)) and not 0 <= item.value <= _WHOLE:
            yield f"figure {item.label}: {item.value}"
    for finding in page.findings:
        for each in finding.evidence:
            if each.unit is Unit.FRACTION and not 0 <= each.value <= _WHOLE and each.says not in _NO_PARTS:
                yield f"finding {finding.id}: {each.says}: {each.value}"


def _constant(name: str) -> Any:
    raise Wrong(f"JSON: {name}")


def show(report: Report, folder: Path, turn: int | None = None) -> None:
    """Show a report in every way; in JSON and one other, where a `turn` chooses it."""
    json.loads(json_.render(report), parse_constant=_constant)
    if turn is None or turn % 3 == 0:
        html.render(report)
    if turn is None or turn % 3 == 1:
        markdown.render(report)
        csv_.write(report, folder)
    if turn is None or turn % 3 == 2:
        with contextlib.redirect_stdout(io.StringIO()):
            terminal.print_report(report, width=100, details=True)


def _explain(profile: api.Profile, folder: Path, turn: int) -> None:
    report = profile.report_of(profile.explain(step=(None, 0, 1)[turn // 4 % 3]))
    check(report)
    show(report, folder / "explain", turn)


def _compared(profile: api.Profile, other: Side | None, folder: Path, turn: int) -> None:
    """With what it was before, both ways, and with itself from a file; one of these is shown."""
    mine = Side.from_runs("mine", profile.run)
    baseline.write_baseline(mine, folder / "side.json")
    stored = baseline.read_baseline(folder / "side.json")
    pairs = ((other or mine, mine), (mine, other or stored), (mine, stored))
    for at, (one, two) in enumerate(pairs):
        found = compare(one, two)
        report = build_report(found, evaluate_gate(found, 0.05))
        if at == turn % 3:
            show(report, folder / "compare", turn // 3)


def _redacted(path: Path, folder: Path, turn: int) -> None:
    with api.open(path, redact=True) as profile:
        check(profile.report())
        show(profile.report(), folder / "redacted", turn // 4)
        _traced(profile, folder, turn)
        _compared(profile, None, folder, turn)


def _traced(profile: api.Profile, folder: Path, turn: int) -> None:
    part: tuple[str | None, str | None] = ((None, None), ("10us:5ms", None), (None, "1:2"))[turn // 4 % 3]
    for form in ExportFormat:
        with open(folder / "trace", "wb") as file, contextlib.suppress(OutpaceError):
            write_trace(profile.run, file.fileno(), form, parse_selection(*part, None))
        if form is ExportFormat.JSON and (folder / "trace").stat().st_size:
            json.loads((folder / "trace").read_bytes(), parse_constant=_constant)


def _window(path: Path) -> None:
    with api.open(path, window="100us:20ms") as profile:
        check(profile.report())
