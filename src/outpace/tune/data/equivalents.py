"""TensorFlow operations for what Python functions of input pipelines usually do with PIL and NumPy, found by the names in their code."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

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
