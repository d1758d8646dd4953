# SPDX-License-Identifier: Apache-2.0
"""First screen as lines of text: at most 25 lines on 80 columns, in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.model import Chart, Command, Finding
from outpace.model.text import clean, clean_prose, first_clause, first_sentence, format_cell
from outpace.report.first_screen import FirstScreen, format_saving
from outpace.report.terminal_bar import bar_and_legend

HEIGHT = 25
"""Maximum lines of the screen, where its sentences allow it."""

LABEL_WIDTH = 12
"""Width of the labels "Confidence" and "Next", cells."""
_SEPARATOR = "  ·  "
_INDENT = "   "  # below the number of a change
_GAP = 2  # minimum number of cells between an action and what it saves
_ROOMS = ((3, 3, 3), (3, 2, 2), (3, 1, 1), (2, 1, 1), (1, 1, 1))
"""Numbers of changes, warnings and lines of evidence to show, most first; the first combination
that fits is used.
"""


def render_screen(screen: FirstScreen, console: Console, width: int) -> list[Text]:
    """Return the screen in lines of at most `width` cells, except commands, with as much content as
    fits into `HEIGHT` lines of a terminal.
    """
    lines, layout = list[Text](), _Layout(screen, console, width)
    for room in _ROOMS:
        lines = list(layout.lines(*room))
        if sum(max(1, -(-line.cell_len // width)) for line in lines) <= HEIGHT:
            break
    return lines


@dataclass(frozen=True)
class _Layout:
    """Layout of a screen in lines of a width: what does not depend on the room is laid out once."""

    screen: FirstScreen
    console: Console
    width: int

    def lines(self, changes: int, warnings: int, evidence: int) -> Iterator[Text]:
        """Yield the lines of the screen with at most these numbers of changes, of warnings and of
        lines of evidence.
        """
        yield from self._warnings(warnings)
        yield from self._head
        yield Text()
        for lines in self._changes[:changes]:
            yield from lines
        if left := max(len(self._changes) - changes, 0):
            yield Text(f"and {left} more: --details", "dim")
        if not self._changes:
            yield Text("Nothing was found that is worth a change.", "bold")
        yield Text()
        yield from self._label_texts("Confidence", self.screen.evidence[:evidence], len(self.screen.evidence))
        yield from self._commands

    @once
    def _head(self) -> list[Text]:
        return list(self._iter_head())

    @once
    def _changes(self) -> list[list[Text]]:
        return [list(self._change(number, finding)) for number, finding in enumerate(self.screen.changes, 1)]

    @once
    def _commands(self) -> list[Text]:
        return list(render_commands(self.screen.next, self.width))

    def _iter_head(self) -> Iterator[Text]:
        """Yield the headline, the source, the figures and the picture."""
        yield from self._wrap_text(Text(self.screen.headline, "bold"))
        yield from self._wrap_text(Text(self.screen.source, "dim"))
        figures = [f"{clean(f.label)} {format_cell(f.value, f.unit)}" for f in self.screen.figures]
        yield from self._flow([Text(text) for text in figures], separator=" · ")
        if self.screen.glance:
            yield Text()
            yield from self._bar(self.screen.glance)

    def _warnings(self, count: int) -> Iterator[Text]:
        for warning in self.screen.warnings[:count]:
            shortest = count == 1
            yield from self._wrap_text(Text(first_clause(warning) if shortest else warning, "yellow"), "! ")
        left = len(self.screen.warnings) - count
        if left > 0:
            yield Text(f"! and {left} more (--details)", "yellow")

    def _bar(self, chart: Chart) -> Iterator[Text]:
        bar, legend = bar_and_legend(chart, self.width, self.console.color_system is not None)
        yield bar
        yield from self._flow(legend)

    def _change(self, number: int, finding: Finding) -> Iterator[Text]:
        """Yield what to do and where, what it saves at the right, and why."""
        action = Text(first_sentence(clean_prose(finding.action)))
        action.stylize("bold", 0, len(clean_prose(finding.short)))
        if finding.location:
            action = action + Text("  ") + Text(clean(finding.location), "cyan")
        yield from self._align(list(self._wrap_text(action, f"{number}. ")), format_saving(finding, self.screen.step_ps))
        sentence, host = clean_prose(finding.sentence), self.screen.host(finding)
        if sentence not in self.screen.headline:
            yield from self._wrap_text(Text(first_clause(sentence) + (f" [{host}]" if host else "")), _INDENT)

    def _align(self, lines: Sequence[Text], saving: str) -> Iterator[Text]:
        """Yield the lines of an action, with its saving at the right of the last one or below."""
        gain = Text(f"saves {saving}", "green")
        room = self.width - lines[-1].cell_len - gain.cell_len
        if saving and room >= _GAP:
            lines = [*lines[:-1], lines[-1] + Text(" " * room) + gain]
        yield from lines
        if saving and room < _GAP:
            yield from self._wrap_text(gain, " " * max(self.width - gain.cell_len, len(_INDENT)))

    def _label_texts(self, label: str, texts: Sequence[str], count: int) -> Iterator[Text]:
        for number, text in enumerate(texts):
            more = f" (and {count - len(texts)} more: --details)" if number == len(texts) - 1 and count > len(texts) else ""
            yield from self._wrap_text(Text(text + more), ("" if number else label).ljust(LABEL_WIDTH))

    def _flow(self, items: Sequence[Text], width: int | None = None, separator: str = _SEPARATOR) -> Iterator[Text]:
        """Return items in sequence, as many on each line as fit."""
        width, line = width or self.width, Text()
        for item in items:
            if line and line.cell_len + len(separator) + item.cell_len > width:
                yield from self._wrap_text(line, width=width)
                line = Text()
            line = line + Text(separator, "dim") + item if line else item
        if line:
            yield from self._wrap_text(line, width=width)

    def _wrap_text(self, text: Text, label: str = "", width: int | None = None) -> Iterator[Text]:
        """Return `text` in lines, all of them to the right of a label."""
        for number, line in enumerate(text.wrap(self.console, (width or self.width) - len(label), overflow="fold")):
            line.rstrip()
            yield Text(" " * len(label) if number else label) + line


def render_commands(commands: Sequence[Command], width: int) -> Iterator[Text]:
    """Return next commands, each on one line even where it is wider than the terminal, because a
    command that is broken cannot be copied.
    """
    longest = max((len(clean(c.line)) for c in commands), default=0)
    for number, command in enumerate(commands):
        line = Text(("" if number else "Next").ljust(LABEL_WIDTH)).append(clean(command.line), "bold")
        if LABEL_WIDTH + longest + len(command.what) + 3 <= width:
            line.append(" " * (longest + 3 - len(clean(command.line))) + clean_prose(command.what), "dim")
        yield line
