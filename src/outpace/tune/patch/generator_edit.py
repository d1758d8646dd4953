"""Writes how a generator runs into the source: a function for its items that keeps what it gave, and a generator of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from outpace.tune.data.generators import Generated, arrays_of, flat
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits


def write_generator(wanted: Generated, file: SourceFile, call: cst.Call, edits_of: Callable[[SourceFile], Edits]) -> None:
    """Edit the file of a generator function, which a call in the same file is given. Raises Unpatchable with the reason."""
    definition = _definition(wanted, file)
    edits, made = edits_of(file), [definition]
    if wanted.split is not None and wanted.kept is not None:
        result = next(iter(wanted.kept.items.values()))
        arrays = arrays_of(result, wanted.split.returned) if wanted.split.returned else []
        helper = _function(f"@functools.cache\n{wanted.split.guarded(arrays)}")
        changed = _function(wanted.split.generator).with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)
        made = [helper.with_changes(leading_lines=definition.leading_lines), changed]
        edits.imports.add("functools")
    if wanted.chunk:
        made = [*made, _chunks(wanted, file, call, edits)]
    edits.functions[definition] = made


def _chunks(wanted: Generated, file: SourceFile, call: cst.Call, edits: Edits) -> cst.FunctionDef:
    """The generator of stacks; the call is given it, and their signature."""
    name = file.unused(f"{wanted.user.__name__}_in_chunks")
    stack, spec, maker = file.spelled("numpy.stack"), wanted.spec, file.spelled("tf.TensorSpec")
    if maker is None:
        raise Unpatchable(f"{file.name} has no name for tf.TensorSpec")
    edits.imports |= {"itertools"} if stack is not None else {"itertools", "numpy"}
    stacked = _stacked(spec, stack or "numpy.stack")
    text = (
        f"def {name}():\n    elements = {wanted.user.__name__}()\n"
        f"    while chunk := list(itertools.islice(elements, {wanted.chunk})):\n        yield {stacked}\n"
    )
    given = [("", name), ("output_signature", _signature(spec, maker, file.spelled("tf.data") or ""))]
    edits.arguments[call] = [
        cst.Arg(cst.parse_expression(value), cst.Name(key) if key else None, equal=_TIGHT if key else cst.MaybeSentinel.DEFAULT)
        for key, value in given
    ]
    return _function(text).with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _stacked(spec: Any, stack: str) -> str:
    if isinstance(spec, tuple):
        return f"tuple({stack}(part) for part in zip(*chunk))"
    if isinstance(spec, dict):
        return f"{{name: {stack}([each[name] for each in chunk]) for name in chunk[0]}}"
    return f"{stack}(chunk)"


def _signature(spec: Any, maker: str, data: str) -> str:
    """The signature of stacks, as source text."""
    library = maker.rpartition(".")[0]

    def one(each: Any) -> str:
        shape = ", ".join(["None", *map(str, each.shape.as_list())])
        return f"{maker}(({shape}{',' if not each.shape.rank else ''}), {library + '.' if library else ''}{each.dtype.name})"

    parts = [one(each) for each in flat(spec) or ()]
    if isinstance(spec, tuple):
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(spec, dict):
        return "{" + ", ".join(f"{name!r}: {part}" for name, part in zip(spec, parts, strict=True)) + "}"
    return parts[0]


def _definition(wanted: Generated, file: SourceFile) -> cst.FunctionDef:
    code = wanted.user.__code__
    if code.co_filename != file.path:
        raise Unpatchable(f"the generator {code.co_name} stands in another file ({code.co_filename})")
    for definition in file.functions():
        if definition.name.value == code.co_name and file.position(definition.name).start.line == code.co_firstlineno:
            return definition
    raise Unpatchable(f"the definition of {code.co_name} is not at line {code.co_firstlineno}: the file was edited since")


def _function(text: str) -> cst.FunctionDef:
    made = cst.parse_module(text).body[0]
    assert isinstance(made, cst.FunctionDef)
    return made
