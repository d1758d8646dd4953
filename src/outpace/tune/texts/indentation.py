# SPDX-License-Identifier: Apache-2.0
"""Indentation of Python source. The lines of a string that goes over several ones are part of its
value: they stay as they are.
"""

from __future__ import annotations

import io
import token
import tokenize

_OPENING = {getattr(token, f"{kind}_START") for kind in ("FSTRING", "TSTRING") if hasattr(token, f"{kind}_START")}
_CLOSING = {getattr(token, f"{kind}_END") for kind in ("FSTRING", "TSTRING") if hasattr(token, f"{kind}_END")}


def indent_code(text: str, margin: str) -> str:
    """Return source with `margin` before each line that is neither empty nor part of a string.

    >>> indent_code("x = 1", "    ")
    '    x = 1'
    """
    held = _lines_in_strings(text)
    return "".join(line if at in held or not line.strip() else margin + line for at, line in enumerate(_lines(text), 1))


def dedent_code(text: str) -> str:
    r"""Return source without the indentation that its lines have in common; those of strings, and
    comments further left, do not count.

    >>> dedent_code("    x = '''\n'''\n")
    "x = '''\n'''\n"
    """
    held, lines = _lines_in_strings(text), _lines(text)
    blanks = [len(line) - len(line.lstrip(" \t")) for line in lines]
    is_code = [at not in held and bool(line.strip()) and line.lstrip()[0] != "#" for at, line in enumerate(lines, 1)]
    margin = min((blank for blank, counts in zip(blanks, is_code, strict=True) if counts), default=0)
    return "".join(
        line if at in held else line[min(margin, blank) :]
        for at, (line, blank) in enumerate(zip(lines, blanks, strict=True), 1)
    )


def _lines(text: str) -> list[str]:
    """Return the lines as Python counts them, which end with a newline alone."""
    return io.StringIO(text).readlines()


def _lines_in_strings(text: str) -> set[int]:
    """Return the numbers of the lines that begin inside of a string."""
    found, open_at = set[int](), list[int]()
    try:
        # in brackets, where indentation means nothing
        for each in tokenize.generate_tokens(io.StringIO(f"({text}").readline):
            if each.type in _OPENING:
                open_at.append(each.start[0])
            begin = open_at.pop() if each.type in _CLOSING else each.start[0]
            if each.type == token.STRING or each.type in _CLOSING:
                found.update(range(begin + 1, each.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):  # a part of a statement: what was read of it counts
        pass
    return found
