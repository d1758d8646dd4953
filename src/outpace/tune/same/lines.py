# SPDX-License-Identifier: Apache-2.0
"""Lines of text that a run has printed or written: their words, their numbers, and what of them is
a matter of the time at which they came.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Sequence

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PROGRESS = re.compile(r"\x08|━|[mµn]?s/(?:step|epoch|it)\b|\bit/s\b|\d+%\|")
_PACE = re.compile(r"\x08+|(?:\d+:)?\d+:\d+|[\d.?]+\s*(?:[mµun]?s|min|h)\b(?:/\w+)?|[\d.?]+\s*\w+/s\b|[━=>.╺╸ ]{2,}")
_WHEN = re.compile(
    r"(\d{4}-\d\d-\d\d)[T @_]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?|([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d) \d\d:\d\d:\d\d"
)
_LOGGED = re.compile(r"^[IWEF]\d{4} [\d:.]+\s+\d+ \S+\.py:\d+\] ")
_OF_LIBRARY = re.compile(r"\w\.(?:cc|h|cpp):\d+\]|before absl::InitializeLog")
_DAY = 86_400.0  # seconds
BACK = "\r"


def shown_lines(printed: Sequence[str], own: Collection[str] = (), drawn: Collection[str] = ()) -> list[str]:
    """Return what was printed; of a progress bar the last that it showed, without times: in how
    many steps it comes there is a matter of pace. A bar goes back in its line, or is of `drawn`,
    the lines that Keras wrote. own: lines of the script's own code, which are no library's bar.
    """
    printed = [line for line in printed if line.strip()]
    bar = [bool(_PROGRESS.search(line)) and line.lstrip(BACK) not in own and _is_bar(line, drawn) for line in printed]
    printed = [line.lstrip(BACK) for line in printed]
    ends = zip(timeless(printed), bar, [*bar[1:], False], strict=False)
    return [
        " ".join(_PACE.sub(" ", line).split()) if is_bar else line for line, is_bar, next_is in ends if not (is_bar and next_is)
    ]


def lines_drawn(text: str) -> list[str]:
    """Return the lines of an output; what went back in its line is a line that begins with BACK."""
    lines = text.replace("\r\n", "\n").replace(BACK, f"\n{BACK}").split("\n")
    return lines if lines[-1] else lines[:-1]


def _is_bar(line: str, drawn: Collection[str]) -> bool:
    """Whether a line with marks of progress is a bar's."""
    return BACK in line or "\x08" in line or line in drawn


def error_lines(text: str) -> tuple[str, ...]:
    """Return the lines on stderr of Python code: those that logs of C++ libraries begin are left
    out, and of a log of Python the place and the time.
    """
    lines = lines_drawn(text)
    return tuple(_LOGGED.sub("", line) for line in lines if not _OF_LIBRARY.search(line))


def timeless(lines: Iterable[str]) -> list[str]:
    """Return lines without the time at which they were written, which runs that begin together may
    share in part. Other days' are data.
    """
    now = time.time()
    days = {
        time.strftime(form, of(now - ago))
        for form in ("%Y-%m-%d", "%a %b %e")
        for of in (time.localtime, time.gmtime)
        for ago in (0.0, _DAY)
    }
    return [_WHEN.sub(lambda found: "when" if found[1] in days or found[2] in days else found[0], line) for line in lines]


def words_of(line: str) -> str:
    """Return a line without its numbers, and without the blanks beside them, which fill up
    columns.
    """
    return masked(line).replace(" #", "#").replace("# ", "#")


def masked(line: str) -> str:
    """Return a line with a sign for each of its numbers, and one blank between its words."""
    return _NUMBER.sub("#", " ".join(line.split()))


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text, as they stand there."""
    return _NUMBER.findall(text)


def last_digit(number: str) -> float:
    """Return what the last digit of a printed number stands for; nothing of a whole one."""
    mantissa, _, power = number.lower().partition("e")
    _, point, digits = mantissa.partition(".")
    return 10.0 ** (int(power or 0) - len(digits)) if point else 0.0
