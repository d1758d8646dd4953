# SPDX-License-Identifier: Apache-2.0
"""Report as one HTML file that opens offline, and a page as a fragment for notebooks.

The file contains its scripts and data and makes no requests: its content security policy allows
only the inline scripts and the style sheet whose hashes it lists. Pictures and the first rows of
every table are static, so the file is also readable without scripts.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model import Chart, Page, Report
from outpace.model.files import write_atomically
from outpace.report import glossary, palette
from outpace.report.html_data import CHART_ASSETS, chart_assets, embed_json
from outpace.report.html_view import document_view, find_rows, find_view, notebook_view, page_view

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"
_STYLES = ("report.css", "tables.css", "charts.css", "views.css")
_SCRIPTS = (
    *("dom.js", "kept.js", "units.js", "tables.js", "grid_layout.js", "grid_groups.js", "grid_tools.js", "grid.js"),
    *("find.js", "glossary.js", "views.js", "routes.js", "theme.js"),
)
_LAST = "page.js"
_COMMENT = compile_lazily(r"^[ \t]*/\*.*?\*/[ \t]*$", re.MULTILINE | re.DOTALL)
_REMARK = compile_lazily(r"[ \t]+// [^\"'`\n]*$", re.MULTILINE)  # behind which no text ends: it stands in none
_FIRST = "document.documentElement.classList.add('routed')"
"""Script that runs before anything is drawn: without scripts, views appear one below the other."""
_ICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='3' "
    "fill='%230072B2'/><path d='M3 4h10M3 8h7M3 12h4' stroke='white' stroke-width='2'/></svg>"
)
"""Address of the pages' icon: bars that get shorter."""


def render(report: Report) -> str:
    """Return the whole report as one HTML document."""
    from markupsafe import Markup

    script, style = _script(report.pages), _style(report.pages)
    return (
        template_environment()
        .get_template("report.html.j2")
        .render(
            view=document_view(report),
            app=None,
            policy=content_security_policy((_FIRST, script), style),
            style=Markup(style),
            first=Markup(_FIRST),
            script=Markup(script),
        )
    )


@dataclass(frozen=True)
class AppLinks:
    """URLs of the report's parts on a server, relative to the document.

    assets: folder of scripts and styles
    views: folder of views
    home: start page
    timeline: page of the timeline
    part: query, from the `?` on, that is appended to all of these URLs
    chips: choices that the page offers
    whole: URL of the complete document, where this one is a preview
    programs: page of the compiled programs; "" for none
    """

    assets: str
    views: str
    home: str
    timeline: str
    part: str
    chips: Mapping[str, Any]
    whole: str = ""
    programs: str = ""


def render_app(report: Report, app: AppLinks) -> str:
    """Return the report's document for a server that also provides scripts, styles and views: the
    document links to them instead of including them.
    """
    view = document_view(report, lambda name: f"{app.views}{name}{app.part}", is_preview=bool(app.whole))
    return template_environment().get_template("report.html.j2").render(view=view, app=app)


def render_view(report: Report, view_id: str, rows_url: Callable[[str], str] | None) -> str | None:
    """Return one view of `render_app`'s document, to be inserted into its section; None where the
    report has no view of that id. `rows_url` returns the URL of further rows of a table for the
    table's address.
    """
    page = find_view(report, view_id, rows_url)
    return None if page is None else template_environment().get_template("view.html.j2").render(page=page)


def render_rows(report: Report, address: str, offset: int) -> str | None:
    """Return the rows of a table from `offset` on, as JSON for the page that shows it; None where
    the report has no table at that address.
    """
    rows = find_rows(report, address, offset)
    return None if rows is None else embed_json(rows)


def all_scripts(*more: str) -> str:
    """Return the scripts of all kinds of report, with a page's own scripts (`more`) before the one
    that starts them.
    """
    return "\n".join((_words(), join_scripts(*_SCRIPTS, *_picture_assets(".js")), *more, _asset(_LAST)))


def join_scripts(*names: str) -> str:
    """Return the text of scripts that other pages share with the report."""
    return "\n".join(map(_asset, names))


def all_styles(*more: str) -> str:
    """Return the styles of all kinds of report, and those named in `more`."""
    return "\n".join((_color_rules(), *map(_asset, (*_STYLES, *_picture_assets(".css"))), *more))


def _picture_assets(ending: str) -> list[str]:
    return list(dict.fromkeys(name for names in CHART_ASSETS.values() for name in names if name.endswith(ending)))


def write(report: Report, path: Path) -> Path:
    """Write the whole report as one file and return its path. Raises OutputError where the file
    cannot be written.

    Missing folders are created. The file appears completely or not at all: an existing report
    remains until then.
    """
    content = render(report).encode("utf-8", "replace")
    with write_atomically(path, "The report") as file:
        file.write(content)
    return path


def render_fragment(page: Page) -> str:
    """Return one page as static HTML with its own style; a small script sorts its tables where a
    notebook runs it, and nothing needs it.
    """
    from markupsafe import Markup

    style, script = Markup(_style((page,), _STYLES[:-1])), Markup(_asset("fragment.js"))
    return template_environment().get_template("fragment.html.j2").render(page=page_view(page), style=style, script=script)


def render_notebook(report: Report) -> str:
    """Return a report as static HTML for a notebook's output, without a frame or a port: the
    summary, and each tool's page folded. Where the notebook runs scripts, links open their
    targets, and headings sort.
    """
    from markupsafe import Markup

    view = notebook_view(report, f"outpace-{secrets.token_hex(4)}/")
    style, script = Markup(_style(report.pages, _STYLES)), Markup(_asset("fragment.js"))
    return template_environment().get_template("notebook.html.j2").render(view=view, style=style, script=script)


def _pictures(pages: Sequence[Page], ending: str) -> list[str]:
    """Return the scripts or the styles that the pictures on these pages need, each once."""
    charts = (s for page in pages for s in (*page.sections, page.glance) if isinstance(s, Chart))
    return list(dict.fromkeys(name for chart in charts for name in chart_assets(chart) if name.endswith(ending)))


def _script(pages: Sequence[Page]) -> str:
    return "\n".join((_words(), *map(_asset, (*_SCRIPTS, *_pictures(pages, ".js"), _LAST))))


def _words() -> str:
    return f"const GLOSSARY = {embed_json(glossary.read_terms())};"


def _style(pages: Sequence[Page], names: Sequence[str] = _STYLES) -> str:
    return "\n".join((_color_rules(), *map(_asset, (*names, *_pictures(pages, ".css")))))


def _color_rules() -> str:
    """Return CSS variables and classes of the palette, light and dark; the dark ones also follow
    the themes of notebooks.
    """
    keys = [*palette.LIGHT, *(f"cycle-{i}" for i in range(len(palette.CYCLE)))]
    light = "".join(f"--k-{k}:{palette.hex_color(k)};" for k in keys)
    dark = "".join(f"--k-{k}:{palette.hex_color(k, dark=True)};" for k in keys)
    classes = "".join(f".outpace .k-{k}{{fill:var(--k-{k});background-color:var(--k-{k})}}" for k in keys)
    by_choice = "html[data-theme=dark] .outpace,body[data-jp-theme-light=false] .outpace,body.vscode-dark .outpace"
    by_system = "html:not([data-theme=light]) body.outpace"
    # print is always light: a dark page wastes ink and its colours were chosen for a screen
    return (
        f".outpace{{{light}}}@media screen{{{by_choice}{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{{by_system}{{{dark}}}}}{classes}"
    )


def content_security_policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy of a page that contains these scripts and this style, and
    may load nothing else.
    """
    allowed = " ".join(map(_hash, scripts))
    code = f"script-src {allowed}; style-src {_hash(style)}"
    return f"default-src 'none'; {code}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _asset(name: str) -> str:
    """Return the text of an asset as a browser hashes it, with LF line ends, without indentation
    and comments to save space in every report.
    """
    text = _REMARK.sub("", _COMMENT.sub("", (_ASSETS / name).read_text(encoding="utf-8")))
    return "\n".join(filter(None, (line.strip() for line in text.splitlines())))


@cache
def template_environment(folder: Path = _ASSETS) -> Environment:
    """Return the environment of the page templates in a folder, by default the report's."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals["icon"] = _ICON
    return environment
