"""Commands and programs that the documents show: they exist, their options do, and what is quoted
of a test profile is what is printed.

`python -m tests.architecture.test_commands` writes the quoted outputs anew.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import outpace
from outpace.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/dev/*.md"),
        *ROOT.glob("examples/*/README.md"),
        *ROOT.glob("src/outpace/tools/*/README.md"),
    ]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```(?:text)?\n\$ (outpace [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GROUP = typer.main.get_command(app)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def fenced() -> Iterator[tuple[str, str]]:
    """(document, command) of every command in a fenced block."""
    for document in DOCUMENTS:
        for _, block in FENCE.findall(text(document)):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                found = re.match(r"(?:\$ )?(outpace [a-z-].*?)(?:\s+#.*|\s+[|>&].*)?$", line)
                if found:
                    yield name(document), found[1]


def inline() -> Iterator[tuple[str, str]]:
    """(document, command) of every command in a sentence."""
    for document in DOCUMENTS:
        for found in re.findall(r"`(outpace [a-z-][^`]*)`", FENCE.sub("", text(document))):
            yield name(document), found.replace("\n", " ")


def command_of(line: str) -> Any:
    """The command that a line names, by the command line's own table."""
    return named(line.replace(",", " ").split()[1:], line)[0]


def named(words: list[str], line: str) -> tuple[Any, list[str]]:
    """The command that words begin with, which may be one of a group, and its arguments."""
    found: Any = GROUP
    while words and not words[0].startswith("-") and hasattr(found, "get_command"):
        found = found.get_command(None, words[0])
        assert found is not None, f"there is no command {words[0]!r}: {line}"
        words = words[1:]
    return found, words


def options_of(command: Any) -> set[str]:
    return {"--help", "-h"} | {option for p in command.params for option in (*p.opts, *p.secondary_opts)}


def test_commands_are_found() -> None:
    assert {document for document, _ in fenced()} >= {"README.md", "docs/getting-started.md", "docs/from-tensorboard.md"}
    assert len(list(fenced())) > 30
    assert len(list(inline())) > 60


@pytest.mark.parametrize(("document", "line"), sorted({*fenced(), *inline()}))
def test_commands_and_their_options_exist(document: str, line: str) -> None:
    command = command_of(line)
    ours = re.sub(r'"[^"]*"', "", line)
    if command.name not in ("race", "lint"):
        ours = re.split(r"\s(?:\S+\.py|SCRIPT)\b", ours, maxsplit=1)[0]  # what follows a script is the script's
    used = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", ours))
    assert used <= options_of(command), line


@pytest.mark.parametrize(("document", "line"), [(d, c) for d, c in sorted({*fenced()}) if not re.search(r"[\[<…]|\.\.\.", c)])
def test_commands_parse(document: str, line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0].startswith("-"):
        return
    with contextlib.suppress(typer.Exit):
        command, arguments = named(words, line)
        command.make_context(words[0], arguments)


def printed(line: str) -> str:
    """What a command prints, without the spaces at the ends of lines."""
    done = CliRunner().invoke(app, shlex.split(line)[1:], env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert done.exit_code == 0 or (" lint " in line and done.exit_code == 1), done.output
    return "\n".join(row.rstrip() for row in done.stdout.splitlines()).strip("\n") + "\n"


def quoted() -> list[tuple[str, str, str]]:
    """(document, command, quoted output) of the sessions whose output is always the same."""
    sessions = [(name(d), line, shown) for d in DOCUMENTS for line, shown in SESSION.findall(text(d))]
    return [s for s in sessions if "tests/data/" in s[1] or " lint " in s[1]]


@pytest.mark.parametrize(("document", "line", "shown"), quoted())
def test_quoted_outputs_are_what_is_printed(document: str, line: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = printed(line)
    if "[...]" in shown:  # the parts that are quoted, in their order
        at = 0
        for part in re.split(r"^ *\[\.\.\.\]\n", shown, flags=re.MULTILINE):
            assert part.strip("\n") in found[at:]
            at = found.index(part.strip("\n"), at)
    else:
        assert shown == found


PROGRAMS = [(name(d), block) for d in DOCUMENTS for kind, block in FENCE.findall(text(d)) if kind == "python"]


@pytest.mark.parametrize(("document", "program"), PROGRAMS)
def test_programs_use_names_that_exist(document: str, program: str) -> None:
    compile(program, document, "exec")
    for used in re.findall(r"(?<![\w.])outpace\.(\w+)", program):
        assert used in outpace.__all__ or (ROOT / "src" / "outpace" / used).is_dir() or used in ("testing", "scopes"), used


def test_programs_that_need_no_framework_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    page = text(ROOT / "docs" / "testing.md")
    shown = [block for kind, block in FENCE.findall(page) if kind == "text"]
    for kind, program in FENCE.findall(page):
        if kind == "python":
            exec(compile(program, "docs/testing.md", "exec"), {})
    assert capsys.readouterr().out == "".join(shown)


def test_every_public_name_is_in_the_reference() -> None:
    page = text(ROOT / "docs" / "api.md")
    headings = set(re.findall(r"^      heading: outpace\.(\w+)$", page, re.MULTILINE))
    assert headings == set(outpace.__all__) - {"__version__", "OutpaceError"}
    assert "::: outpace.model.errors" in page


def test_every_page_is_in_the_navigation_and_every_screen_exists() -> None:
    navigation = text(ROOT / "mkdocs.yml").split("\nnav:\n")[1]
    pages = {path.name for path in ROOT.glob("docs/*.md")}
    pages |= {f"dev/{path.name}" for path in ROOT.glob("docs/dev/*.md")}
    assert {page for page in pages if not re.search(rf"[ ]{re.escape(page)}$", navigation, re.MULTILINE)} == set()
    data, screens = (
        ROOT / "tests" / "data",
        re.findall(r"^<!-- screen: (\S+) -->$", text(ROOT / "docs" / "screens.md"), re.MULTILINE),
    )
    assert len(screens) == 10
    assert [s for s in screens if not ((data / "screens" / f"{s}.txt").exists() or (data / s).exists())] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_pictures_exist_and_are_small(document: Path) -> None:
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text(document)):
        assert (document.parent / picture).stat().st_size <= 200_000


def write() -> None:
    """Put what is printed now into the documents."""
    os.chdir(ROOT)
    for document, line, shown in quoted():
        if "[...]" not in shown:
            path = ROOT / document
            path.write_text(text(path).replace(f"$ {line}\n{shown}```", f"$ {line}\n{printed(line)}```"), encoding="utf-8")


if __name__ == "__main__":
    write()
