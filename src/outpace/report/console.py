"""A console that prints whatever stands in a profile to whatever stands behind standard output."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from outpace.model.text import clean_prose

_SPELLED = {
    ord(character): like
    for characters, like in (
        ("─", "-"), ("│└", "|"), ("▏▎▍▌▋▊▉█▆▇", "#"), ("▓▄▅", "%"), ("▒", "="), ("░▁▂▃", "."), ("…", "~"), ("·", "-"), ("–−", "-"), ("→", ">"),
        ("◀", "<"), ("●•", "*"), ("▲", "^"), ("✓", "+"), ("✗×", "x"), ("µ", "u"), ("“”", '"'), ("’", "'"),
    )
    for character in characters
}  # fmt: skip
"""Characters that Outpace prints, by the one of ASCII that is most like them: as wide as they are,
so that columns stay.
"""


class PlainConsole(Console):
    """Rich's console, but control characters are spelled out, and what the output's encoding lacks
    is written in what it has.

    No text is markup to it: what it prints may come from anywhere.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, legacy_windows=False, **options)

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """The segments of a renderable."""
        for segment in super().render(*args, **kwargs):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                text = segment.text if segment.text.isprintable() else clean_prose(segment.text)
                yield Segment(transliterate(text, self.encoding), segment.style)

    def on_broken_pipe(self) -> None:
        """Leave the error, which Rich has caught, to whoever prints: Rich would end the process."""
        raise


def transliterate(text: str, encoding: str | None) -> str:
    """The text in the characters that an encoding has: lines and arrows by their likes in ASCII,
    anything else as a question mark.
    """
    if text.isascii():
        return text
    encoding = encoding or "utf-8"
    try:
        if codecs.lookup(encoding).name.startswith("utf"):
            return text
        return text.translate(_SPELLED).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text
