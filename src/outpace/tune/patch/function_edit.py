"""Writes options of a `tf.function` into the source: its decorator, or the call that makes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import CodeType

import libcst as cst

from outpace.capture.frames import users
from outpace.model.units import counted
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits

MAKER = "tf.function"


def edit_function(code: CodeType, options: Mapping[str, str], edits_of: Callable[[str], Edits], full: str = MAKER) -> None:
    """Give the `tf.function` (or what `full` names) of a Python function, which runs this code, some keywords; `edits_of`: those of a file by
    its path.

    A decorator that another change has just written gets them, too. Raises Unpatchable where the place is not found.
    """
    edits, maker, function = _place(code, edits_of, full)
    file, said = edits.file, ", ".join(f"{name}={value}" for name, value in options.items())
    if edits.decorators.get(function) == maker:
        edits.decorators[function] = _made(edits, maker, said, full)
        return
    for decorator in function.decorators:
        if isinstance(decorator.decorator, cst.Call) and _names(decorator.decorator.func, maker):
            edits.keywords[decorator.decorator] = {**edits.keywords.get(decorator.decorator, {}), **options}
            return
        if _names(decorator.decorator, maker):
            edits.replaced[decorator] = _made(edits, maker, said, full)
            return
        if isinstance(decorator.decorator, cst.Call) and _first_is(
            decorator.decorator, maker
        ):  # functools.partial(jax.jit, ...)
            edits.keywords[decorator.decorator] = {**edits.keywords.get(decorator.decorator, {}), **options}
            return
    calls = [call for call in file.calls() if _names(call.func, maker) and _first_name(call) == code.co_name]
    if len(calls) != 1:
        count = counted(len(calls), "call") if calls else "no call"
        raise Unpatchable(f"{file.name}:{code.co_firstlineno} {code.co_name} is made a graph by {count} of {maker} in its file")
    edits.keywords[calls[0]] = {**edits.keywords.get(calls[0], {}), **options}


def _made(edits: Edits, maker: str, options: str, full: str) -> str:
    """A decorator with options; older versions of `jax.jit` take them by `functools.partial` alone."""
    if full == MAKER:
        return f"{maker}({options})"
    partial = edits.file.spelled("functools.partial")
    if partial is None:
        edits.imports.add("functools")
    return f"{partial or 'functools.partial'}({maker}, {options})"


def _first_is(call: cst.Call, maker: str) -> bool:
    """Whether the first argument of a call is what makes functions."""
    return bool(call.args) and call.args[0].keyword is None and _names(call.args[0].value, maker)


def decorate(code: CodeType, edits_of: Callable[[str], Edits], maker: str = MAKER) -> None:
    """Decorate a Python function, which runs this code, with what makes a graph of it. Raises Unpatchable where it is not found."""
    edits, named, function = _place(code, edits_of, maker)
    if function.decorators:
        raise Unpatchable(f"{edits.file.name}:{code.co_firstlineno} {code.co_name} is decorated already")
    edits.decorators[function] = named


def _place(code: CodeType, edits_of: Callable[[str], Edits], full: str = MAKER) -> tuple[Edits, str, cst.FunctionDef]:
    """The edits of a function's file, what that calls `full`, and the function's definition."""
    if not users(code.co_filename):
        raise Unpatchable(f"{code.co_name} is a function of a library ({os.path.basename(code.co_filename)})")
    edits = edits_of(code.co_filename)
    maker = edits.file.spelled(full)
    if maker is None:
        raise Unpatchable(f"{edits.file.name} has no name for {full}")
    for function in edits.file.functions():
        if _is(edits.file, function, code):
            return edits, maker, function
    raise Unpatchable(f"{edits.file.name}:{code.co_firstlineno} {code.co_name} was not found: the file was edited since")


def _is(file: SourceFile, function: cst.FunctionDef, code: CodeType) -> bool:
    """Python gives a function the line of its first decorator."""
    first = min(file.position(each).start.line for each in [function.name, *function.decorators])
    return function.name.value == code.co_name and first <= code.co_firstlineno <= file.position(function.name).start.line


def _names(node: cst.BaseExpression, name: str) -> bool:
    return cst.Module([]).code_for_node(node) == name


def _first_name(call: cst.Call) -> str:
    value = call.args[0].value if call.args else None
    name = value.attr if isinstance(value, cst.Attribute) else value
    return name.value if isinstance(name, cst.Name) else ""
