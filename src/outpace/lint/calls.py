# SPDX-License-Identifier: Apache-2.0
"""Evaluation of calls in a file: the tf.data vocabulary (which calls create or continue a data set,
and the names of their arguments), functions of the file, `fit` and iteration.
"""

from __future__ import annotations

import ast
from itertools import product
from typing import Protocol

from outpace.lint.source import SourceFile
from outpace.lint.values import (
    MAX_PATHS,
    ConstantValue,
    DatasetPath,
    DatasetUse,
    DatasetValue,
    DefinitionValue,
    Frame,
    InstanceValue,
    Scope,
    SequenceValue,
    Stage,
    Value,
)
from outpace.pyscope.nodes import FUNCTIONS

DATASET_PARAMETERS: dict[str, tuple[str, ...]] = {
    "map": ("map_func", "num_parallel_calls", "deterministic"),
    "interleave": ("map_func", "cycle_length", "block_length", "num_parallel_calls", "deterministic"),
    "flat_map": ("map_func",),
    "filter": ("predicate",),
    "batch": ("batch_size", "drop_remainder", "num_parallel_calls"),
    "padded_batch": ("batch_size", "padded_shapes", "padding_values", "drop_remainder"),
    "ragged_batch": ("batch_size", "drop_remainder"),
    "shuffle": ("buffer_size", "seed", "reshuffle_each_iteration"),
    "prefetch": ("buffer_size",),
    "cache": ("filename",),
    "shard": ("num_shards", "index"),
    "repeat": ("count",),
    "take": ("count",),
    "skip": ("count",),
    "list_files": ("file_pattern", "shuffle", "seed"),
    "from_generator": ("generator",),
    "apply": ("transformation_func",),
}
DATASET_METHODS = frozenset(DATASET_PARAMETERS) - {"list_files", "from_generator"} | {
    "window", "unbatch", "with_options", "enumerate", "concatenate", "rebatch", "group_by_window", "bucket_by_sequence_length",
    "snapshot", "scan", "take_while", "unique", "ignore_errors", "rejection_resample", "sparse_batch",
}  # fmt: skip
ITERATOR_METHODS = frozenset({"as_numpy_iterator", "make_one_shot_iterator", "make_initializable_iterator", "__iter__"})
CREATORS = frozenset(
    {
        "from_tensors", "from_tensor_slices", "from_generator", "range", "zip", "list_files", "load", "random", "counter",
        "sample_from_datasets", "choose_from_datasets",
    }
)  # fmt: skip
READERS = frozenset({"TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "CsvDataset", "SqlDataset"})
BATCHING_OPS = frozenset(
    {"batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length", "map_and_batch"}
)
UNBATCHING_OPS = frozenset({"unbatch", "flat_map", "interleave", "window"})
KERAS_SOURCES = frozenset(
    f"{place}.{kind}_dataset_from_directory"
    for place in ("keras.utils", "keras.preprocessing", "keras.preprocessing.image", "keras.preprocessing.text")
    for kind in ("image", "text", "audio")
) | {"keras.utils.timeseries_dataset_from_array", "keras.preprocessing.timeseries_dataset_from_array"}
LOADERS = frozenset({"tensorflow_datasets.load", "tensorflow_datasets.as_dataset"})
MULTI_DATASET_SOURCES = KERAS_SOURCES | LOADERS  # calls that may return several data sets at once
_EVIDENT = frozenset({"prefetch", "interleave", "padded_batch", "unbatch", "with_options"})


def source_op(name: str) -> str | None:
    """Return the op of a data set source for its full name; None where the name is no source."""
    if name in MULTI_DATASET_SOURCES:
        return name
    prefix, _, last = name.rpartition(".")
    if prefix in ("tensorflow.data.Dataset", "tensorflow.data.experimental") and last in CREATORS:
        return last
    if prefix in ("tensorflow.data", "tensorflow.data.experimental") and last in READERS:
        return last
    if name == "tensorflow.data.experimental.make_csv_dataset":
        return "make_csv_dataset"
    return None


def is_batched_source(op: str, call: ast.Call) -> bool:
    """Whether a source's elements are batches already."""
    arguments = {word.arg: word.value for word in call.keywords}
    size = arguments.get("batch_size")
    if isinstance(size, ast.Constant) and size.value is None:
        return False
    return op in KERAS_SOURCES or op == "make_csv_dataset" or (op in LOADERS and size is not None)


def bind_arguments(op: str, call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of a call by name; the name `**` is present where the call passes on
    arguments that the file does not show.
    """
    arguments: dict[str, ast.expr] = {}
    for name, value in zip(DATASET_PARAMETERS.get(op, ()), call.args, strict=False):
        if isinstance(value, ast.Starred):
            arguments["**"] = value
            break
        arguments[name] = value
    arguments.update({word.arg or "**": word.value for word in call.keywords})
    return arguments


def is_dataset_call(call: ast.Call) -> bool:
    """Whether a method call is one that only a tf.data set has, for any owner."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _EVIDENT:
        return True
    return call.func.attr in ("map", "batch") and any(word.arg == "num_parallel_calls" for word in call.keywords)


def chain_root(node: ast.expr) -> ast.expr:
    """Return the expression that a chain of method calls starts from: `x` of
    `x.map(f).batch(8)`.
    """
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DATASET_METHODS:
        node = node.func.value
    return node


def dotted_name(node: ast.expr) -> str:
    """Return `x` or `self.x` as text; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def find_dataset_names(source: SourceFile) -> dict[ast.AST, set[str]]:
    """Return, for each function, the names on which it calls a method that only
    tf.data sets have.
    """
    names: dict[ast.AST, set[str]] = {}
    for node in source.nodes:
        if isinstance(node, ast.Call) and is_dataset_call(node):
            name = dotted_name(chain_root(node))
            if name and not source.qualified_name(chain_root(node)):
                names.setdefault(source.enclosing_function(node) or source.tree, set()).add(name)
    return names


_THROUGH = frozenset({"enumerate", "iter", "list", "reversed", "tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm"})
_DISTRIBUTE = frozenset({"experimental_distribute_dataset", "distribute_dataset"})
_DISTRIBUTE_FROM = frozenset({"distribute_datasets_from_function", "experimental_distribute_datasets_from_function"})
_CONSUME = {"fit": "fit", "fit_generator": "fit", "evaluate": "evaluate", "predict": "evaluate"}
_WITH_FUNCTION = frozenset({"map", "interleave", "flat_map", "filter", "from_generator"})
_CONSTANTS = ("batch_size", "cycle_length", "reshuffle_each_iteration", "buffer_size", "shuffle", "num_parallel_calls", "count")


class Evaluator(Protocol):
    """Evaluator of the rest of a file (implemented in `dataset_analysis.py`)."""

    source: SourceFile
    stages: list[Stage]
    uses: list[DatasetUse]

    def call_function(self, function: DefinitionValue, bound: Scope, frame: Frame) -> Value:
        """Evaluate a function at its call and return its result."""

    def evaluate(self, node: ast.expr | None, frame: Frame) -> Value:
        """Return the value of an expression."""

    def get_attribute(self, node: ast.Attribute, owner: Value, frame: Frame) -> Value:
        """Return the value of an attribute."""


class CallEvaluator:
    """Evaluator of the calls of one file, for an `Evaluator` of its other expressions."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._chains = evaluator

    def evaluate(self, node: ast.Call, frame: Frame) -> Value:
        """Return the value that a call returns."""
        op = source_op(self._chains.source.called_name(node))
        if op is not None:
            return self._stage(op, node, self._datasets_in(self._arguments(node, frame)), frame)
        if isinstance(node.func, ast.Attribute):
            owner = self._owner(node.func, frame)
            if isinstance(owner, DatasetValue):
                return self._method(node.func.attr, node, owner, frame)
            return self._other_call(node, self._chains.get_attribute(node.func, owner, frame), frame)
        return self._other_call(node, self._chains.evaluate(node.func, frame), frame)

    def _owner(self, func: ast.Attribute, frame: Frame) -> Value:
        if func.attr in DATASET_METHODS or func.attr in ITERATOR_METHODS or not isinstance(func.value, ast.Name):
            return self._chains.evaluate(func.value, frame)
        return frame.find(func.value.id)

    def _method(self, op: str, node: ast.Call, owner: DatasetValue, frame: Frame) -> Value:
        if op in ITERATOR_METHODS:
            return owner
        values = self._arguments(node, frame)
        if op not in DATASET_METHODS:
            self._chains.uses.append(DatasetUse("elsewhere", node, owner))
            return None
        if op == "apply" and node.args:
            function = self._chains.evaluate(node.args[0], frame)
            if isinstance(function, DefinitionValue):
                return self._enter(function, [owner], {}, frame)
        concatenated = self._datasets_in(values) if op == "concatenate" else []
        return self._stage(op, node, [owner, *concatenated], frame)

    def _stage(self, op: str, node: ast.Call, inputs: list[DatasetValue], frame: Frame) -> DatasetValue:
        """Return a data set with the new stage, added once for each path of its inputs."""
        arguments = bind_arguments(op, node)
        constants = {name: self._constant(arguments[name], frame) for name in _CONSTANTS if name in arguments}
        function = self._function(op, arguments, frame)
        paths: list[DatasetPath] = []
        for combination in product(*(value.paths for value in inputs)):
            path: DatasetPath | None = DatasetPath(combination[0].stage if combination else Stage(op, node), frame.conditions)
            for part in combination:
                path = path and path.add_conditions(part.conditions)
            if path is None or len(paths) >= MAX_PATHS:
                continue
            stage = Stage(
                self._applied_op(node, op), node, tuple(part.stage for part in combination), arguments, constants, function, frame.conditions,
                is_batched_source(op, node), frame.is_nested,
            )  # fmt: skip
            self._chains.stages.append(stage)
            paths.append(DatasetPath(stage, path.conditions))
        return DatasetValue(tuple(paths))

    def _applied_op(self, node: ast.Call, op: str) -> str:
        """Return the op of an `apply` call: `map_and_batch` for
        `.apply(tf.data.experimental.map_and_batch(...))`.
        """
        name = self._chains.source.called_name(node.args[0]) if op == "apply" and node.args else ""
        prefix, _, last = name.rpartition(".")
        return last if prefix == "tensorflow.data.experimental" else op

    def _function(self, op: str, arguments: dict[str, ast.expr], frame: Frame) -> ast.AST | None:
        """Return the function that a stage runs: its definition where the file contains it,
        otherwise the expression that names it.
        """
        if op not in _WITH_FUNCTION:
            return None
        expression = arguments.get(DATASET_PARAMETERS[op][0])
        value = self._chains.evaluate(expression, frame) if expression is not None else None
        if not isinstance(value, DefinitionValue):
            return expression
        if op in ("interleave", "flat_map"):
            inner, frame.is_nested = frame.is_nested, True
            self._enter(value, [], {}, frame)
            frame.is_nested = inner
        return value.node

    def _constant(self, node: ast.expr, frame: Frame) -> object:
        value = self._chains.evaluate(node, frame)
        return value.value if isinstance(value, ConstantValue) else ...

    def _other_call(self, node: ast.Call, function: Value, frame: Frame) -> Value:
        """Return the value of a call of anything but a data set: a function or class of the file,
        Keras, the iteration protocol, or unknown code.
        """
        name = self._chains.source.called_name(node) or ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if isinstance(function, DefinitionValue):
            return self._local_call(node, function, frame)
        positional = [self._chains.evaluate(item, frame) for item in node.args]
        keywords = {word.arg or "**": self._chains.evaluate(word.value, frame) for word in node.keywords}
        first = positional[0] if positional else None
        if isinstance(first, DatasetValue) and (name in _THROUGH or last in _DISTRIBUTE):
            return first
        if last in _DISTRIBUTE_FROM and isinstance(first, DefinitionValue):
            return self._enter(first, [], {}, frame)
        self._add_uses(node, last, positional, keywords)
        return None

    def _add_uses(self, node: ast.Call, name: str, positional: list[Value], keywords: Scope) -> None:
        kinds: list[tuple[str, Value]] = [(_CONSUME.get(name, "elsewhere"), value) for value in positional[:1]]
        kinds += [("elsewhere", value) for value in positional[1:]]
        for word, value in keywords.items():
            kind = (
                _CONSUME.get(name, "elsewhere") if word == "x" else "validation" if word == "validation_data" else "elsewhere"
            )
            kinds.append((kind, value))
        for kind, value in kinds:
            for dataset in self._datasets_in([value]):
                self._chains.uses.append(DatasetUse("next" if name == "next" else kind, node, dataset))

    def _local_call(self, node: ast.Call, function: DefinitionValue, frame: Frame) -> Value:
        positional = [None if isinstance(item, ast.Starred) else self._chains.evaluate(item, frame) for item in node.args]
        keywords = {word.arg: self._chains.evaluate(word.value, frame) for word in node.keywords if word.arg is not None}
        if not isinstance(function.node, ast.ClassDef):
            return self._enter(
                function, positional, keywords, frame, use_defaults=not any(word.arg is None for word in node.keywords)
            )
        instance = InstanceValue(function.node)
        for item in function.node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                self._enter(DefinitionValue(item, instance), positional, keywords, frame)
        return instance

    def _enter(
        self, function: DefinitionValue, positional: list[Value], keywords: Scope, frame: Frame, use_defaults: bool = True
    ) -> Value:
        """Evaluate a function of the file and return its result; parameters without an argument
        take their default where `use_defaults` is set.
        """
        node = function.node
        if not isinstance(node, FUNCTIONS):
            return None
        names = [item.arg for item in [*node.args.posonlyargs, *node.args.args]]
        free = names[1:] if function.owner is not None else names
        bound: Scope = dict(zip(free, positional, strict=False))
        bound.update({name: value for name, value in keywords.items() if name in names or name in _keyword_only(node)})
        if use_defaults:
            for name, default in _defaults(node).items():
                if name not in bound:
                    bound[name] = self._chains.evaluate(default, frame)
        return self._chains.call_function(function, bound, frame)

    def _arguments(self, node: ast.Call, frame: Frame) -> list[Value]:
        return [self._chains.evaluate(item, frame) for item in [*node.args, *(word.value for word in node.keywords)]]

    def _datasets_in(self, values: list[Value]) -> list[DatasetValue]:
        """Return the data sets among values, including those inside tuples and lists."""
        datasets: list[DatasetValue] = []
        for value in values:
            if isinstance(value, DatasetValue):
                datasets.append(value)
            elif isinstance(value, SequenceValue):
                datasets += self._datasets_in(list(value.values))
        return datasets


def _keyword_only(node: ast.AST) -> list[str]:
    return [item.arg for item in node.args.kwonlyargs] if isinstance(node, FUNCTIONS) else []


def _defaults(node: ast.AST) -> dict[str, ast.expr]:
    if not isinstance(node, FUNCTIONS):
        return {}
    names = [item.arg for item in [*node.args.posonlyargs, *node.args.args]]
    defaults = dict(zip(names[len(names) - len(node.args.defaults) :], node.args.defaults, strict=True))
    defaults.update(
        {item.arg: value for item, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value is not None}
    )
    return defaults
