"""The report as one HTML file that opens offline, and one page as a fragment for notebooks.

The file carries its scripts and data and asks for nothing: its content security policy allows exactly the inline scripts and
the style sheet whose hashes it names. Pictures and the first rows of every table are static, so it also reads without scripts.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from outpace.model import Chart as ChartSection
from outpace.model import ChartKind, Page, Report, Rows, Section
from outpace.model.files import whole
from outpace.report import palette
from outpace.report.html_view import document_view, page_view

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("units.js", "tables.js", "charts.js", "page.js")


def render(report: Report) -> str:
    """Return the whole report as one HTML document."""
    from markupsafe import Markup

    sections = [s for page in report.pages for s in (*page.sections, page.glance) if s is not None]
    scripts = _scripts(sections)
    style = _style(tables=any(isinstance(s, (Rows, ChartSection)) for s in sections))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            view=document_view(report),
            policy=_policy(scripts, style),
            style=Markup(style),
            scripts=[Markup(s) for s in scripts],
        )
    )


def write(report: Report, path: Path) -> Path:
    """Write the whole report as one file; returns its path. Raises OutputError when that cannot be done.

    Missing folders are made. The file appears whole or not at all: a report that stood there before stays until then.
    """
    content = render(report).encode("utf-8", "replace")
    with whole(path, "The report") as file:
        file.write(content)
    return path


def render_fragment(page: Page) -> str:
    """Return one page as static HTML with its own style: no script, nothing that a notebook has to trust."""
    from markupsafe import Markup

    view = page_view(page, "f")
    return _environment().get_template("fragment.html.j2").render(page=view, style=Markup(_style(tables=False)))


def _scripts(sections: list[Section]) -> list[str]:
    """The scripts that this report needs: no chart library without a chart to zoom, no table library without tables."""
    names = []
    if any(isinstance(s, ChartSection) and s.kind is ChartKind.STACK_SERIES for s in sections):
        names.append("vendor/echarts.common.min.js")
    if any(isinstance(s, (Rows, ChartSection)) for s in sections):
        names.append("vendor/tabulator.min.js")
    own = "\n".join(_asset(name) for name in _SCRIPTS)
    return [*(_asset(name) for name in names), own]


def _style(*, tables: bool) -> str:
    vendor = _asset("vendor/tabulator_simple.min.css") if tables else ""
    return "\n".join((vendor, _color_rules(), _asset("report.css")))


def _color_rules() -> str:
    """CSS variables and classes of the palette, light and dark; the dark ones also follow the themes of notebooks."""
    keys = [*palette.LIGHT, *(f"cycle-{i}" for i in range(len(palette.CYCLE)))]
    light = "".join(f"--k-{k}:{palette.color_of(k)};" for k in keys)
    dark = "".join(f"--k-{k}:{palette.color_of(k, dark=True)};" for k in keys)
    classes = "".join(f".outpace .k-{k}{{fill:var(--k-{k});background-color:var(--k-{k})}}" for k in keys)
    by_choice = "html[data-theme=dark] .outpace,body[data-jp-theme-light=false] .outpace,body.vscode-dark .outpace"
    by_system = "html:not([data-theme=light]) body.outpace"
    # print is always light: a dark page wastes ink and its colours were chosen for a screen
    return (
        f".outpace{{{light}}}@media screen{{{by_choice}{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{{by_system}{{{dark}}}}}{classes}"
    )


def _policy(scripts: list[str], style: str) -> str:
    allowed = " ".join(_hash(s) for s in scripts) or "'none'"
    code = f"script-src {allowed}; style-src {_hash(style)}"
    return f"default-src 'none'; {code}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _asset(name: str) -> str:
    """Text of an asset as a browser will hash it: LF line ends, and no source map that developer tools would go and fetch."""
    text = (_ASSETS / name).read_text(encoding="utf-8").replace("\r\n", "\n")
    return re.sub(r"(//|/\*)# sourceMappingURL=\S*( \*/)?", "", text)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader

    return Environment(loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True)
