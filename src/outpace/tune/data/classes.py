"""The data set classes of TensorFlow that can be built again, and from which of their attributes.

Private API, so nothing is taken for granted: a class counts as known only where every parameter of its constructor is listed
here (or defaults and is listed as harmless); a newer TensorFlow that adds one makes the class unknown, and a pipeline that
needs it is refused instead of being rebuilt almost right.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import graph

Build = Callable[[Any, Sequence[Any]], Any]
_DETERMINISTIC = {"default": None, "true": True, "false": False}


@dataclass(frozen=True)
class Kind:
    """A known class. `op` is the public method that builds it, `takes` the constructor's parameters (attribute: `_` and the
    name), `functions` those that hold a traced function, `ignored` parameters without meaning once a function is traced,
    `from_graph` parameters that no attribute keeps, read from the op in the serialised graph."""

    op: str
    takes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    from_graph: tuple[str, ...] = ()
    build: Build | None = None


def shuffle(node: Any, inputs: Sequence[Any], seeds: tuple[Any, Any] | None = None) -> Any:
    """A shuffle over another input. Its seeds were split into two tensors already, so the constructor (which draws them) is passed by.

    `seeds` (two int64 tensors) take their place.
    """
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_dataset_ops

    new = _blank(node, inputs[0], ("_buffer_size", "_reshuffle_each_iteration", "_name"))
    new._seed, new._seed2 = seeds or (node._seed, node._seed2)
    variant = gen_dataset_ops.shuffle_dataset_v3(
        inputs[0]._variant_tensor,
        buffer_size=node._buffer_size,
        seed=new._seed,
        seed2=new._seed2,
        seed_generator=gen_dataset_ops.dummy_seed_generator(),
        reshuffle_each_iteration=node._reshuffle_each_iteration,
        **new._common_args,
    )
    dataset_ops.UnaryUnchangedStructureDataset.__init__(new, inputs[0], variant)
    return new


def _to_ragged(node: Any, inputs: Sequence[Any]) -> Any:
    """The constructor maps a function of its own: the traced one is taken over."""
    from tensorflow.python.data.ops import dataset_ops

    new = _blank(node, inputs[0], ("_structure", "_name"))
    new._mapped_dataset = construct(node._mapped_dataset, inputs)
    dataset_ops.UnaryDataset.__init__(new, inputs[0], new._mapped_dataset._variant_tensor)
    return new


def _prefetch(node: Any, inputs: Sequence[Any]) -> Any:
    """The constructor compares the size with a Python number."""
    return type(node)(inputs[0], int(node._buffer_size), name=node._name)


def _options(node: Any, inputs: Sequence[Any]) -> Any:
    return type(node)(inputs[0], node.options(), name=node._name)


def _restructured(node: Any, inputs: Sequence[Any]) -> Any:
    return type(node)(inputs[0], node._element_spec)


def _zip(node: Any, inputs: Sequence[Any]) -> Any:
    from tensorflow.python.data.util import nest

    return type(node)(nest.pack_sequence_as(node._datasets, list(inputs)), name=node._name)


def _concatenate(node: Any, inputs: Sequence[Any]) -> Any:
    return type(node)(inputs[0], inputs[1], name=node._name)


def _directed(node: Any, inputs: Sequence[Any]) -> Any:
    return type(node)(inputs[0], list(inputs[1:]), stop_on_empty_dataset=node._stop_on_empty_dataset)


def _reader(node: Any, inputs: Sequence[Any]) -> Any:
    """A reader is a shell around the stage that reads each file."""
    from tensorflow.python.data.ops import dataset_ops

    new = object.__new__(type(node))
    for name in (
        "_filenames",
        "_compression_type",
        "_buffer_size",
        "_num_parallel_reads",
        "_record_bytes",
        "_header_bytes",
        "_footer_bytes",
    ):
        if hasattr(node, name):
            setattr(new, name, getattr(node, name))
    new._impl = construct(node._impl, inputs)
    dataset_ops.DatasetV2.__init__(new, new._impl._variant_tensor)
    return new


def _blank(node: Any, source: Any, attributes: tuple[str, ...]) -> Any:
    new = object.__new__(type(node))
    new._input_dataset = source
    for name in attributes:
        setattr(new, name, getattr(node, name))
    return new


_MAP = ("use_inter_op_parallelism", "preserve_cardinality", "name")
_LEGACY = ("use_legacy_function",)
KINDS: dict[str, Kind] = {
    "_MapDataset": Kind("map", ("map_func", "force_synchronous", *_MAP), ("map_func",), _LEGACY),
    "_ParallelMapDataset": Kind(
        "map",
        ("map_func", "num_parallel_calls", "deterministic", "use_unbounded_threadpool", *_MAP),
        ("map_func",),
        _LEGACY,
    ),
    "_BatchDataset": Kind("batch", ("batch_size", "drop_remainder", "name")),
    "_ParallelBatchDataset": Kind("batch", ("batch_size", "drop_remainder", "num_parallel_calls", "deterministic", "name")),
    "_PaddedBatchDataset": Kind("padded_batch", ("batch_size", "padded_shapes", "padding_values", "drop_remainder", "name")),
    "_RebatchDataset": Kind("rebatch", ("batch_sizes", "drop_remainder", "name")),
    "_DenseToRaggedDataset": Kind("ragged_batch", build=_to_ragged),
    "_DenseToSparseBatchDataset": Kind("sparse_batch", ("batch_size", "row_shape", "name")),
    "_UnbatchDataset": Kind("unbatch", ("name",)),
    "_RestructuredDataset": Kind("restructure", build=_restructured),
    "CacheDataset": Kind("cache", ("filename", "name")),
    "_ShuffleDataset": Kind("shuffle", build=shuffle),
    "_RepeatDataset": Kind("repeat", ("count", "name")),
    "_TakeDataset": Kind("take", ("count", "name")),
    "_SkipDataset": Kind("skip", ("count", "name")),
    "_ShardDataset": Kind("shard", ("num_shards", "index", "name")),
    "_PrefetchDataset": Kind("prefetch", build=_prefetch),
    "_FilterDataset": Kind("filter", ("predicate", "name"), ("predicate",), _LEGACY),
    "_TakeWhileDataset": Kind("take_while", ("predicate", "name"), ("predicate",)),
    "_FlatMapDataset": Kind("flat_map", ("map_func", "name"), ("map_func",)),
    "_InterleaveDataset": Kind("interleave", ("map_func", "cycle_length", "block_length", "name"), ("map_func",)),
    "_ParallelInterleaveDataset": Kind(
        "interleave",
        (
            "map_func",
            "cycle_length",
            "block_length",
            "num_parallel_calls",
            "buffer_output_elements",
            "prefetch_input_elements",
            "name",
        ),
        ("map_func",),
        from_graph=("deterministic",),
    ),
    "_ScanDataset": Kind("scan", ("initial_state", "scan_func", "name"), ("scan_func",), ("use_default_device",)),
    "_GroupByWindowDataset": Kind(
        "group_by_window",
        ("key_func", "reduce_func", "window_size_func", "name"),
        ("key_func", "reduce_func", "window_size_func"),
    ),
    "_WindowDataset": Kind("window", ("size", "shift", "stride", "drop_remainder", "name")),
    "_UniqueDataset": Kind("unique", ("name",)),
    "_IgnoreErrorsDataset": Kind("ignore_errors", ("name",), from_graph=("log_warning",)),
    "_AssertCardinalityDataset": Kind("assert_cardinality", ("expected_cardinality",)),
    "_OptionsDataset": Kind("with_options", build=_options),
    "TFRecordDatasetV2": Kind("TFRecordDataset", build=_reader),
    "TextLineDatasetV2": Kind("TextLineDataset", build=_reader),
    "FixedLengthRecordDatasetV2": Kind("FixedLengthRecordDataset", build=_reader),
    "_ZipDataset": Kind("zip", build=_zip),
    "_ConcatenateDataset": Kind("concatenate", build=_concatenate),
    "_DirectedInterleaveDataset": Kind("choose_from_datasets", build=_directed),
}
# Sources are never built again (a big array is not copied): the same object serves the rewritten pipeline.
SOURCES = {
    "_TensorSliceDataset": "from_tensor_slices",
    "_TensorDataset": "from_tensors",
    "_SparseTensorSliceDataset": "from_tensor_slices",
    "_ListDataset": "from_list",
    "_GeneratorDataset": "from_generator",
    "_RangeDataset": "range",
    "_RandomDataset": "random",
    "MatchingFilesDataset": "list_files",
    "_TFRecordDataset": "TFRecordDataset",
    "_TextLineDataset": "TextLineDataset",
    "_FixedLengthRecordDataset": "FixedLengthRecordDataset",
    "CsvDatasetV2": "make_csv_dataset",
}


def kind_of(node: Any) -> Kind | None:
    """The node's entry, or None when the class, or one parameter of its constructor, is not known."""
    kind = KINDS.get(type(node).__name__)
    if kind is None or not type(node).__module__.startswith("tensorflow.python.data."):
        return None
    return kind if kind.build is not None or not _unknown_parameters(node, kind) else None


def op_of(node: Any) -> str | None:
    """The public operation that builds such a node, or None for an unknown class."""
    kind = kind_of(node)
    return kind.op if kind is not None else SOURCES.get(type(node).__name__)


def construct(node: Any, inputs: Sequence[Any], **changes: Any) -> Any:
    """The same stage over other inputs, with its functions as they were traced; `changes` replace constructor arguments.

    Raises RebuildError for an unknown class, or where an argument cannot be recovered. Call it inside `reused_functions()`.
    """
    kind = kind_of(node)
    if kind is None:
        raise RebuildError(unknown(node))
    if kind.build is not None:
        return kind.build(node, inputs)
    return type(node)(inputs[0], **{**arguments(node, kind), **changes})


def arguments(node: Any, kind: Kind) -> dict[str, Any]:
    """Constructor arguments of a node, as its attributes hold them."""
    given = {}
    for name in kind.takes:
        if hasattr(node, f"_{name}"):
            given[name] = getattr(node, f"_{name}")
        elif name in _parameters(node):
            raise RebuildError(f"{type(node).__name__} keeps no value of its argument {name}, so it cannot be built again.")
    given.update({name: graph.attribute(node, name) for name in kind.from_graph})
    if isinstance(given.get("deterministic"), str):
        given["deterministic"] = _DETERMINISTIC[given["deterministic"]]
    return given


def unknown(node: Any) -> str:
    """Why a node cannot be built again, as a sentence."""
    name = type(node).__name__
    kind = KINDS.get(name)
    if kind is not None and type(node).__module__.startswith("tensorflow.python.data."):
        extra = ", ".join(sorted(_unknown_parameters(node, kind)))
        return f"This TensorFlow's {name} takes arguments that are not known here ({extra}), so it cannot be built again faithfully."
    if "Snapshot" in name or "Save" in name:
        return f"{name} keys its files by the stages before it: building it again would write the files again."
    return f"The class {name} is not one that can be built again faithfully."


def _parameters(node: Any) -> set[str]:
    return set(list(inspect.signature(type(node).__init__).parameters)[2:])


def _unknown_parameters(node: Any, kind: Kind) -> set[str]:
    return _parameters(node) - set(kind.takes) - set(kind.ignored) - set(kind.from_graph)


_lock = threading.RLock()


@contextlib.contextmanager
def reused_functions() -> Iterator[None]:
    """While open, TensorFlow's constructors take an already traced function where they would trace a Python function.

    Calls by other threads with Python functions pass through unchanged; the class is put back in any case.
    """
    from tensorflow.python.data.ops import structured_function

    with _lock:
        original = structured_function.StructuredFunctionWrapper

        def wrapper(func: Any, *args: Any, **kwargs: Any) -> Any:
            traced = _traced(func, original)
            return original(func, *args, **kwargs) if traced is None else traced

        structured_function.StructuredFunctionWrapper = wrapper
        try:
            yield
        finally:
            structured_function.StructuredFunctionWrapper = original


def _traced(func: Any, kind: Any) -> Any:
    """The traced function itself, also inside the closure that a constructor put around it (group_by_window does)."""
    if isinstance(kind, type) and isinstance(func, kind):
        return func
    for cell in getattr(func, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            if isinstance(kind, type) and isinstance(cell.cell_contents, kind):
                return cell.cell_contents
    return None
