"""What the documentation takes from the code: a page per tool with the tables that it declares, and
the first screens of the test profiles.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import outpace
import outpace.tools
from outpace.model import TableType
from outpace.report import glossary, html, recipes, terminal
from outpace.tools import Tool, discover_tools

ROOT = Path(__file__).parent
DATA = ROOT / "tests" / "data"
HOME = Path(outpace.tools.__file__).parent
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
_SCREEN = re.compile(r"^<!-- screen: ([\w./]+) -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Fill in what the navigation cannot know: the tools, and the glossary and the recipes, which
    lie where the reports take them from.
    """
    sections = {title: pages for section in config.nav for title, pages in section.items()}
    sections["Tools"].extend({tool.id: f"tools/{tool.id}.md"} for tool in discover_tools())
    sections["Reference"].insert(0, "glossary.md")
    sections["By symptom"].append("recipes.md")
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add one page per tool, the glossary, the recipes, the benchmarks, and a report to look at."""
    for tool in discover_tools():
        files.append(File.generated(config, f"tools/{tool.id}.md", content=page(tool)))
    files.append(File.generated(config, "glossary.md", content=glossary.read_glossary()))
    files.append(File.generated(config, "recipes.md", content=recipes.read_page()))
    measured = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "benchmarks.md", content=measured.replace("](../docs/", "](")))
    files.append(File.generated(config, "sample.html", content=sample_report()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put first screens where a page asks for them, `<!-- screen: keras_fit -->`. A link to the
    profile of the sample report leads to that. Links to files that are no page keep their text
    only.
    """
    markdown = markdown.replace("](../bench/README.md", "](benchmarks.md")
    markdown = markdown.replace("](../tests/data/profiles/keras_fit)", "](sample.html)")
    for name in ("glossary.md", "recipes.md"):
        markdown = markdown.replace(f"](../src/outpace/report/assets/{name}", f"]({name}")
    markdown = _OUTSIDE.sub(r"\1", markdown)
    return _SCREEN.sub(lambda found: f"```text\n{screen(found[1])}\n```", markdown)


def screen(name: str) -> str:
    """The first screen of a profile: the one that the tests hold, or, of a damaged file, one that
    is made now.
    """
    stored = DATA / "screens" / f"{name}.txt"
    if stored.exists():
        return stored.read_text(encoding="utf-8").rstrip()
    with outpace.open(DATA / name) as profile:
        return terminal.render(profile.report(), width=80).replace(f"{DATA}/", "").rstrip()


def sample_report() -> str:
    """The HTML report of a test profile, as a user gets it."""
    with outpace.open(DATA / "profiles" / "keras_fit") as profile:
        return html.render(profile.report()).replace(f"{DATA}/profiles/", "")


def page(tool: Tool) -> str:
    """A tool's README, followed by what every column of its tables means."""
    text = (HOME / tool.id / "README.md").read_text(encoding="utf-8")
    schema = importlib.import_module(f"{HOME.parent.name}.tools.{tool.id}.schema")
    for name, kind in vars(schema).items():
        if isinstance(kind, TableType) and not name.startswith("_"):
            rows = "\n".join(f"| `{f.name}` | {f.unit.value or 'none'} | {f.meaning} |" for f in kind.fields)
            text += f"\n## Columns: {name.lower()}\n\n| column | unit | meaning |\n|---|---|---|\n{rows}\n"
    return text
