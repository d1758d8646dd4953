# SPDX-License-Identifier: Apache-2.0
"""Ops in event names, and their kinds and types.

Names follow conventions of TensorFlow and XLA (`scope/op:Type`, `Iterator::A::B`, `MemcpyH2D`); the
meaning of each convention is that of `tf_op_utils.cc` in XLA's profiler utilities.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from outpace._lazy import compile_lazily

_TF_NAME = compile_lazily(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
_TF_TYPE = compile_lazily(r"[A-Z_][a-zA-Z0-9_]*")
_JAX_TYPE = compile_lazily(r"[a-z_][a-z0-9_]*(\[.*\])?", re.DOTALL)
_DIRECTIONS = ("HToD", "DToH", "DToD", "HToH", "PToP")  # directions of copies; PToP is between devices
_COPIES = {f"memcpy{text}".lower(): f"Memcpy{way}" for way in _DIRECTIONS for text in (way, way.replace("To", "2"))}


class OpKind(str, Enum):
    """Family of an op."""

    TENSORFLOW = "tensorflow"
    TF_DATA = "tf.data"
    JAX = "jax"
    COPY = "copy"
    OTHER = "other"


class Op(NamedTuple):
    """Op in an event name. `type` is "Dataset" for tf.data iterators and "" for events that are no
    op.
    """

    kind: OpKind
    name: str
    type: str


def parse_op(full_name: str) -> Op:
    """Return the op in an event name, with its kind, name and type."""
    name, colon, op_type = full_name.partition(":")
    if not colon:
        copy = _COPIES.get(name[:10].lower()) or _COPIES.get(name[:9].lower())
        return Op(OpKind.COPY, name, copy) if copy else Op(OpKind.OTHER, name, "")
    if name == "Iterator" and op_type.startswith(":"):
        return Op(OpKind.TF_DATA, full_name, "Dataset")
    if _TF_NAME.fullmatch(name) and _TF_TYPE.fullmatch(op_type):
        return Op(OpKind.TENSORFLOW, name, op_type)
    derived = op_type or parse_type_from_name(name)
    if _JAX_TYPE.fullmatch(derived):
        return Op(OpKind.JAX, name, derived.split("[", 1)[0])
    if not op_type:
        return Op(OpKind.TENSORFLOW, name, derived)
    return Op(OpKind.OTHER, full_name, "")


def parse_type_from_name(name: str) -> str:
    """Return the type of an op whose event has its name only: `dot` for `jit(f)/dot_3`."""
    last = name.rsplit("/", 1)[-1]
    head, _, suffix = last.rpartition("_")
    return head if head and suffix.lstrip("+-").isdigit() else last


def parse_iterator_type(long_name: str) -> str:
    """Return the last part of a tf.data iterator's long name: `Map` for `Iterator::Root::Map`."""
    return long_name.rsplit("::", 1)[-1]
