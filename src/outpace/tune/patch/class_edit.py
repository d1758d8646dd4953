"""Writes what a PyDataset needs into its class: decorators of methods, and arguments of its base class's constructor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import libcst as cst

from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits


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
        edits.decorators[method] = _named(decorator, edits)
    if constructor:
        edits, method = _method(kind, "__init__", edits_of)
        calls = [call for call in edits.file.calls() if method in edits.file.above(call) and _constructs_base(call)]
        if len(calls) != 1:
            raise Unpatchable(f"the constructor of {kind.__name__} has no single call of super().__init__")
        edits.keywords[calls[0]] = {
            **edits.keywords.get(calls[0], {}),
            **{key: _named(text, edits) for key, text in constructor.items()},
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


def _named(text: str, edits: Edits) -> str:
    """`functools.cache` as the file would write it; what it does not import yet, it will."""
    name, _, call = text.partition("(")
    spelled = edits.file.spelled(name)
    if spelled is None:
        edits.imports.add(name.partition(".")[0])
        return text
    return spelled + (f"({call}" if call else "")
