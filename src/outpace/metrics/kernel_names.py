# SPDX-License-Identifier: Apache-2.0
"""Shorten the names of kernels, so that they fit into a sentence."""

from __future__ import annotations

from outpace._lazy import compile_lazily

_WIDTH = 48
_INSTRUCTION = compile_lazily(r"%([\w.-]+) = ")  # an HLO instruction with its text, as XLA names events after it


def kernel_function_name(kernel: str) -> str:
    """Return the function's name without result type, namespaces, template arguments and
    parameters.

    Of an HLO instruction with its text, return the instruction's name.

    >>> kernel_function_name("void tensorflow::functor::FillPhiloxRandom<float>(int const*)")
    'FillPhiloxRandom'
    >>> kernel_function_name("%fusion.2 = bf16[8,128]{1,0} fusion(bf16[8]{0} %param.1), kind=kLoop")
    'fusion.2'
    """
    if (instruction := _INSTRUCTION.match(kernel)) is not None:
        return instruction[1]
    # The bracket of "(anonymous namespace)", an unnamed namespace, does not open the parameters.
    plain = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return plain.split("<", 1)[0].split("(", 1)[0].rsplit("::", 1)[-1].strip() or kernel


def short_kernel_name(kernel: str) -> str:
    """Return the function's name (`kernel_function_name`), cut to 48 characters with "..." at the
    end.
    """
    name = kernel_function_name(kernel)
    return name if len(name) <= _WIDTH else name[: _WIDTH - 3] + "..."
