# SPDX-License-Identifier: Apache-2.0
"""The private names of TensorFlow that Outpace uses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from outpace.frameworks.private import PrivateName

NAMES: list[PrivateName] = []
_Name = partial(PrivateName, NAMES, "tensorflow.python")
_Data = partial(PrivateName, NAMES, "tensorflow.python.data")

FOLDER = "/tensorflow/python/"
PYTHON_OPS_FILE = _Name("ops.script_ops").file
AUTOGRAPH_FILE = _Name("autograph.pyct.loader", "__autograph_generated_file").name  # prefix of the names of rewritten files
PUBLIC_API = "._api.v2."  # in the names of the modules that the public names are published from

# Functions and graphs
CREATE_GRAPH = _Name("eager.polymorphic_function.tracing_compilation", "_create_concrete_function")  # one graph of a function
TRACE_GRAPH = _Name("framework.func_graph", "func_graph_from_py_func")
GRAPH_CLASS = _Name("framework.func_graph", "FuncGraph")
GRAPH_FUNCTIONS = _Name("framework.ops", "_functions")  # of a graph: the functions inside it, by name
JIT_COMPILE = _Name("eager.polymorphic_function.polymorphic_function", "_jit_compile")  # of a `tf.function`
DEFAULT_GRAPH = _Name("framework.ops", "get_default_graph")
OP_DEFINITION = _Name("framework.op_def_registry", "get")
PYTHON_FUNCTIONS = _Name("ops.script_ops", "_py_funcs")  # those of py_function and numpy_function, by token
INSERT_INTO_TABLE = _Name("ops.gen_lookup_ops", "lookup_table_insert_v2")
STACK = _Name("util.tf_stack", "extract_stack")
UNWRAP = _Name("util.tf_decorator", "unwrap")
CONVERT = _Name("autograph.impl.api", "tf_convert")
CONVERSION_STATUS = _Name("autograph.core.ag_ctx", "control_status_ctx")

# The process
PROFILER = _Name("profiler.profiler_v2", "_profiler")  # the session that Python began
START_PROFILER = _Name("profiler.profiler_v2", "start")  # where the Profile context manager looks it up
WRITERS = (
    *(_Name("checkpoint.checkpoint", f"Checkpoint.{name}") for name in ("save", "write")),
    _Name("checkpoint.checkpoint_management", "CheckpointManager.save"),
    _Name("saved_model.save", "save"),
)

# Random numbers
GET_SEED = _Name("framework.random_seed", "get_seed")
_Drawn, _Seeded = partial(_Name, "ops.random_ops"), partial(_Name, "ops.stateless_random_ops")  # by a state, by a seed
_KINDS = {"uniform": "random_uniform", "normal": "random_normal", "truncated": "truncated_normal"}
STATEFUL_RANDOM = {kind: _Drawn(name) for kind, name in _KINDS.items()}
STATELESS_RANDOM = {kind: _Seeded(f"stateless_{name}") for kind, name in _KINDS.items()}
RANDOM_TWINS = (
    (_Drawn("random_poisson_v2"), _Seeded("stateless_random_poisson")),
    (_Drawn("random_gamma"), _Seeded("stateless_random_gamma")),
    (_Drawn("categorical"), _Seeded("stateless_categorical")),
    (_Drawn("random_shuffle"), _Seeded("stateless_shuffle")),
)

# tf.data
ITERATOR_CLASS = _Data("ops.iterator_ops", "OwnedIterator")  # of `iter(dataset)`
READ_NEXT = _Data("ops.iterator_ops", "OwnedIterator._next_internal")
READ_DATASET = _Data("ops.iterator_ops", "_dataset")  # of an iterator
VARIANT = _Data("ops.dataset_ops", "_variant_tensor")  # of a data set, as of nothing else
DATASET_FUNCTIONS = _Data("ops.dataset_ops", "_functions")  # of a data set: gives what it has traced
_INPUTS = _Data("ops.dataset_ops", "_inputs")
READER_DATASET = _Data("ops.readers", "_impl")  # of a file reader: the data set that it hides
MAP_FUNCTION = _Data("ops.map_op", "_map_func")
PREDICATE = _Data("ops.filter_op", "_predicate")
SCAN_FUNCTION = _Data("ops.scan_op", "_scan_func")
BATCH_SIZE = _Data("ops.batch_op", "_batch_size")
RERANDOMIZE, *SEEDS = (_Data("ops.random_op", name) for name in ("_rerandomize", "_seed", "_seed2"))
FUNCTION_WRAPPER = _Data("ops.structured_function", "StructuredFunctionWrapper")  # what data sets trace functions with
WRAPPED_FUNCTION = _Data("ops.structured_function", "_func")  # of a wrapper, or of a function of py_function
INPUT_STRUCTURE = _Data("ops.structured_function", "_input_structure")  # of a wrapper
FLATTEN = _Data("util.structure", "to_tensor_list")
GENERATOR_CLASS = _Data("ops.dataset_ops", "_GeneratorState")  # of what `from_generator` keeps
GENERATOR = _Data("ops.dataset_ops", "_generator")  # of such an object
_CLASSES = (
    ("ops.map_op", "map", "_MapDataset", "_ParallelMapDataset"),
    ("ops.batch_op", "batch", "_BatchDataset", "_ParallelBatchDataset"),
    ("ops.padded_batch_op", "padded_batch", "_PaddedBatchDataset"), ("ops.rebatch_op", "rebatch", "_RebatchDataset"),
    ("ops.ragged_batch_op", "ragged_batch", "_DenseToRaggedDataset"),
    ("ops.sparse_batch_op", "sparse_batch", "_DenseToSparseBatchDataset"), ("ops.unbatch_op", "unbatch", "_UnbatchDataset"),
    ("ops.dataset_ops", "restructure", "_RestructuredDataset"), ("ops.dataset_ops", "with_options", "_OptionsDataset"),
    ("ops.cache_op", "cache", "CacheDataset"), ("ops.shuffle_op", "shuffle", "_ShuffleDataset"),
    ("ops.repeat_op", "repeat", "_RepeatDataset"), ("ops.take_op", "take", "_TakeDataset"), ("ops.skip_op", "skip", "_SkipDataset"),
    ("ops.shard_op", "shard", "_ShardDataset"), ("ops.prefetch_op", "prefetch", "_PrefetchDataset"),
    ("ops.filter_op", "filter", "_FilterDataset"), ("ops.take_while_op", "take_while", "_TakeWhileDataset"),
    ("ops.flat_map_op", "flat_map", "_FlatMapDataset"),
    ("ops.interleave_op", "interleave", "_InterleaveDataset", "_ParallelInterleaveDataset"),
    ("ops.scan_op", "scan", "_ScanDataset"), ("ops.group_by_window_op", "group_by_window", "_GroupByWindowDataset"),
    ("ops.window_op", "window", "_WindowDataset"), ("ops.unique_op", "unique", "_UniqueDataset"),
    ("ops.ignore_errors_op", "ignore_errors", "_IgnoreErrorsDataset"),
    ("experimental.ops.cardinality", "assert_cardinality", "_AssertCardinalityDataset"),
    ("ops.readers", "TFRecordDataset", "TFRecordDatasetV2", "_TFRecordDataset"),
    ("ops.readers", "TextLineDataset", "TextLineDatasetV2", "_TextLineDataset"),
    ("ops.readers", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "_FixedLengthRecordDataset"),
    ("ops.zip_op", "zip", "_ZipDataset"), ("ops.concatenate_op", "concatenate", "_ConcatenateDataset"),
    ("ops.directed_interleave_op", "choose_from_datasets", "_DirectedInterleaveDataset"),
    ("ops.from_tensor_slices_op", "from_tensor_slices", "_TensorSliceDataset"),
    ("ops.from_sparse_tensor_slices_op", "from_tensor_slices", "_SparseTensorSliceDataset"),
    ("ops.from_tensors_op", "from_tensors", "_TensorDataset"), ("experimental.ops.from_list", "from_list", "_ListDataset"),
    ("ops.from_generator_op", "from_generator", "_GeneratorDataset"), ("ops.range_op", "range", "_RangeDataset"),
    ("ops.random_op", "random", "_RandomDataset"), ("experimental.ops.matching_files", "list_files", "MatchingFilesDataset"),
    ("experimental.ops.readers", "make_csv_dataset", "CsvDatasetV2"),
)  # fmt: skip
OPERATIONS = {_Data(module, kind).name: operation for module, operation, *kinds in _CLASSES for kind in kinds}  # by class


def function_class(tf: Any) -> Any:
    """Return the class of what `tf.function` makes."""
    return type(tf.function(lambda: None))


def op_of(dataset: Any) -> str | None:
    """Return the public operation that builds a data set; None for an unknown class."""
    return OPERATIONS.get(type(dataset).__name__) if type(dataset).__module__.startswith("tensorflow.python.data.") else None


def inputs_of(dataset: Any) -> list[Any]:
    """Return the data sets that feed one; none for anything else."""
    return list(_INPUTS.of(dataset, list)())


def arguments_of(dataset: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return what a data set was built with, of those names that its class has."""
    return {name: getattr(dataset, f"_{name}") for name in names if hasattr(dataset, f"_{name}")}
