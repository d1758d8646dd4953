# SPDX-License-Identifier: Apache-2.0
"""Where optimisations of the training step are written: options of a `tf.function` or a `jax.jit`
(its decorator, or the call that makes it); the one `model.compile(...)` of a program; the class of
a PyDataset; and statements of a loop, as a function that is a graph, or that reads the values of
many steps at once.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import libcst as cst

from outpace.capture.frames import is_user_file
from outpace.model.units import format_count
from outpace.tune.loop.models import CALL, PREDICT, PREDICTED
from outpace.tune.loop.step import Outline, Peeled
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits
from outpace.tune.program.program import compiled_at

MAKER = "tf.function"
STATEMENTS = (cst.BaseCompoundStatement, cst.SimpleStatementLine)


def edit_function(code: CodeType, options: Mapping[str, str], edits_of: Callable[[str], Edits], full: str = MAKER) -> None:
    """Give the `tf.function` (or what `full` names) of a Python function, which runs this code,
    some keywords; `edits_of`: those of a file by its path. Raises Unpatchable where the place is
    not found.
    """
    edits, maker, function = _place(code, edits_of, full)
    file, said = edits.file, _said(options)
    for decorator in function.decorators:
        if isinstance(decorator.decorator, cst.Call) and _names(decorator.decorator.func, maker):
            edits.keywords[decorator.decorator] = {**edits.keywords.get(decorator.decorator, {}), **options}
            return
        if _names(decorator.decorator, maker):
            edits.replaced[decorator] = made_with(edits, maker, said, full)
            return
        if isinstance(decorator.decorator, cst.Call) and _first_is(
            decorator.decorator, maker
        ):  # functools.partial(jax.jit, ...)
            edits.keywords[decorator.decorator] = {**edits.keywords.get(decorator.decorator, {}), **options}
            return
    calls = [call for call in file.calls() if _names(call.func, maker) and _first_name(call) == code.co_name]
    if len(calls) != 1:
        count = format_count(len(calls), "call") if calls else "no call"
        raise Unpatchable(f"{file.name}:{code.co_firstlineno} {code.co_name} is made a graph by {count} of {maker} in its file")
    edits.keywords[calls[0]] = {**edits.keywords.get(calls[0], {}), **options}


def _said(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def made_with(edits: Edits, maker: str, options: str, full: str) -> str:
    """A decorator with options; older versions of `jax.jit` take them by
    `functools.partial` alone.
    """
    if full == MAKER:
        return f"{maker}({options})"
    partial = edits.file.spelled("functools.partial")
    if partial is None:
        edits.imports.add("functools")
    return f"{partial or 'functools.partial'}({maker}, {options})"


def _first_is(call: cst.Call, maker: str) -> bool:
    """Whether the first argument of a call is what makes functions."""
    return bool(call.args) and call.args[0].keyword is None and _names(call.args[0].value, maker)


def decorate(
    code: CodeType, edits_of: Callable[[str], Edits], maker: str = MAKER, options: Mapping[str, str] | None = None
) -> None:
    """Decorate a Python function, which runs this code, with what makes a graph of it, and its
    options. Raises Unpatchable where it is not found.
    """
    edits, named, function = _place(code, edits_of, maker)
    if function.decorators:
        raise Unpatchable(f"{edits.file.name}:{code.co_firstlineno} {code.co_name} is decorated already")
    said = _said(options or {})
    edits.decorators[function] = made_with(edits, named, said, maker) if said else named


def write_peeled(
    code: CodeType,
    peeled: Peeled,
    edits_of: Callable[[str], Edits],
    options: Mapping[str, str] | None = None,
    maker: str = MAKER,
) -> None:
    """Let a function, which runs this code, read what one of its own returns, which is a graph.
    Raises Unpatchable where it is not found.
    """
    edits, named, function = _place(code, edits_of, maker)
    if function.decorators:
        raise Unpatchable(f"{edits.file.name}:{code.co_firstlineno} {code.co_name} is decorated already")
    *body, last = function.body.body
    above = last.leading_lines if isinstance(last, cst.SimpleStatementLine) else ()
    name = edits.file.unused(f"{code.co_name}_tensors")
    decorator = made_with(edits, named, _said(options), maker) if options else named
    value = cst.parse_statement(ast.unparse(peeled.definition.body[-1]))
    assert isinstance(value, cst.SimpleStatementLine)
    inner = function.with_changes(
        name=cst.Name(name),
        decorators=[cst.Decorator(cst.parse_expression(decorator))],
        body=function.body.with_changes(body=[*body, value.with_changes(leading_lines=above)]),
    )
    outer = cst.parse_statement(peeled.wrapper(name))
    assert isinstance(outer, cst.FunctionDef)
    blank = [cst.EmptyLine(indent=False)] * (1 if isinstance(edits.file.block(function), cst.IndentedBlock) else 2)
    edits.functions[function] = (inner, outer.with_changes(params=function.params, leading_lines=blank))


def _place(code: CodeType, edits_of: Callable[[str], Edits], full: str = MAKER) -> tuple[Edits, str, cst.FunctionDef]:
    """The edits of a function's file, what that calls `full`, and the function's definition."""
    if not is_user_file(code.co_filename):
        raise Unpatchable(f"{code.co_name} is a function of a library ({os.path.basename(code.co_filename)})")
    edits = edits_of(code.co_filename)
    maker = edits.spelled(full)
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


def write_models(path: str, line: int, methods: Sequence[tuple[str, str]], edits_of: Callable[[str], Edits]) -> None:
    """Let methods of models (their names, and `call` or `predict`) run as graphs, by statements
    before the loop at a line. Raises Unpatchable where that is not found.
    """
    edits = edits_of(path)
    loop, maker = edits.file.starting(line, (cst.For, cst.While)), edits.spelled(MAKER)
    if loop is None:
        raise Unpatchable(
            f"the models that the loop at {edits.file.name}:{line} calls were not written: the file was edited since"
        )
    graphs = {CALL: maker, PREDICT: edits.file.unused("predicted")}
    shared = [PREDICTED.format(name=graphs[PREDICT], maker=maker)] if any(method == PREDICT for _, method in methods) else []
    made = [
        f"{name}.{method} = {graphs[method]}({name}{'' if method == PREDICT else f'.{method}'})" for name, method in methods
    ]
    edits.before[loop] = [*cst.parse_module("\n".join([*shared, *made])).body]


def write_outline(
    outline: Outline, edits_of: Callable[[str], Edits], options: Mapping[str, str] | None = None, full: str = MAKER
) -> None:
    """Edit the file of a loop; `options` of the graph. Raises Unpatchable where the statements are
    not found.
    """
    edits = edits_of(outline.file)
    file, maker = edits.file, edits.spelled(full)
    where = f"{file.name}:{outline.first}"
    loop = file.starting(outline.loop_line, (cst.For, cst.While))
    first, *looks = (file.starting(line, STATEMENTS) for line in (outline.first, *outline.looks))
    if loop is None or first is None or None in looks:
        raise Unpatchable(f"the statements at {where} were not found: the file was edited since")
    edits.outlined[first] = outline.statements, [cst.parse_statement(outline.call), *looks]
    decorator = made_with(edits, maker, _said(options), full) if options else maker
    made = cst.parse_statement(f"@{decorator}\n{outline.text}")
    if outline.aside:
        edits.above[file.top(loop)] = [made]
        return
    edits.before[loop] = [made]


_ARGUMENTS = {"optimizer", "loss", "metrics", "loss_weights", "jit_compile", "steps_per_execution", "run_eagerly"}


def compile_call(
    script: str, read: Callable[[str], SourceFile], at: tuple[str, int] | None = None
) -> tuple[SourceFile, cst.Call]:
    """The call at a known place (`at`: file and line), else that in the file that trains, else in
    the one module beside it that compiles.

    Raises Unpatchable where there is none, or more than one, or its arguments come out of a
    dictionary.
    """
    name = os.path.basename(script)
    found = _at(at, read) if at is not None else []
    if len(found) != 1:
        found = [(read(script), call) for call in _calls(read(script))]
    if not found:
        found = [(read(path), call) for path in _modules_beside(script) for call in _calls(read(path))]
    if len(found) != 1:
        raise Unpatchable(
            f"{name} has {format_count(len(found), 'call') if found else 'no call'} of compile: which one it is, is not known"
        )
    file, call = found[0]
    if any(arg.star == "**" for arg in call.args):
        raise Unpatchable(f"{file.name}:{file.position(call).start.line} gives compile its arguments as a dictionary")
    return file, call


def write_compile(model: Any, keywords: Mapping[str, str], edits_of: Callable[[str], Edits], script: str | None = None) -> None:
    """Give the call that compiled a model some keywords; `script`: the file that trains it. Raises
    Unpatchable where it is not known, or not found.
    """
    place = compiled_at(model)
    start = script or (place[0] if place is not None else None)
    if start is None:
        raise Unpatchable("where the model was compiled is not known")
    file, call = compile_call(start, lambda path: edits_of(path).file, place)
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
    """Decorate methods of a user's class (by name), and give `super().__init__` keywords;
    `edits_of`: those of a file by its path.

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
