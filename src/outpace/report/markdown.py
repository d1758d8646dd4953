# SPDX-License-Identifier: Apache-2.0
"""The first screen as Markdown, to paste into an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.model import Finding, Report
from outpace.model.text import clean, clean_prose, format_cell
from outpace.report import chart_data
from outpace.report.first_screen import build_first_screen, format_saving

_SPECIAL = str.maketrans({character: f"\\{character}" for character in r"\`*_[]<>|#~"})
_MOST = 3


def render(report: Report) -> str:
    """Return the first screen as Markdown: headline, figures, the steady step as a table, what to
    change, and how far to trust it.
    """
    screen = build_first_screen(report)
    blocks = [*(f"> **Warning:** {_plain(w)}" for w in screen.warnings), f"**{_plain(screen.headline)}**"]
    if screen.figures:
        blocks.append(" · ".join(f"{_plain(f.label)} **{_plain(format_cell(f.value, f.unit))}**" for f in screen.figures))
    if screen.glance:
        parts = sorted((p for p in chart_data.compute_parts(screen.glance) if p.value > 0), key=lambda p: -p.value)
        rows = [f"| {_plain(p.name)} | {_plain(p.label)} | {p.share:.1%} |" for p in parts]
        blocks.append("\n".join((f"| {_plain(screen.glance.title)} | time | share |", "|---|--:|--:|", *rows)))
    if screen.changes:
        changes = (line for number, finding in enumerate(screen.changes[:_MOST], 1) for line in _change(number, finding))
        blocks.append("\n".join(changes))
    if screen.evidence:
        blocks.append("\n".join(("Confidence:", *(f"- {_plain(line)}" for line in screen.evidence))))
    blocks.append(f"Profile: {_code(screen.source)}" + "".join(f" · next: {_code(clean(c.line))}" for c in screen.next))
    return "\n\n".join(blocks) + "\n"


def _change(number: int, finding: Finding) -> Iterator[str]:
    where = f" ({_code(clean(finding.location))})" if finding.location else ""
    short = clean_prose(finding.short)
    yield f"{number}. **{_plain(short)}**{_plain(clean_prose(finding.action).removeprefix(short))}{where}"
    saving = format_saving(finding)
    if saving:
        yield f"   Saves {_plain(saving)}."
    yield f"   {_plain(clean_prose(finding.sentence))}"


def _plain(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return text.replace("\n", " ").translate(_SPECIAL)


def _code(text: str) -> str:
    """Return text as code, with more backticks around it than it contains."""
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if "`" not in text else f"{fence} {text} {fence}"
