"""TensorFlow's classes of data sets: the public operation that builds each, and a map as it was
traced over another input.

Private API: a class that is not named here is of a kind that nobody knows, and nothing is said of
its elements.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any

OPERATIONS = {
    "_MapDataset": "map",
    "_ParallelMapDataset": "map",
    "_BatchDataset": "batch",
    "_ParallelBatchDataset": "batch",
    "_PaddedBatchDataset": "padded_batch",
    "_RebatchDataset": "rebatch",
    "_DenseToRaggedDataset": "ragged_batch",
    "_DenseToSparseBatchDataset": "sparse_batch",
    "_UnbatchDataset": "unbatch",
    "_RestructuredDataset": "restructure",
    "CacheDataset": "cache",
    "_ShuffleDataset": "shuffle",
    "_RepeatDataset": "repeat",
    "_TakeDataset": "take",
    "_SkipDataset": "skip",
    "_ShardDataset": "shard",
    "_PrefetchDataset": "prefetch",
    "_FilterDataset": "filter",
    "_TakeWhileDataset": "take_while",
    "_FlatMapDataset": "flat_map",
    "_InterleaveDataset": "interleave",
    "_ParallelInterleaveDataset": "interleave",
    "_ScanDataset": "scan",
    "_GroupByWindowDataset": "group_by_window",
    "_WindowDataset": "window",
    "_UniqueDataset": "unique",
    "_IgnoreErrorsDataset": "ignore_errors",
    "_AssertCardinalityDataset": "assert_cardinality",
    "_OptionsDataset": "with_options",
    "TFRecordDatasetV2": "TFRecordDataset",
    "TextLineDatasetV2": "TextLineDataset",
    "FixedLengthRecordDatasetV2": "FixedLengthRecordDataset",
    "_ZipDataset": "zip",
    "_ConcatenateDataset": "concatenate",
    "_DirectedInterleaveDataset": "choose_from_datasets",
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
_lock = threading.RLock()


def op_of(node: Any) -> str | None:
    """The public operation that builds such a node, or None for an unknown class."""
    return OPERATIONS.get(type(node).__name__) if type(node).__module__.startswith("tensorflow.python.data.") else None


def construct(node: Any, inputs: Sequence[Any], **changes: Any) -> Any:
    """The same map over another input, with its function as it was traced; `changes` replace
    constructor arguments. Call it inside `reused_functions()`.
    """
    names = list(inspect.signature(type(node).__init__).parameters)[2:]
    given = {name: getattr(node, f"_{name}") for name in names if hasattr(node, f"_{name}")}
    return type(node)(inputs[0], **{**given, **changes})


@contextlib.contextmanager
def reused_functions() -> Iterator[None]:
    """While open, TensorFlow's constructors take an already traced function where they would trace
    a Python function.

    Calls by other threads with Python functions pass through unchanged; the class is put back in
    any case.
    """
    from tensorflow.python.data.ops import structured_function

    with _lock:
        original = structured_function.StructuredFunctionWrapper

        def wrapper(func: Any, *args: Any, **kwargs: Any) -> Any:
            return func if isinstance(func, original) else original(func, *args, **kwargs)

        structured_function.StructuredFunctionWrapper = wrapper
        try:
            yield
        finally:
            structured_function.StructuredFunctionWrapper = original
