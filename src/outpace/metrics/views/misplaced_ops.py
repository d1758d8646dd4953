# SPDX-License-Identifier: Apache-2.0
"""Ops inside the model's step that may belong elsewhere: augmentation, preprocessing, random and
image ops, Python functions.

Rows are disjoint: an op inside a layer for augmentation or preprocessing counts there, whatever its
type. Dropout draws random numbers by design, and is marked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.metrics.facts.model_ops import ModelOps
from outpace.metrics.facts.op_locations import OpLocation
from outpace.metrics.views.model_parts import LocatedOp, located_ops
from outpace.model import Row, Table, TableType
from outpace.timeline import Run
from outpace.timeline.work_kinds import is_jax_library_op, is_random_op

AUGMENTATION, PREPROCESSING, RANDOM, IMAGE, PYTHON = "augmentation", "preprocessing", "random", "image", "python"
_AUGMENTS = compile_lazily(
    r"Random\w+|RandAugment|AugMix|AutoContrast|CutMix|MixUp|Equalization|Solarization|MaxNumBoundingBoxes"
)
_PREPARES = compile_lazily(
    r"Resizing|Rescaling|CenterCrop|TextVectorization|StringLookup|IntegerLookup|Hashing|HashedCrossing|Discretization|"
    r"CategoryEncoding|MelSpectrogram|STFTSpectrogram"
)
_IMAGE = compile_lazily(
    r"ImageProjectiveTransform\w*|(Quantized)?Resize(Bilinear|Bicubic|Area|NearestNeighbor|\w*)|ScaleAndTranslate\w*|"
    r"Adjust(Contrast|Hue|Saturation)\w*|CropAndResize\w*|(Decode|Encode)(Jpeg|Png|Gif|Bmp|Image|AndCropJpeg)\w*|RGBToHSV|HSVToRGB|"
    r"ExtractGlimpse\w*|SampleDistortedBoundingBox\w*"
)
_DROPS = ("dropout", "jit(_bernoulli)")
_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_PYTHON_NAME = compile_lazily(r"(?:^|/)(?:pure|io|debug)_callback\b")  # JAX's callbacks from a compiled program into Python

ODD_OPS = TableType("odd_ops", "Input work inside the model").columns("""
    * host    | text     | host that ran the ops
    * side    | text     | Host (threads) or Device (accelerators)
    * kind    | text     | augmentation or preprocessing (a layer), random, image or python (single ops)
    * type    | text     | type of the op, or class of the layer
    * part    | text     | part of the model
      source  | text     | line that made the op or its layer
      text    | text     | that source line | Code
    * apart   | bool     | whether it runs in a compiled program of its own, outside the step's (JAX)
    * dropout | bool     | whether a dropout layer draws these random numbers, which belongs to training
    + self_ps | ps       | time per step, wall clock, with the executor's share
    + share   | fraction | share of the step time | Of step
    + count   | ratio    | op executions per step | Ops per step
""")


@memoize
def misplaced_ops(run: Run) -> Table:
    """Return a table with one row per host, side, kind, type and part, the largest share first."""
    return ODD_OPS.build(row for ops, ran in located_ops(run) for row in _rows(ops, ran)).sort_by("share")


def _rows(ops: ModelOps, ran: tuple[LocatedOp, ...]) -> Iterator[Row]:
    sums: dict[tuple[str, str, str, bool, bool], list[float]] = defaultdict(lambda: [0.0, 0.0])
    where: dict[tuple[str, str, str, bool, bool], OpLocation] = {}
    for op in ran:
        place, name, op_type = op.location, op.name, op.type
        kind = misplaced_op_kind(place.layer_type, name, op_type)
        if kind is not None:
            label = place.layer_type if kind in (AUGMENTATION, PREPROCESSING) else op_type
            drops = "Dropout" in place.layer_type or any(word in f"{place.part}/{name}".lower() for word in _DROPS)
            key = (kind, label, place.part, drops, is_jax_library_op(name))
            where.setdefault(key, place)
            sums[key][0] += op.wall_ps + op.overhead_ps
            sums[key][1] += op.count
    for (kind, op_type, part, dropout, apart), (time, executions) in sums.items():
        place = where[kind, op_type, part, dropout, apart]
        yield ODD_OPS.row(
            place,
            host=ops.host,
            side=ops.side,
            kind=kind,
            type=op_type,
            part=part,
            apart=apart,
            dropout=dropout,
            self_ps=round(time / ops.step_count),
            share=ops.step_share(time),
            count=executions / ops.step_count,
        )


def misplaced_op_kind(layer_type: str, name: str, op_type: str) -> str | None:
    """Return the reason why an op may be misplaced inside a model's step; None for all other ops.

    layer_type: class of the op's layer
    name: name of the op, which decides for compiled programs
    op_type: type of the op

    The result is one of `AUGMENTATION`, `PREPROCESSING`, `PYTHON`, `IMAGE` and `RANDOM`.
    """
    if _AUGMENTS.fullmatch(layer_type):
        return AUGMENTATION
    if _PREPARES.fullmatch(layer_type):
        return PREPROCESSING
    if op_type in _PYTHON or _PYTHON_NAME.search(name):
        return PYTHON
    if _IMAGE.fullmatch(op_type):
        return IMAGE
    return RANDOM if is_random_op(op_type, name) else None
