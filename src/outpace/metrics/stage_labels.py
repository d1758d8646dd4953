# SPDX-License-Identifier: Apache-2.0
"""Find the source line that built a stage of the input pipeline, from the stage's label in the
profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outpace._lazy import compile_lazily

_LABEL = compile_lazily(r"([A-Za-z0-9_]+?)_py_L(\d+)_([a-z0-9_]+)")
# TensorFlow's default labels: names of ops, and of the datasets of windows.
_DEFAULT = compile_lazily(r"[A-Za-z0-9_]*(?:(?:Dataset|Iterator)[A-Za-z0-9]*|Op):\d+")
_FUSED = compile_lazily(r"fused\((.*)\)")


_VERSION = compile_lazily(r"(?:Dataset)?(?:V\d+)?$")
_WORD = compile_lazily(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")
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
"""The call that a program writes for a stage, by the stage's type without version, where the two
differ in name. Any other stage type is named after its `tf.data` method.
"""


def format_stage(stage_type: str, source: str) -> str:
    """Return the text that names a stage in a report.

    stage_type: TensorFlow's type of the stage, such as `MapAndBatchV2`
    source: result of `stage_source`

    The result is the source line where `source` has one, else the call (`format_stage_call`),
    preceded by the user's own name for the stage where it has one.
    """
    if ":" in source:  # a source line is followed by the method, so that the call need not be added
        return source
    return f"{source} ({format_stage_call(stage_type)})" if source else format_stage_call(stage_type)


def format_stage_call(stage_type: str) -> str:
    """Return the call that a program writes to build a stage: `.map().batch()` for
    `MapAndBatchV2`.
    """
    plain = _VERSION.sub("", stage_type)
    if plain in _WRITTEN:
        return _WRITTEN[plain]
    if plain.startswith(("MemoryCache", "FileCache", "Cache")):
        return ".cache()"
    methods = plain.removeprefix("Parallel").removesuffix("Impl").split("And")
    return "".join(f".{'_'.join(_WORD.findall(method)).lower()}()" for method in methods)


def stage_source(label: str, record: Mapping[str, Any]) -> str:
    """Return the source line and the method of a stage, such as `train.py:41 map`, from its label.

    label: the stage's label in the profile
    record: the record that the capture wrote beside the profile

    The lines of a fused stage are joined with ` + `. A label that Outpace's capture did not write
    is the user's own name, and is returned as it is; "" for TensorFlow's default labels.
    """
    return " + ".join(part for part in (_one(p, record) for p in _parts(label)) if part)


def stage_location(label: str, record: Mapping[str, Any]) -> str:
    """Return the first source line of a stage, such as `train.py:41`; "" where none is known."""
    for part in _parts(label):
        text = _one(part, record)
        if ":" in text:
            return text.split(" ", 1)[0]
    return ""


def find_stage_record(label: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capture's record of a stage (written when the stage was built); empty where there
    is none.
    """
    parts = set(_parts(label))
    return next((s for s in record.get("pipeline") or () if s.get("label") in parts), {})


def is_injected(label: str) -> bool:
    """Whether TensorFlow itself added the stage to the pipeline."""
    return label.startswith("inject/")


def _parts(label: str) -> list[str]:
    fused = _FUSED.fullmatch(label)
    return fused.group(1).split(",") if fused else [label]


def _one(label: str, record: Mapping[str, Any]) -> str:
    stage = next((s for s in record.get("pipeline") or () if s.get("label") == label), None)
    if stage is not None:
        return f"{str(stage['file']).rsplit('/', 1)[-1]}:{stage['line']} {stage['op']}"
    if match := _LABEL.fullmatch(label):
        return f"{match.group(1)}.py:{match.group(2)} {match.group(3)}"
    return "" if _DEFAULT.fullmatch(label) or is_injected(label) else label
