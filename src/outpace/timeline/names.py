"""What an event's name says: framework op, tf.data iterator, memory copy, or something else.

Names follow conventions of TensorFlow and XLA (`scope/op:Type`, `Iterator::A::B`, `MemcpyH2D`); the meaning of each convention is that of
`tf_op_utils.cc` in XLA's profiler utilities.
"""

from __future__ import annotations

import re
from enum import Enum

from outpace._dataclass import dataclass

_TF_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
_TF_TYPE = re.compile(r"[A-Z_][a-zA-Z0-9_]*")
_JAX_TYPE = re.compile(r"[a-z_][a-z0-9_]*(\[.*\])?", re.DOTALL)
_COPIES = {"memcpyhtod": "MemcpyHToD", "memcpydtoh": "MemcpyDToH", "memcpydtod": "MemcpyDToD", "memcpyhtoh": "MemcpyHToH"}
_OLD_COPIES = {"memcpyh2d": "MemcpyHToD", "memcpyd2h": "MemcpyDToH", "memcpyd2d": "MemcpyDToD", "memcpyh2h": "MemcpyHToH"}


JITTED_CALL = "PjitFunction("  # what the name of a call of a jitted function starts with, in JAX
INPUT_THREADS = "tf_data"  # what TensorFlow's names of its input threads start with


class OpKind(str, Enum):
    """Family of an op."""

    TENSORFLOW = "tensorflow"
    TF_DATA = "tf.data"
    JAX = "jax"
    COPY = "copy"
    OTHER = "other"


@dataclass(frozen=True)
class Op:
    """An op as its event names it; `type` is "Dataset" for tf.data iterators and "" for events that are no op."""

    kind: OpKind
    name: str
    type: str


def parse_op(full_name: str) -> Op:
    """Split an event name into op name and type."""
    name, colon, op_type = full_name.partition(":")
    if not colon:
        return _parse_copy(full_name)
    if name == "Iterator":
        return Op(OpKind.TF_DATA, full_name, "Dataset")
    if _TF_NAME.fullmatch(name) and _TF_TYPE.fullmatch(op_type):
        return Op(OpKind.TENSORFLOW, name, op_type)
    derived = op_type or _type_from_name(name)
    if _JAX_TYPE.fullmatch(derived):
        return Op(OpKind.JAX, name, derived.split("[", 1)[0])
    if not op_type:
        return Op(OpKind.TENSORFLOW, name, derived)
    return Op(OpKind.OTHER, full_name, "")


def _parse_copy(full_name: str) -> Op:
    start = full_name[:10].lower()
    for known, op_type in _COPIES.items():
        if start == known:
            return Op(OpKind.COPY, full_name, op_type)
    for known, op_type in _OLD_COPIES.items():
        if start.startswith(known):
            return Op(OpKind.COPY, full_name, op_type)
    return Op(OpKind.OTHER, full_name, "")


def _type_from_name(name: str) -> str:
    last = name.rsplit("/", 1)[-1]
    head, _, suffix = last.rpartition("_")
    return head if head and suffix.lstrip("+-").isdigit() else last


def jitted_function(call: str) -> str:
    """Function whose call (`PjitFunction(step)`) or program (`jit_step(8)`, as a stat `jit_step`) has this name; "" for other names."""
    if call.startswith(JITTED_CALL):
        return call[len(JITTED_CALL) :].rstrip(")")
    kind, _, function = call.partition("_")
    return re.sub(r"\(\d+\)$", "", function) if kind in ("jit", "pmap") else ""


def iterator_type(long_name: str) -> str:
    """Last part of a tf.data iterator's long name: `Iterator::Root::Map` is a `Map`."""
    return long_name.rsplit("::", 1)[-1]
