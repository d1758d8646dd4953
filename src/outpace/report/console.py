# SPDX-License-Identifier: Apache-2.0
"""Console that prints any text of a profile safely to any standard output."""

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
"""ASCII replacements of the other characters that Outpace prints, of equal width so that columns
remain aligned.
"""


class PlainConsole(Console):
    """Rich's console with control characters escaped, and with characters that the output's
    encoding lacks replaced.

    No text is interpreted as markup, because it may come from any profile.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, legacy_windows=False, **options)

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """Return the segments of a renderable, cleaned and transliterated."""
        for segment in super().render(*args, **kwargs):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                text = segment.text if segment.text.isprintable() else clean_prose(segment.text)
                yield Segment(transliterate(text, self.encoding), segment.style)

    def on_broken_pipe(self) -> None:
        """Re-raise the error, which Rich has caught, for the caller: Rich would end the process."""
        raise


def transliterate(text: str, encoding: str | None) -> str:
    """Return the text in the characters of an encoding: box characters and arrows as similar ASCII
    characters, any other missing character as a question mark.
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
