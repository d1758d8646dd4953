"""What the documents promise exists: exit codes, make targets, linked files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outpace.model import errors
from outpace.tools import Tool, discover_tools

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/dev/*.md")])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_exit_code_is_documented() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.OutpaceError)]
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text("docs/exit-codes.md"), re.MULTILINE)]
    assert len(classes) > 4
    assert codes == sorted(codes)
    assert set(codes) == {0, 130} | {c.exit_code for c in classes}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    named = {t for d in DOCUMENTS for t in re.findall(r"(?:^|`|&& )make ([a-z]+)", d.read_text(encoding="utf-8"), re.MULTILINE)}
    assert {"test", "check", "demo"} <= named
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    missing = [link for link in links if not link.startswith("http") and not (document.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("tool", discover_tools(), ids=lambda t: t.id)
def test_every_tool_says_what_it_answers_how_to_read_it_and_where_it_ends(tool: Tool) -> None:
    page = (ROOT / "src" / "outpace" / "tools" / tool.id / "README.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {tool.id}: ")
    for part in ("**Question.**", "**How to read it.**", "**Tables.**", "**Limits.**"):
        assert part in page, part
    assert f"| `{tool.id}` | {tool.question} |" in text("docs/index.md")
