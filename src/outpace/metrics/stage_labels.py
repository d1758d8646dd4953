"""From the name that a stage carries in the profile to the source line that built it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LABEL = re.compile(r"([A-Za-z0-9_]+?)_py_L(\d+)_([a-z0-9_]+)")
_DEFAULT = re.compile(r"[A-Za-z0-9_]*(Dataset|Iterator)[A-Za-z0-9]*:\d+")
_FUSED = re.compile(r"fused\((.*)\)")


def source(label: str, record: Mapping[str, Any]) -> str:
    """`train.py:41 map` for a label that Outpace's capture wrote (several joined with ` + ` for a fused stage), the user's own name
    for any other, "" for TensorFlow's default names.
    """
    return " + ".join(part for part in (_one(p, record) for p in _parts(label)) if part)


def location(label: str, record: Mapping[str, Any]) -> str:
    """Only the first source line of `source`: `train.py:41`; "" when none is known."""
    for part in _parts(label):
        text = _one(part, record)
        if ":" in text:
            return text.split(" ", 1)[0]
    return ""


def stage_record(label: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the capture noted when the stage was built; empty when it did not."""
    parts = set(_parts(label))
    return next((s for s in record.get("pipeline") or () if s.get("label") in parts), {})


def injected(label: str) -> bool:
    """Whether TensorFlow added the stage by itself."""
    return label.startswith("inject/")


def _parts(label: str) -> list[str]:
    fused = _FUSED.fullmatch(label)
    return fused.group(1).split(",") if fused else [label]


def _one(label: str, record: Mapping[str, Any]) -> str:
    known = next((s for s in record.get("pipeline") or () if s.get("label") == label), None)
    if known is not None:
        return f"{str(known['file']).rsplit('/', 1)[-1]}:{known['line']} {known['op']}"
    if match := _LABEL.fullmatch(label):
        return f"{match.group(1)}.py:{match.group(2)} {match.group(3)}"
    return "" if _DEFAULT.fullmatch(label) or injected(label) else label
