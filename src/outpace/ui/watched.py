"""What `outpace.Monitor` writes below the workbench's folders: the trainings that it watches or watched, and their numbers over time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.model import Unit
from outpace.model.files import parse_json
from outpace.model.inputs import SERIES
from outpace.model.text import clean, clean_prose, shown
from outpace.monitor.sinks import FOLDER
from outpace.store.logdir import logdirs
from outpace.store.tree import is_url, open_tree
from outpace.ui.folders import Folders
from outpace.ui.runs import id_of

_MOST_POINTS = 600  # of a curve: more than a picture has columns
_MOST = 1e15  # steps, ms or MB: what is larger, or no number, was not measured
_SILENT = 60.0  # seconds without a line, after which a training that did not say so is no longer called running


@dataclass(frozen=True)
class Watched:
    """One training's file: `place` is the log directory below its root, `size` and `modified` change when it does."""

    path: str
    name: str
    place: str
    size: int
    modified: float

    @property
    def id(self) -> str:
        """What its addresses contain."""
        return id_of(self.path)


def watched(folders: Folders) -> tuple[Watched, ...]:
    """All trainings below the folders, the last that wrote first; none that a link leads out of them for."""
    found: dict[str, Watched] = {}
    for root in folders.given:
        with contextlib.suppress(Exception):  # every store has errors of its own
            tree = open_tree(root)
            for logdir in logdirs(tree, tree.root):
                place = logdir.removeprefix(tree.root.rstrip("/")).strip("/")
                for entry in tree.files(f"{logdir}/{FOLDER}"):
                    if entry.name.endswith(".jsonl") and entry.size <= SERIES.most:
                        path = tree.public(f"{logdir}/{FOLDER}/{entry.name}")
                        one = Watched(path, entry.name.removesuffix(".jsonl"), place, entry.size, entry.modified)
                        if is_url(path) or folders.holds(path):
                            found.setdefault(path, one)
    return tuple(sorted(found.values(), key=lambda one: one.modified, reverse=True))


def line(one: Watched, now: float) -> dict[str, Any]:
    """What the list shows of a training."""
    events = _events(one.path, one.size, one.modified)
    last: dict[str, Any] = next((e for e in reversed(events) if e["event"] == "interval"), {})
    ended = any(e["event"] == "end" for e in events)
    state = "ended" if ended else "running" if now - one.modified < _SILENT else "silent"
    return {
        "id": one.id,
        "name": clean(one.name),
        "place": clean(one.place),
        "when": one.modified,
        "state": state,
        "step": _number(last.get("step")),
        "ps": _ps(_inner(last, "step_ms", "p50")),
        "text": _numbers(last),
        "slow": sum(e["event"] == "slowdown" for e in events),
    }


def _numbers(last: Mapping[str, Any]) -> str:
    """The last interval in words."""
    step, share = _ps(_inner(last, "step_ms", "p50")), _number(last.get("input_share"))
    waits = f", {share:.0%} of it waiting for input" if share is not None else ""
    return f"{shown(step, Unit.PS)} per step{waits}" if step is not None else ""


def curves(one: Watched) -> dict[str, Any]:
    """A training's numbers over its steps: of every interval the last step, the step time (median and 95th percentile, ps), the wait for input
    (ps) and the memory (bytes), neighbours taken together where they are many; and what happened meanwhile, with the run of each capture."""
    events = _events(one.path, one.size, one.modified)
    points = [_point(e) for e in events if e["event"] == "interval"]
    many = max(1, math.ceil(len(points) / _MOST_POINTS))
    groups = [points[at : at + many] for at in range(0, len(points), many)]
    return {
        "name": clean(one.name),
        "step": [group[-1][0] for group in groups],
        **{
            name: [_mean([point[i] for point in group]) for group in groups]
            for i, name in enumerate(("p50", "p95", "wait", "memory"), 1)
        },
        "events": [told for e in events if (told := _told(e)) is not None],
    }


def _point(event: Mapping[str, Any]) -> tuple[Any, ...]:
    memory = _number(_inner(event, "memory", "rss_mb"))
    times = (_inner(event, "step_ms", "p50"), _inner(event, "step_ms", "p95"), event.get("input_wait_ms"))
    return (_number(event.get("step")) or 0, *map(_ps, times), None if memory is None else memory * 1e6)


def _told(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is told of an event beside the curves; None of what is in them."""
    kind, step = event["event"], _number(event.get("step")) or 0
    if kind == "slowdown":
        now, before = _number(event.get("now_ms")), _number(event.get("before_ms"))
        return {
            "step": step,
            "kind": kind,
            "text": f"steps take {now} ms instead of {before} ms since step {_number(event.get('since'))}",
        }
    if kind == "capture":
        return {
            "step": step,
            "kind": kind,
            "text": f"captured {_number(event.get('steps'))} steps",
            "run": id_of(str(event.get("run", ""))),
        }
    if kind in ("note", "end"):
        return {"step": step, "kind": kind, "text": clean_prose(str(event.get("text", "the training has ended")))}
    return None


_read: dict[str, tuple[int, float, tuple[dict[str, Any], ...]]] = {}  # the last state of each file


def _events(path: str, size: int, modified: float) -> tuple[dict[str, Any], ...]:
    """The lines of a file, as it is now. What is no line of the monitor, as the last one while it is written, is passed over."""
    known = _read.get(path)
    if known is not None and known[:2] == (size, modified):
        return known[2]
    found = []
    with contextlib.suppress(Exception):  # every store has errors of its own
        tree = open_tree(path)
        for text in tree.read(tree.root, SERIES)[:size].splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                event = parse_json(text)
                if isinstance(event, dict) and isinstance(event.get("event"), str):
                    found.append(event)
    _read[path] = size, modified, tuple(found)
    return _read[path][2]


def _inner(event: Mapping[str, Any], outer: str, name: str) -> Any:
    inner = event.get(outer)
    return inner.get(name) if isinstance(inner, dict) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_MOST < value < _MOST:
        return None
    return value


def _ps(milliseconds: Any) -> float | None:
    number = _number(milliseconds)
    return None if number is None else number * 1e9


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
