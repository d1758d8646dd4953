# SPDX-License-Identifier: Apache-2.0
"""Redaction: stand-ins for the parts of a profile that reveal a program, machine or data: paths,
hosts, users, arguments.

A stand-in has as many bytes as the original text: a profile is redacted in place, and no offset in
it changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from outpace._lazy import compile_lazily
from outpace.model import protobuf_wire
from outpace.model.sensitive_patterns import FILE_EXTENSION, PATH_ONLY, SENSITIVE, is_host

# Beginning of a path up to Python's own folders; it belongs to the user and is redacted, while the
# rest of the path stays
_LIBRARY = compile_lazily(r".*[/\\](?=(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\](?!.*\.\.[/\\]))")
_HOME = compile_lazily(r"(?:^|[/\\])(?:home|[Uu]sers)[/\\]([^/\\]+)")
_LITERAL = compile_lazily(r"([\"'])((?:\\.|(?!\1).)+)(\1|$)|(#)(.+)")  # string literal or comment in a line of source
_SCHEME = compile_lazily(r"[A-Za-z][\w+.-]*:(?:\\?/){2,}")
_PLACES = compile_lazily(r"(?::\d+)+\Z")  # line number and column after a path
_PORT = compile_lazily(r":\d+\Z")
_UNTOLD = compile_lazily(r"\.\.?|~|[A-Za-z]:|\$\w+|\$\{\w+\}|%\w+%")  # parts of a path that are no names and reveal nothing
_NUMBER = compile_lazily(r"[-+.\de]+|True|False")
_READABLE = compile_lazily(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_DEEPEST = 40  # maximum depth of nested protobuf messages
_LONG = 12  # minimum length of a plain word, in letters, that cannot be the name of an op
_SHORTEST = 3  # minimum length of a name, in letters, that is searched for in all texts


class Redaction:
    """Mapping of sensitive names to stand-ins; equal names get equal stand-ins during the life of
    the object. Paths below Python's own folders and installed packages keep that part.

    >>> redaction = Redaction()
    >>> redaction.redact_word("alice") == redaction.redact_word("alice")
    True
    """

    def __init__(self) -> None:
        self._terms = {"localhost", "root"}
        self._stand_ins: dict[str, str] = {}
        self._used_stand_ins: set[str] = set()
        self._count: Counter[int] = Counter()
        self._names: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def redact_word(self, text: str) -> str:
        """Return the stand-in of a name or of an argument."""
        if not text or text in self._used_stand_ins:
            return text
        if text not in self._stand_ins:
            size = len(text.encode("utf-8", "replace"))
            self._count[size] += 1
            number = str(self._count[size]).zfill(size - 1)
            self._used_stand_ins.add(stand_in := f"x{number[len(number) - size + 1 :]}")
            self._stand_ins[text] = stand_in
        return self._stand_ins[text]

    def keep_words(self, words: Collection[str]) -> None:
        """Exempt words from redaction in all texts, also where a host or user has such a name: what
        a profile says depends on them.
        """
        self._terms |= {part for word in words for part in (word, *word.split("_"))}  # a name may be joined to others by `_`
        self._names -= self._terms
        self._pattern = None

    def redact_name(self, text: str) -> str:
        """Return the stand-in of a host, a user or a file; from now on the name is replaced in all
        texts.
        """
        forms = {text, re.sub(r"\W", "_", text)}  # labels of tf.data stages have the second form
        if len(text) >= _SHORTEST and text not in self._used_stand_ins and not forms <= self._names | self._terms:
            self._names |= forms - self._terms
            self._pattern = None
        return self._file(text)

    def redact_host(self, text: str) -> str:
        """Return the stand-in of a host; from now on it is replaced in all texts, also its first
        part alone, and its forms in small letters and in capitals.
        """
        first = text.partition(".")[0]
        for form in (text.lower(), text.upper(), *((first, first.lower()) if re.search("[A-Za-z]", first) else ())):
            if _is_specific(form):
                self.redact_name(form)
        return self.redact_name(text)

    def redact_path(self, text: str) -> str:
        """Return a path or an address with stand-ins for its folders and its file, whose ending
        stays.
        """
        library = _LIBRARY.match(text)
        private = library[0] if library else text
        for user in _HOME.findall(private):
            self.redact_name(user)
        head = _SCHEME.match(private)
        mark = head[0] if head else ""
        parts = re.split(r"([/\\]+)", private[len(mark) :])
        if library is None and FILE_EXTENSION.search(parts[-1]):
            self.redact_name(parts[-1])
        if mark and _is_specific(host := re.sub(r".*@|:\d*$", "", parts[0])):
            self.redact_host(host)
        return mark + "".join(map(self._segment, parts)) + text[len(private) :]

    def redact_text(self, text: str) -> str:
        """Return a text with stand-ins for its sensitive parts and for all names learned before."""
        if PATH_ONLY.fullmatch(text):
            return self._redact_place(text)
        text = SENSITIVE.sub(self._redact_match, text)
        if not self._names:
            return text
        if self._pattern is None:
            longest = sorted(self._names, key=lambda name: (-len(name), name))
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")
        return self._pattern.sub(lambda match: self._file(match[0]), text)

    def redact_message(self, data: bytes) -> bytes:
        """Return a protobuf message, of any type, with stand-ins in its texts."""
        out = bytearray(data)
        self._patch(memoryview(out), _DEEPEST)
        return bytes(out)

    def redact_record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a capture record without the script's arguments and without the literals of its
        source.
        """
        for argument in map(str, record.get("argv", ())):
            value = argument.rpartition("=")[2]
            self.redact_text(value)
            if _is_specific(value) and not value.startswith("-"):
                self.redact_name(value)
        script = {"script": self.redact_path(str(record.get("script") or ""))}
        return {**self._plain(record), **script, "argv": tuple(map(self.redact_word, map(str, record.get("argv", ()))))}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(_LITERAL.sub(self._redact_literal, value))
        if isinstance(value, Mapping):
            return {self.redact_text(str(key)): self._plain(item) for key, item in value.items()}
        return type(value)(map(self._plain, value)) if isinstance(value, (list, tuple)) else value

    def _redact_literal(self, match: re.Match[str]) -> str:
        before, text, behind, comment, remark = match.groups("")
        return f"{before}{self.redact_word(text)}{behind}{comment}{self.redact_word(remark)}"

    def _redact_match(self, match: re.Match[str]) -> str:
        """Return the stand-in of a match of `SENSITIVE`."""
        part, kind = match[0], str(match.lastgroup)
        if kind == "value":
            name, _, value = part.partition("=")
            self.redact_text(value.strip("\"'"))  # learns names in the value, which may occur elsewhere too
            return part if _NUMBER.fullmatch(value) else f"{name}={self.redact_word(value)}"
        if kind == "login":
            user, _, host = part.rpartition("@")
            return f"{self.redact_name(user)}@{self.redact_host(host)}"
        if kind == "host":
            return self.redact_host(part) if is_host(part) else part
        return self._redact_place(part)

    def _redact_place(self, text: str) -> str:
        """Return a redacted path, followed by its line number and column, which stay."""
        place = _PLACES.sub("", text)
        return self.redact_path(place) + text[len(place) :]

    def _segment(self, part: str) -> str:
        if not part.strip("/\\") or _UNTOLD.fullmatch(part):
            return part
        if part.startswith("~"):
            return "~" + self.redact_name(part[1:])
        name = _PORT.sub("", part)
        return self._file(name) + part[len(name) :]

    def _file(self, name: str) -> str:
        """Return the stand-in of a name; the ending of a file is not replaced."""
        if name in self._used_stand_ins or (ending := FILE_EXTENSION.search(name)) is None:
            return self.redact_word(name)
        return self.redact_word(name[: ending.start()]) + ending[0]

    def _patch(self, part: memoryview, depth: int) -> None:
        try:
            for _, value in protobuf_wire.iter_fields(part):
                if isinstance(value, memoryview) and len(value) >= _SHORTEST and depth:
                    self._patch(value, depth - 1)
        except ValueError:  # no message, or a damaged one: its fields up to here are redacted
            pass
        if _READABLE.fullmatch(content := part.tobytes()) and self._is_text(content):
            part[:] = self.redact_bytes(content)

    def _is_text(self, content: bytes) -> bool:
        """Whether a readable part of a message is a text, not a short list of numbers that looks
        like one.
        """
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return False
        return len(content) >= _LONG or PATH_ONLY.fullmatch(text) is not None or text in self._names

    def redact_bytes(self, content: bytes) -> bytes:
        """Return the bytes of a text with stand-ins; bytes that are no UTF-8 stay."""
        return self.redact_text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _is_specific(text: str) -> bool:
    """Whether a word is specific enough to be searched for in all texts: `train` occurs in names of
    ops, `moonshot-v3` does not.
    """
    return len(text) >= _SHORTEST and (not re.fullmatch(r"\w+", text) or len(text) >= _LONG)
