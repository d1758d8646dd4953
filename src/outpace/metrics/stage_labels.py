"""From the name that a stage carries in the profile to the source line that built it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LABEL = re.compile(r"([A-Za-z0-9_]+?)_py_L(\d+)_([a-z0-9_]+)")
_DEFAULT = re.compile(r"[A-Za-z0-9_]*(?:(?:Dataset|Iterator)[A-Za-z0-9]*|Op):\d+")  # its ops' names, and those of windows
_FUSED = re.compile(r"fused\((.*)\)")


_VERSION = re.compile(r"(?:Dataset)?(?:V\d+)?$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")
_WRITTEN = {
    "Generator": "from_generator()",
    "FromTensor": "from_tensors()",
    "TensorSlice": "from_tensor_slices()",
    "SparseTensorSlice": "from_tensor_slices()",
    "TFRecord": "TFRecordDataset()",
    "TextLine": "TextLineDataset()",
    "FixedLengthRecord": "FixedLengthRecordDataset()",
    "Range": "Dataset.range()",
    "Zip": "Dataset.zip()",
    "Root": "the iterator",
    "Model": "the iterator",
    "ForeverRepeat": ".repeat()",
    "FiniteRepeat": ".repeat()",
    "FiniteTake": ".take()",
    "FiniteSkip": ".skip()",
}
"""What a program writes for the stages that TensorFlow runs under other names; all others are
methods.
"""


def format_stage(stage_type: str, source: str) -> str:
    """What a program calls a stage that was built at `source` (see `stage_source`): its line, else
    what it writes for it, with a name of its own.
    """
    if ":" in source:  # the line names the method, too
        return source
    return f"{source} ({format_stage_call(stage_type)})" if source else format_stage_call(stage_type)


def format_stage_call(stage_type: str) -> str:
    """What a program writes to get such a stage: `.map().batch()` for `MapAndBatchV2`."""
    plain = _VERSION.sub("", stage_type)
    if plain in _WRITTEN:
        return _WRITTEN[plain]
    if plain.startswith(("MemoryCache", "FileCache", "Cache")):
        return ".cache()"
    methods = plain.removeprefix("Parallel").removesuffix("Impl").split("And")
    return "".join(f".{'_'.join(_WORD.findall(method)).lower()}()" for method in methods)


def stage_source(label: str, record: Mapping[str, Any]) -> str:
    """`train.py:41 map` for a label that Outpace's capture wrote (several joined with ` + ` for a
    fused stage), the user's own name for any other, "" for TensorFlow's default names.
    """
    return " + ".join(part for part in (_one(p, record) for p in _parts(label)) if part)


def stage_location(label: str, record: Mapping[str, Any]) -> str:
    """Only the first source line of `stage_source`: `train.py:41`; "" when none is known."""
    for part in _parts(label):
        text = _one(part, record)
        if ":" in text:
            return text.split(" ", 1)[0]
    return ""


def find_stage_record(label: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the capture noted when the stage was built; empty when it did not."""
    parts = set(_parts(label))
    return next((s for s in record.get("pipeline") or () if s.get("label") in parts), {})


def is_injected(label: str) -> bool:
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
    return "" if _DEFAULT.fullmatch(label) or is_injected(label) else label
