"""The workbench's own pages: the list of runs, and two of them side by side. Texts of runs are cleaned here; templates escape them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outpace.model import Unit
from outpace.model.text import clean, clean_prose, shown
from outpace.report import html
from outpace.report.html_data import embed
from outpace.ui import verdicts
from outpace.ui.runs import Listed
from outpace.ui.verdicts import Cache, Verdict
from outpace.ui.watched import Watched

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"
_SAME = 0.01  # a step that is so much longer or shorter is called the same


def home(roots: Sequence[str], captures: bool) -> str:
    """The list of runs, whose lines come from `lines`; with a dialog that `captures`."""
    return _environment().get_template("runs.html.j2").render(roots=[clean(root) for root in roots], captures=captures)


def side(left: Listed, right: Listed) -> str:
    """Two runs side by side."""
    runs = [{"id": run.id, "name": _name(run)} for run in (left, right)]
    return _environment().get_template("side.html.j2").render(runs=runs)


def watch(one: Watched) -> str:
    """A training that is watched; its curves come by themselves."""
    return _environment().get_template("watch.html.j2").render(name=clean(one.name), place=clean(one.place))


def stranger(asked: str) -> tuple[str, str]:
    """(page, its content security policy) for a browser without the token: what to do, and on to what it `asked` for. It loads nothing, since
    nothing else is given to it."""
    from markupsafe import Markup

    script, style = f"{_own('wanted.js')}Wanted.keep({embed(asked)});", html.every_style(_own("runs.css"))
    shown = {"asked": clean(asked), "script": Markup(script), "style": Markup(style)}
    return _environment().get_template("stranger.html.j2").render(shown), html.policy((script,), style)


def lines(runs: Sequence[Listed], cache: Cache) -> list[dict[str, Any]]:
    """What the list shows of each run; they come newest first."""
    latest: list[tuple[Listed, Verdict]] = []  # of each program, of the runs so far
    found = []
    for run in reversed(runs):
        verdict = cache.get(run.info)
        line = {
            "id": run.id,
            "name": clean(run.info.run),
            "place": clean(run.place),
            "when": run.info.age[0],
            "hosts": run.info.hosts,
        }
        if verdict is None:
            found.append({**line, "waits": True})
            continue
        before = next((each for each in reversed(latest) if verdicts.alike(verdict, each[1])), None)
        found.append({**line, **_line(verdict, before)})
        if verdict.step:
            latest = [each for each in latest if each is not before] + [(run, verdict)]
    return found[::-1]


def _line(verdict: Verdict, before: tuple[Listed, Verdict] | None) -> dict[str, Any]:
    """What a verdict says, with how much its step differs from that of the run before."""
    if verdict.error:
        return {"error": clean_prose(verdict.error)}
    line: dict[str, Any] = {
        "headline": clean_prose(verdict.headline),
        "step": shown(verdict.step, Unit.PS) if verdict.step else "",
        "ps": verdict.step,
        "change": clean_prose(verdict.change),
        "saves": clean(verdict.saves),
        "script": clean(verdict.script),
    }
    if verdict.step and before is not None:
        line["against"] = {
            "share": verdict.step / before[1].step - 1,
            "same": _SAME,
            "name": clean(before[0].info.run),
            "id": before[0].id,
        }
    return line


def _name(run: Listed) -> str:
    return clean(f"{run.place}/{run.info.run}" if run.place else run.info.run)


@cache
def asset(name: str) -> str | None:
    """A file of the pages; None where there is none of that name."""
    if name == "report.js":
        return html.every_script(_own("timeline.js"), _own("chips.js"), _own("rest.js")) + "\n" + _own("whole.js")
    if name == "report.css":
        return html.every_style(_own("report.css"))
    if name == "runs.js":
        return "\n".join((html.some_scripts("dom.js", "theme.js"), _own("wanted.js"), _own("capture.js"), _own("runs.js")))
    if name == "side.js":
        return _own("side.js")
    if name == "watch.js":
        return "\n".join((html.some_scripts("dom.js", "units.js", "axis.js", "theme.js"), _own("watch.js")))
    if name == "runs.css":
        return html.every_style(_own("runs.css"))
    return None


def _own(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader

    return Environment(loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True)
