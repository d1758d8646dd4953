"""Finds the one `model.compile(...)` of a program, where the knobs of the training step are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import libcst as cst

from outpace.model.units import counted
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile

_ARGUMENTS = {"optimizer", "loss", "metrics", "loss_weights", "jit_compile", "steps_per_execution", "run_eagerly"}


def compile_call(
    script: str, read: Callable[[str], SourceFile], at: tuple[str, int] | None = None
) -> tuple[SourceFile, cst.Call]:
    """The call at a known place (`at`: file and line), else that in the file that trains, else in the one module beside it that compiles.

    Raises Unpatchable where there is none, or more than one, or its arguments come out of a dictionary.
    """
    name = os.path.basename(script)
    found = _at(at, read) if at is not None else []
    if len(found) != 1:
        found = [(read(script), call) for call in _calls(read(script))]
    if not found:
        found = [(read(path), call) for path in _modules_beside(script) for call in _calls(read(path))]
    if len(found) != 1:
        raise Unpatchable(
            f"{name} has {counted(len(found), 'call') if found else 'no call'} of compile: which one it is, is not known"
        )
    file, call = found[0]
    if any(arg.star == "**" for arg in call.args):
        raise Unpatchable(f"{file.name}:{file.position(call).start.line} gives compile its arguments as a dictionary")
    return file, call


def _at(place: tuple[str, int], read: Callable[[str], SourceFile]) -> list[tuple[SourceFile, cst.Call]]:
    """The calls of a method `compile` at a line."""
    try:
        file = read(place[0])
    except (OSError, Unpatchable):
        return []
    calls = (call for call in file.calls() if isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile")
    ranges = ((call, file.position(call)) for call in calls)
    return [(file, call) for call, where in ranges if where.start.line <= place[1] <= where.end.line]


def _calls(file: SourceFile) -> Iterator[cst.Call]:
    for call in file.calls():
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "compile":
            continue
        if isinstance(call.func.value, cst.Name) and call.func.value.value in ("re", "regex", "sre_compile"):
            continue
        words = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        positional = [arg for arg in call.args if arg.keyword is None]
        if words & _ARGUMENTS or positional or any(arg.star for arg in call.args):
            yield call


def _modules_beside(script: str) -> list[str]:
    """Source files in the script's folder that are imported."""
    folder = os.path.dirname(os.path.abspath(script)) + os.sep
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    beside = {os.path.abspath(path) for path in files if path.endswith(".py") and "site-packages" not in path}
    return sorted(path for path in beside if path.startswith(folder) and path != os.path.abspath(script))
