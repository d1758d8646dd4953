# SPDX-License-Identifier: Apache-2.0
"""Properties of functions when TensorFlow traces them, as far as the file shows: from their own
bodies and the functions that they call in this file.

Which of these traits keep `map` sequential was measured with TensorFlow 2.21: random operations
(also inside Keras layers), captured variables, lookup tables and Python functions do; file reads,
decoding and arithmetic do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum

from outpace.lint.source import SourceFile
from outpace.pyscope.nodes import DEFINITIONS, FUNCTIONS, SCOPES, Function, is_read, is_stored, iter_scope, parameter_names


class Trait(str, Enum):
    """One property of a traced function; the value completes the sentence "its function ..."."""

    RANDOM = "draws random numbers"
    PYTHON = "calls Python"
    VARIABLE = "uses a variable"
    TABLE = "uses a lookup table"
    DECODES = "reads or decodes a file"
    GROWS = "makes the elements larger"


STATEFUL = (Trait.PYTHON, Trait.RANDOM, Trait.VARIABLE, Trait.TABLE)
PYTHON_CALLS = ("tensorflow.py_function", "tensorflow.numpy_function", "tensorflow.compat.v1.py_func", "tensorflow.py_func")
_LOOKUP_LAYERS = ("keras.layers.StringLookup", "keras.layers.IntegerLookup", "keras.layers.TextVectorization")
_DECODERS = frozenset(
    {
        "read_file", "decode_image", "decode_jpeg", "decode_png", "decode_bmp", "decode_gif", "decode_and_crop_jpeg", "decode_compressed",
        "decode_wav",
    }
)  # fmt: skip
_READERS_IN_PYTHON = frozenset(
    {"open", "imread", "load", "loadtxt", "genfromtxt", "fromfile", "read", "read_bytes", "read_csv"}
)
_GROWERS = ("tensorflow.image.resize", "tensorflow.image.convert_image_dtype", "tensorflow.one_hot")
_WRAPPERS = ("functools.partial", "tensorflow.function", "tensorflow.autograph.experimental.do_not_convert")
_DEPTH = 6


class FunctionResolver:
    """Resolver of names in a file to functions, and of functions to their traits."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self._bindings: dict[ast.AST, dict[str, list[ast.AST]]] = {}
        self._class_members: dict[ast.ClassDef, dict[str, list[ast.AST]]] = {}
        self._traits: dict[ast.AST, frozenset[Trait]] = {}

    def resolve(self, node: ast.AST | None, depth: int = _DEPTH) -> ast.AST | None:
        """Return the function, lambda, class or value that an expression names in this file; None
        where it is not unique.
        """
        if node is None or depth == 0:
            return None
        if isinstance(node, SCOPES):
            return node
        if isinstance(node, ast.Name):
            definition = self._lookup(node)
            return self.resolve(definition, depth - 1) or definition
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self._member(node, depth)
        if isinstance(node, ast.Call) and self.source.called_name(node) in _WRAPPERS and node.args:
            return self.resolve(node.args[0], depth - 1)
        return None

    def resolve_function(self, node: ast.AST | None) -> Function | None:
        """Return the function or lambda that an expression names."""
        definition = self.resolve(node)
        return definition if isinstance(definition, FUNCTIONS) else None

    def traits(self, node: ast.AST | None) -> frozenset[Trait]:
        """Return the traits of the function, layer or operation that an expression names."""
        definition = self.resolve(node) or node
        if definition is None:
            return frozenset()
        if definition not in self._traits:
            self._traits[definition] = frozenset()  # result for recursive calls while the function is analysed
            self._traits[definition] = frozenset(self._definition_traits(definition))
        return self._traits[definition]

    def references(self, function: ast.AST) -> Iterator[ast.AST]:
        """Yield the functions of this file that a function calls or passes on, each once."""
        targets: set[ast.AST] = set()
        for node in iter_scope(function):
            target: ast.AST | None = None
            if isinstance(node, FUNCTIONS):
                target = node
            elif isinstance(node, (ast.Name, ast.Attribute)) and is_read(node):
                target = self.resolve(node)
            if isinstance(target, FUNCTIONS) and target not in targets:
                targets.add(target)
                yield target

    def _definition_traits(self, definition: ast.AST) -> Iterator[Trait]:
        if not isinstance(definition, SCOPES):
            yield from self._expression_traits(definition)
            return
        scopes = (
            [definition]
            if isinstance(definition, FUNCTIONS)
            else [item for item in definition.body if isinstance(item, FUNCTIONS)]
        )
        for scope in scopes:
            for node in iter_scope(scope):
                if isinstance(node, ast.Call):
                    yield from self._call(node)
                elif isinstance(node, (ast.Name, ast.Attribute)) and is_read(node):
                    yield from self._variable_traits(node)

    def _expression_traits(self, expression: ast.AST) -> Iterator[Trait]:
        """Yield the traits of a layer, a list of layers or an operation that is used as a function
        itself.
        """
        yield from _name_traits(self.source.qualified_name(expression))
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                yield from _name_traits(self.source.called_name(node))

    def _call(self, node: ast.Call) -> Iterator[Trait]:
        name = self.source.called_name(node)
        if name:
            yield from _name_traits(name)
            if name in PYTHON_CALLS and self._reads_files(node):
                yield Trait.DECODES
            return
        if isinstance(node.func, ast.Call):  # keras.layers.RandomFlip()(image)
            yield from _name_traits(self.source.called_name(node.func))
        target = self.resolve(node.func)
        if target is not None:
            yield from self.traits(target)
        elif isinstance(node.func, ast.Attribute):  # table.lookup(x), generator.uniform(...)
            yield from self._method(node.func)

    def _reads_files(self, call: ast.Call) -> bool:
        """Whether the function that a Python call of a graph runs reads or decodes files, as far as
        this file shows.
        """
        given = next((word.value for word in call.keywords if word.arg == "func"), call.args[0] if call.args else None)
        function = self.resolve_function(given)
        calls = (item.func for item in ast.walk(function) if isinstance(item, ast.Call)) if function is not None else ()
        names = (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls)
        return any(name in _READERS_IN_PYTHON or name in _DECODERS for name in names)

    def _method(self, func: ast.Attribute) -> Iterator[Trait]:
        owner = self.source.called_name(self.resolve(func.value) or func.value)
        if owner.startswith("tensorflow.random.") and "Generator" in owner:
            yield Trait.RANDOM
        elif owner.startswith("tensorflow.lookup."):
            yield Trait.TABLE

    def _variable_traits(self, node: ast.Name | ast.Attribute) -> Iterator[Trait]:
        if self.source.called_name(self.resolve(node)) in ("tensorflow.Variable", "keras.Variable"):
            yield Trait.VARIABLE

    def _lookup(self, name: ast.Name) -> ast.AST | None:
        for scope in self.source.iter_ancestors(name):
            if isinstance(scope, (*FUNCTIONS, ast.Module)):
                if name.id in parameter_names(scope):
                    return None
                values = self._in_scope(scope).get(name.id)
                if values:
                    return values[0] if len(values) == 1 else None
        return None

    def _in_scope(self, scope: ast.AST) -> dict[str, list[ast.AST]]:
        """Return what the names of a scope are bound to: functions, classes, and values of plain
        assignments.
        """
        if scope not in self._bindings:
            bindings: dict[str, list[ast.AST]] = {}
            for node in iter_scope(scope):
                if isinstance(node, (*DEFINITIONS, ast.ClassDef)):
                    bindings.setdefault(node.name, []).append(node)
                elif isinstance(node, ast.Name) and is_stored(node):
                    bindings.setdefault(node.id, []).append(self._assigned_value(node))
            self._bindings[scope] = bindings
        return self._bindings[scope]

    def _assigned_value(self, target: ast.AST) -> ast.AST:
        """Return the value of a plain assignment to one target; the target itself where the value
        is not available.
        """
        statement = self.source.parents.get(target)
        if isinstance(statement, ast.Assign) and target in statement.targets:
            return statement.value
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            return statement.value
        return target

    def _member(self, node: ast.Attribute, depth: int) -> ast.AST | None:
        """Return a method or an attribute of the class around `self.name`."""
        enclosing = self.source.enclosing_class(node)
        if enclosing is None:
            return None
        members = self._members(enclosing).get(node.attr, [])
        return (self.resolve(members[0], depth - 1) or members[0]) if len(members) == 1 else None

    def _members(self, cls: ast.ClassDef) -> dict[str, list[ast.AST]]:
        """Return the methods of a class, and the values that its methods assign to attributes of
        `self`.
        """
        if cls not in self._class_members:
            attributes: dict[str, list[ast.AST]] = {}
            for node in ast.walk(cls):
                if isinstance(node, ast.Attribute) and is_stored(node) and getattr(node.value, "id", "") == "self":
                    attributes.setdefault(node.attr, []).append(self._assigned_value(node))
            methods: dict[str, list[ast.AST]] = {item.name: [item] for item in cls.body if isinstance(item, DEFINITIONS)}
            self._class_members[cls] = {**attributes, **methods}
        return self._class_members[cls]


def _name_traits(name: str) -> Iterator[Trait]:
    """Yield the traits of an operation or layer for its full name."""
    last = name.rpartition(".")[2]
    if name in PYTHON_CALLS:
        yield Trait.PYTHON
    elif name.startswith("tensorflow.image.random_") or name.startswith("keras.layers.Random"):
        yield Trait.RANDOM
    elif name.startswith(("tensorflow.random.", "tensorflow.random_")):
        if not last.startswith(("stateless_", "split", "fold_in", "Generator", "set_seed", "get_", "create_rng_state")):
            yield Trait.RANDOM
    elif name in _LOOKUP_LAYERS:
        yield Trait.TABLE
    elif name.startswith("tensorflow.") and last in _DECODERS:
        yield Trait.DECODES
    elif name.startswith(_GROWERS):
        yield Trait.GROWS
