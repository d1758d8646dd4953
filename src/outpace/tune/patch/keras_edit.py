"""Where optimisations of the training step and of a PyDataset are written: the one `model.compile(...)` of a program, and the class of the
input, with decorators of its methods and arguments of its base class's constructor.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import libcst as cst

from outpace.model.units import counted
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits
from outpace.tune.program.program import compiled_at

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


def write_compile(model: Any, keywords: Mapping[str, str], edits_of: Callable[[str], Edits]) -> None:
    """Give the call that compiled a model some keywords. Raises Unpatchable where it is not known, or not found."""
    place = compiled_at(model)
    if place is None:
        raise Unpatchable("where the model was compiled is not known")
    file, call = compile_call(place[0], lambda path: edits_of(path).file, place)
    edits = edits_of(file.path)
    edits.keywords[call] = {**edits.keywords.get(call, {}), **keywords}


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


def edit_class(
    kind: type, decorators: Mapping[str, str], constructor: Mapping[str, str], edits_of: Callable[[str], Edits]
) -> None:
    """Decorate methods of a user's class (by name), and give `super().__init__` keywords; `edits_of`: those of a file by its path.

    Raises Unpatchable where the class, or the place in it, is not found.
    """
    for name, decorator in decorators.items():
        edits, method = _method(kind, name, edits_of)
        if method.decorators:
            raise Unpatchable(f"{kind.__name__}.{name} is decorated already")
        edits.decorators[method] = _spelled_name(decorator, edits)
    if constructor:
        edits, method = _method(kind, "__init__", edits_of)
        calls = [call for call in edits.file.calls() if method in edits.file.above(call) and _constructs_base(call)]
        if len(calls) != 1:
            raise Unpatchable(f"the constructor of {kind.__name__} has no single call of super().__init__")
        edits.keywords[calls[0]] = {
            **edits.keywords.get(calls[0], {}),
            **{key: _spelled_name(text, edits) for key, text in constructor.items()},
        }


def _method(kind: type, name: str, edits_of: Callable[[str], Edits]) -> tuple[Edits, cst.FunctionDef]:
    """A method in the source of the class that defines it."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    code = getattr(vars(owner).get(name), "__code__", None) if owner is not None else None
    if owner is None or code is None or owner.__module__.split(".")[0] == "keras":
        raise Unpatchable(f"{kind.__name__} defines no {name} of its own")
    edits = edits_of(inspect.getsourcefile(code) or code.co_filename)
    found = [
        each
        for each in edits.file.functions()
        if each.name.value == name and _stands(edits.file, each, owner, code.co_firstlineno)
    ]
    if len(found) != 1:
        raise Unpatchable(f"{owner.__name__}.{name} was not found in {edits.file.name}: the file was edited since")
    return edits, found[0]


def _stands(file: SourceFile, method: cst.FunctionDef, owner: type, line: int) -> bool:
    scope, where = file.scope(method), file.position(method)
    return isinstance(scope, cst.ClassDef) and scope.name.value == owner.__name__ and where.start.line <= line <= where.end.line


def _constructs_base(call: cst.Call) -> bool:
    """`super().__init__(...)`."""
    func = call.func
    return (
        isinstance(func, cst.Attribute)
        and func.attr.value == "__init__"
        and isinstance(func.value, cst.Call)
        and isinstance(func.value.func, cst.Name)
        and func.value.func.value == "super"
    )


def _spelled_name(text: str, edits: Edits) -> str:
    """`functools.cache` as the file would write it; what it does not import yet, it will."""
    name, _, call = text.partition("(")
    spelled = edits.file.spelled(name)
    if spelled is None:
        edits.imports.add(name.partition(".")[0])
        return text
    return spelled + (f"({call}" if call else "")
