"""Kernel names that fit into a sentence."""

from __future__ import annotations

_WIDTH = 48


def function_name(kernel: str) -> str:
    """The function's own name: without result, namespaces, template and other arguments.

    >>> function_name("void tensorflow::functor::FillPhiloxRandomKernelLaunch<float>(unsigned long long const*, int)")
    'FillPhiloxRandomKernelLaunch'
    """
    # An unnamed namespace is written "(anonymous namespace)": its bracket opens no arguments.
    plain = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return plain.split("<", 1)[0].split("(", 1)[0].rsplit("::", 1)[-1].strip() or kernel


def short(kernel: str) -> str:
    """The function's own name, cut at the end where it is still long."""
    name = function_name(kernel)
    return name if len(name) <= _WIDTH else name[: _WIDTH - 3] + "..."
