"""What is found in a pipeline and explained, never applied: nobody can show that what would stand in its place does the same."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import caching
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.optimisations.optimisation import Answer, Explained, NotApplicable, Patch, Rewrite
from outpace.tune.purity.traced import called

_SPATIAL = {"ReverseV2", "Transpose", "Slice", "StridedSlice", "CropAndResize", "PadV2", "Pad", "MirrorPad"}
_FLOATS = ("float16", "bfloat16", "float32", "float64")


class ByHand(Rewrite):
    """A rewrite that is left to the user."""

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """None: the code has to be written by hand."""
        return ()


class KeepUint8(ByHand):
    """Keep images as bytes until spatial augmentation is done: a quarter of the memory traffic of float32."""

    id = "keep_uint8"
    title = "Keep bytes until after spatial augmentation"
    practice = "Reduce memory footprint: cast to float after cropping and flipping, not before"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where a cast to float feeds flips or crops, with what to write."""
        for stage in pipeline.find("map"):
            found = cast_before_spatial(stage)
            if found is not None:
                return Explained(
                    f"{stage.title} casts {found[0]} to {found[1]} and then moves pixels ({found[2]}): casting afterwards moves fewer bytes. "
                    "Exchanging them is left to you, since what stands between them may round."
                )
        return NotApplicable("No map casts bytes to float before it flips, crops or pads.")


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
    if node.op in _SPATIAL:
        return str(node.op)
    for name in called(node):
        for inner in library[name].node_def if name in library else ():
            found = _spatial(inner, library)
            if found is not None:
                return found
    return None


class PythonStages(ByHand):
    """Generators and Python functions inside a pipeline: what they cost and what to write instead. A cache spares that cost without it."""

    id = "python_stages"
    title = "Replace Python by TensorFlow operations"
    practice = "Avoid from_generator and py_function: they run in one process, under the GIL"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where the pipeline runs Python, with what to write instead."""
        sentences = explain(pipeline)
        return Explained(" ".join(sentences)) if sentences else NotApplicable("The pipeline runs no Python.")


def explain(pipeline: Pipeline) -> tuple[str, ...]:
    """Sentences for every stage that runs Python: what it costs, whether a cache spares it, and what to write instead."""
    found = []
    for stage in pipeline.stages():
        if stage.op == "from_generator":
            found.append(
                f"{stage.title} runs a Python generator: one element at a time, holding the GIL, which the training loop needs too. "
                "Yield file names or indices with from_tensor_slices and do the work in map, or write TFRecord files once."
            )
        elif any(facts.python for facts in stage.functions):
            found += _of_functions(pipeline, stage)
    return tuple(found)


def _of_functions(pipeline: Pipeline, stage: Stage) -> list[str]:
    found = [
        f"{stage.title} calls Python for every element: calls wait for Python's interpreter lock (GIL), whatever num_parallel_calls says. "
        "Use TensorFlow operations (tf.io, tf.image, tf.strings) instead, or call it once per batch."
    ]
    calls = [call for facts in stage.functions for call in facts.calls]
    found += [sentence for call in calls if (sentence := equivalents(call.function))]
    return [*found, *_of_cache(pipeline, stage)]


def _of_cache(pipeline: Pipeline, stage: Stage) -> Iterator[str]:
    cached = caching.cached_before(pipeline, stage)
    if cached is not None:
        yield f"It runs in the first epoch only, since {cached.title} keeps what it gives."
        return
    try:
        place, _ = caching.best_place(pipeline)
    except RebuildError as error:
        yield f"It cannot be cached: {error}"
        return
    if any(inner.dataset is stage.dataset for inner in place.walk()):
        yield "With a cache behind it (cache) it runs in the first epoch only, and then none of this matters."


# Attribute in the function's code -> (what it is called, what to write).
_PIL = {
    "open": ("Image.open", "tf.io.read_file and tf.io.decode_jpeg(dct_method='INTEGER_ACCURATE')"),
    "convert": ("convert('RGB')", "channels=3 in tf.io.decode_jpeg"),
    "resize": ("resize", "tf.image.resize(method='bicubic', antialias=True)"),
    "thumbnail": ("thumbnail", "tf.image.resize(preserve_aspect_ratio=True)"),
    "crop": ("crop", "tf.image.crop_to_bounding_box"),
    "rotate": ("rotate", "tf.image.rot90 (multiples of 90 degrees only)"),
    "transpose": ("transpose", "tf.image.flip_left_right, tf.image.flip_up_down"),
    "asarray": ("np.asarray", "tf.cast"),
    "array": ("np.array", "tf.cast"),
    "astype": ("astype", "tf.cast"),
}
_RESAMPLED = frozenset({"resize", "thumbnail"})


def equivalents(function: Any) -> str:
    """A sentence that names the operations for a function that uses PIL; empty for one that does not, or is not known."""
    target = getattr(function, "__func__", function)
    if not isinstance(target, types.FunctionType):
        return ""
    names = dict.fromkeys(_names(target.__code__))
    if not any(str(getattr(target.__globals__.get(name), "__name__", "")).split(".")[0] == "PIL" for name in names):
        return ""
    found = [name for name in _PIL if name in names]
    if not found:
        return ""
    said = "; ".join(f"for {_PIL[name][0]}: {_PIL[name][1]}" for name in found)
    differs = ": the two resample differently, so compare what accuracy you reach" if _RESAMPLED & set(found) else ""
    return f"In {target.__name__}, {said}. Not shown to be the same bit by bit{differs}."


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


OPTIMISATIONS = (KeepUint8(), PythonStages())
