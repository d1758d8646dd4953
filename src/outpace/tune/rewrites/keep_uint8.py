"""Keep images as bytes until spatial augmentation is done: a quarter of the memory traffic of float32. Detected, explained, not applied."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal

_SPATIAL = {"ReverseV2", "Transpose", "Slice", "StridedSlice", "CropAndResize", "PadV2", "Pad", "MirrorPad"}
_FLOATS = ("float16", "bfloat16", "float32", "float64")


class KeepUint8:
    """See the module's docstring."""

    id = "keep_uint8"
    title = "Keep bytes until after spatial augmentation"
    practice = "Reduce memory footprint: cast to float after cropping and flipping, not before"
    holds_when = "never proved: the operations between the cast and the flip would have to be exchanged"
    opt_in = True
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """Always a refusal; where a cast to float feeds flips or crops, with what to write."""
        for stage in pipeline.find("map"):
            found = cast_before_spatial(stage)
            if found is not None:
                return Refusal(
                    f"{stage.title} casts {found[0]} to {found[1]} and then moves pixels ({found[2]}): casting afterwards moves fewer bytes. "
                    "Exchanging them is left to you, since what stands between them may round."
                )
        return Refusal("No map casts bytes to float before it flips, crops or pads.")

    def apply(self, pipeline: Pipeline) -> Any:
        """Not possible."""
        raise RebuildError("The cast is not moved automatically: that the result stays equal cannot be shown.")

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """None: it is never applied."""
        return None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """None: the function has to be changed by hand."""
        return ()


def cast_before_spatial(stage: Stage) -> tuple[str, str, str] | None:
    """(type before the cast, type after it, the spatial operation) inside a map's function, called branches included; None without one."""
    if stage.opaque or not stage.functions:
        return None
    graph = stage.dataset._map_func.function.graph
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    behind: dict[str, tuple[str, str]] = {}
    for op in graph.get_operations():
        source = next((behind[i.op.name] for i in op.inputs if i.op.name in behind), None)
        if op.type == "Cast" and op.inputs[0].dtype.name == "uint8" and op.outputs[0].dtype.name in _FLOATS:
            source = ("uint8", op.outputs[0].dtype.name)
        if source is None:
            continue
        behind[op.name] = source
        spatial = _spatial(op.node_def, library)
        if spatial is not None:
            return (*source, spatial)
    return None


def _spatial(node: Any, library: dict[str, Any]) -> str | None:
    from outpace.tune.purity.traced import called

    if node.op in _SPATIAL:
        return str(node.op)
    for name in called(node):
        for inner in library[name].node_def if name in library else ():
            found = _spatial(inner, library)
            if found is not None:
                return found
    return None


REWRITE = KeepUint8()
