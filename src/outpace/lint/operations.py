"""The tf.data vocabulary: which calls make a data set, which continue one, what their arguments are called."""

from __future__ import annotations

import ast

from outpace.lint.source import Source

PARAMETERS: dict[str, tuple[str, ...]] = {
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
METHODS = frozenset(PARAMETERS) - {"list_files", "from_generator"} | {
    "window", "unbatch", "with_options", "enumerate", "concatenate", "rebatch", "group_by_window", "bucket_by_sequence_length",
    "snapshot", "scan", "take_while", "unique", "ignore_errors", "rejection_resample", "sparse_batch",
}  # fmt: skip
PASSING = frozenset({"as_numpy_iterator", "make_one_shot_iterator", "make_initializable_iterator", "__iter__"})
CREATORS = frozenset(
    {
        "from_tensors", "from_tensor_slices", "from_generator", "range", "zip", "list_files", "load", "random", "counter",
        "sample_from_datasets", "choose_from_datasets",
    }
)  # fmt: skip
READERS = frozenset({"TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "CsvDataset", "SqlDataset"})
BATCHING = frozenset({"batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length", "map_and_batch"})
UNBATCHING = frozenset({"unbatch", "flat_map", "interleave", "window"})
KERAS_SOURCES = frozenset(
    f"{place}.{kind}_dataset_from_directory"
    for place in ("keras.utils", "keras.preprocessing", "keras.preprocessing.image", "keras.preprocessing.text")
    for kind in ("image", "text", "audio")
) | {"keras.utils.timeseries_dataset_from_array", "keras.preprocessing.timeseries_dataset_from_array"}
LOADERS = frozenset({"tensorflow_datasets.load", "tensorflow_datasets.as_dataset"})
SPLITTING = KERAS_SOURCES | LOADERS  # these may return several data sets at once
_EVIDENT = frozenset({"prefetch", "interleave", "padded_batch", "unbatch", "with_options"})


def source_of(name: str) -> str | None:
    """The op of a data set source by its full name; None when the name is none."""
    if name in SPLITTING:
        return name
    prefix, _, last = name.rpartition(".")
    if prefix in ("tensorflow.data.Dataset", "tensorflow.data.experimental") and last in CREATORS:
        return last
    if prefix in ("tensorflow.data", "tensorflow.data.experimental") and last in READERS:
        return last
    if name == "tensorflow.data.experimental.make_csv_dataset":
        return "make_csv_dataset"
    return None


def batches_itself(op: str, call: ast.Call) -> bool:
    """Whether a source's elements are batches already."""
    given = {word.arg: word.value for word in call.keywords}
    size = given.get("batch_size")
    if isinstance(size, ast.Constant) and size.value is None:
        return False
    return op in KERAS_SOURCES or op == "make_csv_dataset" or (op in LOADERS and size is not None)


def arguments(op: str, call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by name; `**` where the call passes on arguments that the file does not show."""
    found: dict[str, ast.expr] = {}
    for name, value in zip(PARAMETERS.get(op, ()), call.args, strict=False):
        if isinstance(value, ast.Starred):
            found["**"] = value
            break
        found[name] = value
    found.update({word.arg or "**": word.value for word in call.keywords})
    return found


def evident(call: ast.Call) -> bool:
    """Whether a method call is one that only a tf.data set has, whatever it is called on."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _EVIDENT:
        return True
    return call.func.attr in ("map", "batch") and any(word.arg == "num_parallel_calls" for word in call.keywords)


def root(node: ast.expr) -> ast.expr:
    """What a chain of method calls starts from: `x` of `x.map(f).batch(8)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        node = node.func.value
    return node


def key(node: ast.expr) -> str:
    """`x` or `self.x` as text; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def evident_names(source: Source) -> dict[ast.AST, set[str]]:
    """Names by function that carry a method which only tf.data sets have."""
    found: dict[ast.AST, set[str]] = {}
    for node in source.nodes:
        if isinstance(node, ast.Call) and evident(node):
            name = key(root(node))
            if name and not source.qualified(root(node)):
                found.setdefault(source.function_around(node) or source.tree, set()).add(name)
    return found
