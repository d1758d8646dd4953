# SPDX-License-Identifier: Apache-2.0
"""Functions that make names from a profile harmless and short.

Profiles hold whatever a program put there: terminal escapes, bidirectional overrides that reorder a
line, a megabyte of one name, bytes that were never valid UTF-8. Every string that a renderer shows
goes through `clean`; HTML is escaped on top of that by its template.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outpace._lazy import compile_lazily
from outpace.model.units import Unit, humanize

ELLIPSIS = "…"
MOST_NAMES = 3
"""Maximum number of names in a sentence."""
MAX_TEXT_LENGTH = 2000
"""Maximum length of a name that is shown, also on hover, in characters; JSON and CSV keep every
name whole.
"""

_PLAIN = compile_lazily(r"[ -~]*")
_PARTS = compile_lazily(r"[^/:,<( ]*[/:,<( ]+|[^/:,<( ]+")  # parts of a name: scopes, namespaces, arguments
_PINCHED = compile_lazily(r"([^0-9/:,<( …]{4})[^0-9/:,<( …]{2,}([/:,<( ]+)")  # a part whose word is long and has no number
# Unicode categories that are spelled out: control, format (bidi overrides, zero width), surrogate,
# private use, line and paragraph separators
_HOSTILE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_SENTENCE_END = compile_lazily(r"(?<=[.!?])\s+(?=[A-Z'\"])")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(name: object, limit: int = MAX_TEXT_LENGTH) -> str:
    """Return `name` on one line, at most `limit` characters before control and invisible characters
    are spelled out (`\\x1b`).
    """
    text = shorten(str(name), limit)
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_spell_out(c) for c in text)


def clean_prose(body: str) -> str:
    """Return a paragraph with its line breaks, and everything else as in `clean`."""
    return "\n".join(clean(line, 20_000) for line in body.split("\n"))


def shorten(name: str, width: int) -> str:
    """Return `name` cut in the middle to `width` characters, so that both the scope and the op at
    the end stay readable.
    """
    if len(name) <= width:
        return name
    if width < 3:
        return name[: max(width, 0)]
    head = (width - 1) // 2
    return name[:head].rstrip(ELLIPSIS) + ELLIPSIS + name[len(name) - (width - 1 - head) :].lstrip(ELLIPSIS)


_MOST = 0.5  # share of the whole above which a part is called "most"


def is_majority(part: float, whole: float) -> bool:
    """Whether `part` is more than half of `whole`. Words such as "most" or "mostly" are used only
    where this is true.
    """
    return part > _MOST * whole


def format_largest_part(place: str, part: float, whole: float, *, total_name: str = "it") -> str:
    """Return where the largest part of a total lies, in words: "most of it in conv2d" where the
    part is more than half of the whole, else "the largest part of it in conv2d".
    """
    return f"{'most' if is_majority(part, whole) else 'the largest part'} of {total_name} {place}"


def first_sentence(prose: str) -> str:
    """Return the first sentence of a paragraph, with its full stop; a dot inside a name such as
    `tf.data` or `train.py` ends no sentence.
    """
    return _SENTENCE_END.split(prose, maxsplit=1)[0]


def short_form(action: str) -> str:
    """Return the beginning of an action that stands by itself: up to its first comma, colon,
    semicolon, full stop or bracket, outside of brackets that belong to a name.

    >>> short_form("Convert and copy once (at train.py:7), before the loop, what stays the same.")
    'Convert and copy once'
    """
    depth = 0
    for at, character in enumerate(action):
        if depth == 0 and (action.startswith(" (", at) or (character in ",:;." and action[at + 1 : at + 2] in ("", " "))):
            return action[:at]
        depth += (character in "([") - (character in ")]")
    return action


def first_clause(prose: str) -> str:
    """Return the first sentence of a paragraph up to its first semicolon outside of brackets."""
    sentence, depth = first_sentence(prose), 0
    for at, character in enumerate(sentence):
        depth += (character in "([") - (character in ")]")
        if character == ";" and depth == 0:
            return sentence[:at] + "."
    return sentence


def elide(names: Sequence[str], width: int, *, cut: bool = True) -> list[str]:
    """Return the names of one column, shortened to `width` characters where they are longer. Cuts
    are made where names agree; names that differ still differ.

    Among names with the same first and last part, a part (`layer_3/`) that always follows the same
    beginning is no information and is left out. In names that are still too long, words without a
    number are pinched to their first letters, the longest first; then the name is cut in the middle
    if `cut` is true. Both are undone where names would become equal. `Units.elide` of the HTML
    report's script gives equal results.
    """
    if all(len(name) <= width for name in names):
        return list(names)
    parts = {name: _PARTS.findall(name) or [name] for name in dict.fromkeys(names)}
    follows: dict[tuple[str, str, str], set[str]] = {}
    for name_parts in parts.values():
        for key, part in zip(_beginnings(name_parts), (*name_parts, ""), strict=True):
            follows.setdefault(key, set()).add(part)
    whole = {name: name for name in parts}
    elided = _keep_unique(
        {
            name: name if len(name) <= width else _leave_out_parts(name_parts, follows, width)
            for name, name_parts in parts.items()
        },
        whole,
    )
    if not cut:
        return [elided[name] for name in names]
    pinched = _keep_unique({name: _pinch_words(text, width) for name, text in elided.items()}, elided)
    short = _keep_unique({name: shorten(text, width) for name, text in pinched.items()}, pinched)
    return [short[name] for name in names]


def _pinch_words(text: str, width: int) -> str:
    """Return a name with long words shortened to their first four letters, longest first, until it
    fits. The last word and words with a number stay.
    """
    parts = _PARTS.findall(text)
    spare = [i for i, part in enumerate(parts[:-1]) if _PINCHED.fullmatch(part)]
    for i in sorted(spare, key=lambda i: (-len(parts[i]), i)):
        if len("".join(parts)) <= width:
            break
        parts[i] = _PINCHED.sub(r"\1" + ELLIPSIS + r"\2", parts[i])
    return "".join(parts)


def _keep_unique(shorter: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the shorter text of each name where it is unique, else the text from before."""
    met = Counter(shorter.values()) + Counter(text for name, text in before.items() if text != shorter[name])
    return {name: text if met[text] == 1 else before[name] for name, text in shorter.items()}


def _beginnings(parts: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (first part, last part, text before) for each part of a name and for its end. It is the
    key under which names with the same first and last part are compared.
    """
    before = ""
    for part in (*parts, ""):
        yield parts[0], parts[-1], before
        before += part


def _leave_out_parts(parts: Sequence[str], follows: Mapping[tuple[str, str, str], set[str]], width: int) -> str:
    """Return a name without the parts that are no information, removed in order until it fits. Its
    first and last part stay.
    """
    spare = [i for i, key in enumerate(_beginnings(parts)) if 0 < i < len(parts) - 1 and len(follows[key]) == 1]
    text = "".join(parts)
    for count in range(1, len(spare) + 1):
        text = _join_parts(parts, frozenset(spare[:count]))
        if len(text) <= width:
            break
    return text


def _join_parts(parts: Sequence[str], gone: frozenset[int]) -> str:
    """Return the joined parts without those in `gone`; one ellipsis stands for adjacent ones."""
    text, left_out = "", ""
    for i, part in enumerate(parts):
        if i in gone:
            left_out = part
            continue
        text += (ELLIPSIS + left_out[-1:] if left_out else "") + part
        left_out = ""
    return text


def format_suggestion(word: str, known: Iterable[str]) -> str:
    """Return a further sentence that asks whether a known word was meant; empty where none is
    similar.
    """
    import difflib  # imported here, because every report would pay for it at module level

    close = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def repair_unicode(text: str) -> str:
    """Return `text` as valid Unicode: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def format_cell(value: object, unit: Unit) -> str:
    """Return a cell's value as a person reads it, cleaned. NumPy scalars are converted to plain
    numbers.
    """
    plain = value.item() if hasattr(value, "item") else value
    return clean(humanize(plain, unit))


def _spell_out(character: str) -> str:
    if unicodedata.category(character) not in _HOSTILE:
        return character
    code = ord(character)
    short = _SHORT_ESCAPES.get(character)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def join_names(names: list[str]) -> str:
    """Return the first three names, and the number of further ones: `dense_1, dense_2, dense_3 and
    2 more`.
    """
    shown = names[:MOST_NAMES]
    shown += [f"{len(names) - len(shown)} more"] * (len(names) > len(shown))
    return " and ".join(text for text in (", ".join(shown[:-1]), shown[-1]) if text)
