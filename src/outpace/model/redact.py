"""Stand-ins for what tells whose program, machine and data a profile is of: paths, hosts, users, arguments.

A stand-in is as long as what it stands for, in bytes: a profile is redacted where it lies, and no offset in it changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from outpace.model import wire

_SEGMENT = r"[^\s\"'`<>|,;:()\[\]{}/\\]+"
_PATH = re.compile(
    rf"(?<![\w/\\.)\]>-])(?:[A-Za-z][\w+.-]*://{_SEGMENT}(?:/{_SEGMENT})*/?"  # an address
    rf"|(?:~|[A-Za-z]:|\\)?(?:[/\\]{_SEGMENT}){{2,}}[/\\]?|~[/\\]{_SEGMENT}"  # from a root: /device:GPU:0 has one segment
    rf"|(?:{_SEGMENT}/)+{_SEGMENT}\.pyw?\b)"  # from a folder, of a program
)
_WHOLE = re.compile(r"(?:~?/|[A-Za-z]:[/\\])[^\n\"':]*\.\w+(?::\d+)*|[^\n\"':]*\.(?:pyw?|ipynb)")  # may hold blanks
_KEPT = re.compile(
    r".*[/\\](?=(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\])"
)  # what stands before it is the user's
_HOME = re.compile(r"(?:^|[/\\])(?:home|[Uu]sers)[/\\]([^/\\]+)")
_ENDING = re.compile(r"(?<=.)\.[A-Za-z]\w{0,7}$")
_LITERAL = re.compile(r"([\"'])(.+?)\1")
_READABLE = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_DEEPEST = 40  # messages inside messages
_SHORTEST = 3  # letters of a name that is looked for in all texts


class Redaction:
    """Stand-ins, the same for the same name for as long as this lives. Of paths, what lies in Python's own folders and in installed packages
    keeps its place in them. `terms`: words that are no names of hosts, users or files, wherever they stand."""

    def __init__(self, terms: Collection[str] = ()) -> None:
        self._terms = {*terms, "localhost", "root"}
        self._stand_ins: dict[str, str] = {}
        self._made: set[str] = set()
        self._count: Counter[int] = Counter()
        self._names: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def word(self, text: str) -> str:
        """The stand-in of a name, or of an argument."""
        if not text or text in self._made:
            return text
        if text not in self._stand_ins:
            size = len(text.encode("utf-8", "replace"))
            self._count[size] += 1
            number = str(self._count[size]).zfill(size - 1)
            self._made.add(made := f"x{number[len(number) - size + 1 :]}")
            self._stand_ins[text] = made
        return self._stand_ins[text]

    def name(self, text: str) -> str:
        """The stand-in of a host, a user or a file, which from now on stands for it in all texts."""
        forms = {text, re.sub(r"\W", "_", text)}  # labels of tf.data stages hold the second one
        if len(text) >= _SHORTEST and text not in self._made and not forms <= self._names | self._terms:
            self._names |= forms
            self._pattern = None
        return self._file(text)

    def path(self, text: str) -> str:
        """A path or an address with stand-ins for its folders and its file, whose ending stays."""
        kept = _KEPT.match(text)
        own = kept[0] if kept else text
        for user in _HOME.findall(own):
            self.name(user)
        scheme, mark, rest = own.rpartition("://")
        parts = re.split(r"([/\\])", rest)
        if kept is None and _ENDING.search(parts[-1]):
            self.name(parts[-1])
        return scheme + mark + "".join(map(self._segment, parts)) + text[len(own) :]

    def text(self, text: str) -> str:
        """A text with stand-ins for the paths in it, and for all names that were met before."""
        if _WHOLE.fullmatch(text):
            place, line = re.fullmatch(r"(.*?)((?::\d+)*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
            return self.path(place) + line
        if "/" in text or "\\" in text:
            text = _PATH.sub(lambda found: self.path(found[0]), text)
        if not self._names:
            return text
        if self._pattern is None:
            longest = sorted(self._names, key=lambda name: (-len(name), name))
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")
        return self._pattern.sub(lambda found: self._file(found[0]), text)

    def blob(self, data: bytes) -> bytes:
        """A message of protobuf, of whatever type, with stand-ins in its texts."""
        out = bytearray(data)
        self._patch(memoryview(out), _DEEPEST)
        return bytes(out)

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What a capture noted: no argument of the script, and no literal of its source, is left."""
        script = {"script": self.path(str(record.get("script") or ""))}
        return {**self._plain(record), **script, "argv": tuple(map(self.word, map(str, record.get("argv", ()))))}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(_LITERAL.sub(lambda found: f"{found[1]}{self.word(found[2])}{found[1]}", value))
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._plain(each) for key, each in value.items()}
        return type(value)(map(self._plain, value)) if isinstance(value, (list, tuple)) else value

    def _segment(self, part: str) -> str:
        return part if part in ("/", "\\", "", ".", "..", "~") or re.fullmatch(r"[A-Za-z]:", part) else self._file(part)

    def _file(self, name: str) -> str:
        """The stand-in of a name; the ending of a file, which tells its kind, stays."""
        if name in self._made or (ending := _ENDING.search(name)) is None:
            return self.word(name)
        return self.word(name[: ending.start()]) + ending[0]

    def _patch(self, part: memoryview, depth: int) -> None:
        try:
            for _, value in wire.fields(part):
                if isinstance(value, memoryview) and len(value) >= _SHORTEST and depth:
                    self._patch(value, depth - 1)
        except ValueError:  # no message, or one that is damaged: what stands before is done
            pass
        if _READABLE.fullmatch(content := part.tobytes()):
            part[:] = self.encoded(content)

    def encoded(self, content: bytes) -> bytes:
        """The bytes of a text with stand-ins; what is no UTF-8 stays."""
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
