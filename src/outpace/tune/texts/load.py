# SPDX-License-Identifier: Apache-2.0
"""Edited texts in place of files, for this process: Python reads them, and no file is touched; and
marks in what it compiles of the user's.
"""

from __future__ import annotations

import ast
import difflib
import io
import linecache
import os
import tokenize
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, cast

from outpace.capture.frames import is_user_file
from outpace.model.input_files import SCRIPT, read_file
from outpace.tune.texts.marks import branches_of, instrumented
from outpace.tune.texts.place import FIT, Place


def substitute(texts: Mapping[str, str], place: Callable[[Mapping[str, bytes]], object] = bool) -> None:
    """Let the import system read these texts instead of the files, by path, and none of their
    compiled copies. place: lets others find them in the files, too.
    """
    contents = {os.path.realpath(path): encoded(text) for path, text in texts.items()}
    place(contents)
    plain_data = SourceFileLoader.get_data

    def get_data(self: Any, path: Any) -> bytes:
        found = contents.get(os.path.realpath(path))
        return found if found is not None else plain_data(self, path)

    read = linecache.updatecache  # AutoGraph reads a function by its lines, and asks for them to be read again

    def updatecache(filename: str, module_globals: Any = None) -> list[str]:
        content = contents.get(os.path.realpath(filename))
        if content is None:
            return read(filename, module_globals)
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        lines = io.TextIOWrapper(io.BytesIO(content), encoding).readlines()
        linecache.cache[filename] = (len(content), None, lines, filename)
        return lines

    linecache.updatecache = updatecache
    SourceFileLoader.get_data = get_data  # type: ignore[method-assign]  # this process does nothing else
    _uncompiled(contents.__contains__)


def _uncompiled(which: Callable[[str], bool]) -> None:
    """Let the import system neither read nor write compiled copies of some files."""
    plain = SourceFileLoader.path_stats

    def path_stats(self: Any, path: Any) -> Any:
        if which(os.path.realpath(path)):
            raise OSError  # a file without times has no such copy
        return plain(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]  # this process does nothing else


class Marking:
    """Compiles the user's files with marks. header: what the loop of the original goes over.
    endless: the loop begins again where it ends. lines: of edited files those that the originals
    have, too. branches: the first lines of all branches, by file.
    """

    def __init__(
        self, place: Place, header: str | None, *, endless: bool = False, lines: Mapping[str, Mapping[int, int]] | None = None
    ) -> None:
        self._place = place if place.function != FIT else None
        self._header, self._endless, self._lines = header, endless, lines or {}
        self.branches: dict[str, frozenset[int]] = {}

    def install(self) -> None:
        """For what is imported; the script itself is compiled by `compiled`."""
        plain, ours = SourceFileLoader.source_to_code, self.compiled

        def source_to_code(self: Any, data: Any, path: Any, **options: Any) -> CodeType:
            file = os.fsdecode(path)
            return ours(data, file) if is_user_file(os.path.realpath(file)) else plain(self, data, path, **options)

        SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]  # this process does nothing else
        _uncompiled(is_user_file)

    def compiled(self, data: bytes, path: str) -> CodeType:
        """The code of a user's file."""
        tree = cast("ast.Module", compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
        file = os.path.realpath(path)
        self.branches[file] = branches_of(tree)
        marked = instrumented(tree, file, self._place, self._header, endless=self._endless, lines=self._lines.get(file))
        made: CodeType = compile(marked, path, "exec", dont_inherit=True)
        return made


def source_of(path: str) -> str:
    """A file of Python as text, with its own line ends."""
    content = read_file(path, SCRIPT)
    return content.decode(tokenize.detect_encoding(io.BytesIO(content).readline)[0])


def encoded(text: str) -> bytes:
    """A text of Python as its own first lines say that a file of it is written."""
    declared = tokenize.detect_encoding(io.BytesIO(text.encode("utf-8")).readline)[0]
    return text.encode(declared)


def lines_between(new: str, old: str) -> dict[int, int]:
    """For each line of a new text that stands in the old one too, its number there, whatever its
    indentation; also where it moved, if the old text has it once.
    """
    lines = [[line.strip() for line in text.splitlines()] for text in (new, old)]
    blocks = difflib.SequenceMatcher(None, lines[0], lines[1], autojunk=False).get_matching_blocks()
    found = {block.a + at + 1: block.b + at + 1 for block in blocks for at in range(block.size)}
    for at, line in enumerate(lines[0], start=1):
        if at not in found and lines[1].count(line) == 1:
            found[at] = lines[1].index(line) + 1
    return found
