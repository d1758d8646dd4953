# SPDX-License-Identifier: Apache-2.0
"""Functions in the names of calls, of programs and of the compiler's passes."""

from __future__ import annotations

import re

from outpace._lazy import compile_lazily

JITTED_CALL_PREFIX = "PjitFunction("  # prefix of the name of a call of a jitted function, in JAX
_PASS = compile_lazily(r"\((?:jit|pmap)_(\S+)\)$")  # name of a pass: `HLO passes after layout assignment (jit_step)`
_CALL = compile_lazily(r"(?:PjitFunction|PmapFunction)\((.*)\)")
_UNSPELT = compile_lazily(r"[^\w.-]")


def parse_called_function(call: str) -> str | None:
    """Return the function in the name of a call (`step` for `PjitFunction(step)`); None for other
    names.
    """
    parts = _CALL.fullmatch(call)
    return parts and parts[1]


def parse_pass_function(name: str) -> str:
    """Return the function whose program a pass of XLA's compiler works on, from the pass's name; ""
    where the name has none.
    """
    call = _PASS.search(name)
    return call[1] if call else ""


def parse_jitted_function(call: str) -> str:
    """Return the function in the name of a call (`PjitFunction(step)`) or of a program
    (`jit_step(8)`, or `jit_step` in a stat); "" for other names.
    """
    if call.startswith(JITTED_CALL_PREFIX):
        return call[len(JITTED_CALL_PREFIX) :].rstrip(")")
    kind, _, function = call.partition("_")
    return re.sub(r"\(\d+\)$", "", function) if kind in ("jit", "pmap") else ""


def normalize_function_name(function: str) -> str:
    """Return a function's name in XLA's spelling for programs, which has letters, digits and `_`:
    `<lambda>` becomes `_lambda`.
    """
    return _UNSPELT.sub("_", function).rstrip("_")
