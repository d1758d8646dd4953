"""Kernel names that fit into a sentence."""

from __future__ import annotations

import re

_WIDTH = 48
_INSTRUCTION = re.compile(r"%([\w.-]+) = ")  # of a program that XLA compiled, with its text


def kernel_function_name(kernel: str) -> str:
    """The function's own name: without result, namespaces, template and other arguments.

    >>> function_name("void tensorflow::functor::FillPhiloxRandomKernelLaunch<float>(unsigned long long const*, int)")
    'FillPhiloxRandomKernelLaunch'
    >>> function_name("%fusion.2 = bf16[8,128]{1,0:T(8,128)} fusion(bf16[8]{0} %param.1), kind=kLoop")
    'fusion.2'
    """
    if (instruction := _INSTRUCTION.match(kernel)) is not None:
        return instruction[1]
    # An unnamed namespace is written "(anonymous namespace)": its bracket opens no arguments.
    plain = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return plain.split("<", 1)[0].split("(", 1)[0].rsplit("::", 1)[-1].strip() or kernel


def short_kernel_name(kernel: str) -> str:
    """The function's own name, cut at the end where it is still long."""
    name = kernel_function_name(kernel)
    return name if len(name) <= _WIDTH else name[: _WIDTH - 3] + "..."
