"""Stand-ins for what tells whose program, machine and data a profile is of: paths, hosts, users,
arguments.

A stand-in is as long as what it stands for, in bytes: a profile is redacted where it lies, and no
offset in it changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from outpace.model import protobuf_wire
from outpace.model.sensitive_patterns import FILE_EXTENSION, PATH_ONLY, SENSITIVE, is_host

_KEPT = re.compile(
    r".*[/\\](?=(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\](?!.*\.\.[/\\]))"
)  # what stands before it is the user's
_HOME = re.compile(r"(?:^|[/\\])(?:home|[Uu]sers)[/\\]([^/\\]+)")
_LITERAL = re.compile(r"([\"'])((?:\\.|(?!\1).)+)(\1|$)|(#)(.+)")  # of a line of source, and its comment
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:(?:\\?/){2,}")
_PLACES = re.compile(r"(?::\d+)+\Z")  # a line and a column
_PORT = re.compile(r":\d+\Z")
_UNTOLD = re.compile(r"\.\.?|~|[A-Za-z]:|\$\w+|\$\{\w+\}|%\w+%")  # parts of a path that are no names
_NUMBER = re.compile(r"[-+.\de]+|True|False")
_READABLE = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_DEEPEST = 40  # messages inside messages
_LONG = 12  # letters of a word that is no name of an op
_SHORTEST = 3  # letters of a name that is looked for in all texts


class Redaction:
    """Stand-ins, the same for the same name for as long as this lives. Of paths, what lies in
    Python's own folders and in installed packages keeps its place in them.
    """

    def __init__(self) -> None:
        self._terms = {"localhost", "root"}
        self._stand_ins: dict[str, str] = {}
        self._made: set[str] = set()
        self._count: Counter[int] = Counter()
        self._names: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def redact_word(self, text: str) -> str:
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

    def keep_words(self, words: Collection[str]) -> None:
        """Let words stand in all texts, whoever is called so: what a profile says is
        told by them.
        """
        self._terms |= {part for word in words for part in (word, *word.split("_"))}  # a name may stand beside a `_`
        self._names -= self._terms
        self._pattern = None

    def redact_name(self, text: str) -> str:
        """The stand-in of a host, a user or a file, which from now on stands for it in
        all texts.
        """
        forms = {text, re.sub(r"\W", "_", text)}  # labels of tf.data stages hold the second one
        if len(text) >= _SHORTEST and text not in self._made and not forms <= self._names | self._terms:
            self._names |= forms - self._terms
            self._pattern = None
        return self._file(text)

    def redact_host(self, text: str) -> str:
        """The same for a host, which texts may name by its first part alone, and in small letters
        or capitals.
        """
        first = text.partition(".")[0]
        for form in (text.lower(), text.upper(), *((first, first.lower()) if re.search("[A-Za-z]", first) else ())):
            if _telling(form):
                self.redact_name(form)
        return self.redact_name(text)

    def redact_path(self, text: str) -> str:
        """A path or an address with stand-ins for its folders and its file, whose ending stays."""
        kept = _KEPT.match(text)
        own = kept[0] if kept else text
        for user in _HOME.findall(own):
            self.redact_name(user)
        head = _SCHEME.match(own)
        mark = head[0] if head else ""
        parts = re.split(r"([/\\]+)", own[len(mark) :])
        if kept is None and FILE_EXTENSION.search(parts[-1]):
            self.redact_name(parts[-1])
        if mark and _telling(host := re.sub(r".*@|:\d*$", "", parts[0])):
            self.redact_host(host)
        return mark + "".join(map(self._segment, parts)) + text[len(own) :]

    def redact_text(self, text: str) -> str:
        """A text with stand-ins for what tells in it, and for all names that were met before."""
        if PATH_ONLY.fullmatch(text):
            return self._placed(text)
        text = SENSITIVE.sub(self._found, text)
        if not self._names:
            return text
        if self._pattern is None:
            longest = sorted(self._names, key=lambda name: (-len(name), name))
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")
        return self._pattern.sub(lambda found: self._file(found[0]), text)

    def redact_message(self, data: bytes) -> bytes:
        """A message of protobuf, of whatever type, with stand-ins in its texts."""
        out = bytearray(data)
        self._patch(memoryview(out), _DEEPEST)
        return bytes(out)

    def redact_record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What a capture noted: no argument of the script, and no literal of its
        source, is left.
        """
        for argument in map(str, record.get("argv", ())):
            value = argument.rpartition("=")[2]
            self.redact_text(value)
            if _telling(value) and not value.startswith("-"):
                self.redact_name(value)
        script = {"script": self.redact_path(str(record.get("script") or ""))}
        return {**self._plain(record), **script, "argv": tuple(map(self.redact_word, map(str, record.get("argv", ()))))}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(_LITERAL.sub(self._literal, value))
        if isinstance(value, Mapping):
            return {self.redact_text(str(key)): self._plain(each) for key, each in value.items()}
        return type(value)(map(self._plain, value)) if isinstance(value, (list, tuple)) else value

    def _literal(self, found: re.Match[str]) -> str:
        before, text, behind, comment, said = found.groups("")
        return f"{before}{self.redact_word(text)}{behind}{comment}{self.redact_word(said)}"

    def _found(self, found: re.Match[str]) -> str:
        """The stand-in of a part of a text that tells."""
        part, kind = found[0], str(found.lastgroup)
        if kind == "value":
            name, _, value = part.partition("=")
            self.redact_text(value.strip("\"'"))  # which may name what stands elsewhere, too
            return part if _NUMBER.fullmatch(value) else f"{name}={self.redact_word(value)}"
        if kind == "login":
            user, _, host = part.rpartition("@")
            return f"{self.redact_name(user)}@{self.redact_host(host)}"
        if kind == "host":
            return self.redact_host(part) if is_host(part) else part
        return self._placed(part)

    def _placed(self, text: str) -> str:
        """A path with the numbers of a line and a column behind it, which stay."""
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
        """The stand-in of a name; the ending of a file, which tells its kind, stays."""
        if name in self._made or (ending := FILE_EXTENSION.search(name)) is None:
            return self.redact_word(name)
        return self.redact_word(name[: ending.start()]) + ending[0]

    def _patch(self, part: memoryview, depth: int) -> None:
        try:
            for _, value in protobuf_wire.iter_fields(part):
                if isinstance(value, memoryview) and len(value) >= _SHORTEST and depth:
                    self._patch(value, depth - 1)
        except ValueError:  # no message, or one that is damaged: what stands before is done
            pass
        if _READABLE.fullmatch(content := part.tobytes()) and self._is_text(content):
            part[:] = self.redact_bytes(content)

    def _is_text(self, content: bytes) -> bool:
        """Whether a readable part of a message is a text, and not a short list of numbers that
        looks like one.
        """
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return False
        return len(content) >= _LONG or PATH_ONLY.fullmatch(text) is not None or text in self._names

    def redact_bytes(self, content: bytes) -> bytes:
        """The bytes of a text with stand-ins; what is no UTF-8 stays."""
        return self.redact_text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _telling(text: str) -> bool:
    """Whether a word is no plain one, so that it is looked for in all texts: `train` is in names of
    ops, `moonshot-v3` is not.
    """
    return len(text) >= _SHORTEST and (not re.fullmatch(r"\w+", text) or len(text) >= _LONG)
