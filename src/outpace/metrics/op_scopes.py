"""Name scopes of ops: what stands around an op in the model, from its name."""

from __future__ import annotations

import re

NO_SCOPE = "(no scope)"
_WRAPPERS = ("StatefulPartitionedCall", "PartitionedCall")  # calls of functions: their ops belong to the scope that they name
_REPLICA = re.compile(r"(?:replica|tower|clone)(?:_\d+)?\Z")  # the first replica often has no scope of its own
_NUMBER = re.compile(r"(?<=[A-Za-z_])\d+\Z")


def parse_scopes(op_name: str) -> tuple[str, ...]:
    """Scopes around an op, outermost first; calls of functions are no scope."""
    parts = [p for p in op_name.split("/")[:-1] if p and p not in _WRAPPERS]
    return tuple(parts) or (NO_SCOPE,)


def scope_path(op_name: str) -> tuple[str, ...]:
    """Scopes around an op without replicas, whose ops so have one place, and its own name."""
    around = tuple(part for part in parse_scopes(op_name) if not _REPLICA.match(part))
    return (*(around or (NO_SCOPE,)), op_name.rpartition("/")[2])


def scope_pattern(op_name: str) -> str:
    """The scopes around an op without replicas and numbers, so that what is repeated adds up:
    `bert/layer_*/dropout_*`.
    """
    parts = [_NUMBER.sub("*", part) for part in parse_scopes(op_name) if not _REPLICA.match(part)]
    return "/".join(parts) or NO_SCOPE
