# SPDX-License-Identifier: Apache-2.0
"""Name scopes of ops: the layers and blocks around an op in the model, parsed from the op's
name.
"""

from __future__ import annotations

from outpace._lazy import compile_lazily

NO_SCOPE = "(no scope)"
# Scopes of function calls: their ops belong to the scope around the call.
_WRAPPERS = ("StatefulPartitionedCall", "PartitionedCall")
_REPLICA = compile_lazily(r"(?:replica|tower|clone)(?:_\d+)?\Z")  # scope of a replica; the first replica often has none
_NUMBER = compile_lazily(r"(?<=[A-Za-z_])\d+\Z")


def parse_scopes(op_name: str) -> tuple[str, ...]:
    """Return the name scopes around an op, outermost first; `NO_SCOPE` alone where there are none.

    Scopes of function calls (`PartitionedCall`) are left out.
    """
    parts = [part for part in op_name.split("/")[:-1] if part and part not in _WRAPPERS]
    return tuple(parts) or (NO_SCOPE,)


def scope_path(op_name: str) -> tuple[str, ...]:
    """Return the scopes around an op, outermost first, followed by the op's own name.

    Scopes of replicas are left out, so that the same op of all replicas has one path.
    """
    around = tuple(part for part in parse_scopes(op_name) if not _REPLICA.match(part))
    return (*(around or (NO_SCOPE,)), op_name.rpartition("/")[2])


def scope_pattern(op_name: str) -> str:
    """Return the scopes around an op, joined with "/", with numbers replaced:
    `bert/layer_*/dropout_*`.

    Scopes of replicas are left out. Ops of repeated layers so have one pattern and add up.
    """
    parts = [_NUMBER.sub("*", part) for part in parse_scopes(op_name) if not _REPLICA.match(part)]
    return "/".join(parts) or NO_SCOPE
