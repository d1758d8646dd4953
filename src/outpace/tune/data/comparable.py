"""Copies of a pipeline that two runs can be compared with: short sources, pinned randomness, state of their own, no files.

What the pipeline leaves to chance (a shuffle or random operation without a seed, elements out of order) is fixed in the copies in
the same way, so that equality can be shown bit by bit and not by statistics.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import classes, functions, graph
from outpace.tune.data.graph import functions_of, inputs_of
from outpace.tune.data.rebuild import Edit, copied, nodes
from outpace.tune.data.tree import describe
from outpace.tune.purity import traced

_WRITERS = ("Snapshot", "Save")


class Pinning:
    """Makes comparable copies. One object serves both pipelines, so that both get the same pinned functions."""

    def __init__(self, seed: int, elements: int, every: bool = False, serial: bool = False, most: int | None = None) -> None:
        """Pin to `seed` what has no seed (`every`: also what has one), and let every source give at most `elements` elements.

        `serial`: a stateful function that runs in parallel is called one element after the other, since which of its calls draws first
        is left to chance otherwise. `most`: elements of an epoch that are compared; None before that is known.
        """
        self.most = most
        self._serial = serial
        self.seed = seed
        self._every = every
        self._elements = elements
        self._functions: dict[int, tuple[Any, Any]] = {}

    def copy(self, dataset: Any) -> Any:
        """The comparable copy. A pipeline with an unknown class is copied by its graph, unpinned.

        Raises RebuildError when neither works, or when running the copy would write files.
        """
        for node in nodes(dataset):
            if any(word in type(node).__name__ for word in _WRITERS):
                raise RebuildError(
                    f"{type(node).__name__} writes files when it runs, so a second run would not be the same run."
                )
        if any(inputs_of(node) and classes.kind_of(node) is None for node in nodes(dataset)):
            return graph.restored(graph.serialised(dataset), dataset.element_spec)
        return copied(dataset, self._edit)

    def _edit(self, node: Any) -> Edit | None:
        name = type(node).__name__
        if not inputs_of(node):
            return self._shortened
        if gives_elements(node):
            return self._fewer
        if name == "_ShuffleDataset" and (int(node._seed), int(node._seed2)) == (0, 0):
            return self._seeded
        if name == "_AssertCardinalityDataset" or (
            name == "CacheDataset" and node._filename.numpy()
        ):  # sources are shorter here
            return lambda old, inputs: inputs[0]
        if name == "_OptionsDataset":
            return _in_order
        return self._with_pinned_functions

    def _shortened(self, node: Any, inputs: Sequence[Any]) -> Any:
        from tensorflow.python.data.ops import take_op

        cardinality = int(node.cardinality())
        return node if 0 <= cardinality <= self._elements else take_op._TakeDataset(node, self._elements)

    def _fewer(self, node: Any, inputs: Sequence[Any]) -> Any:
        from tensorflow.python.data.ops import take_op

        return take_op._TakeDataset(classes.construct(node, inputs), self._elements)

    def _seeded(self, node: Any, inputs: Sequence[Any]) -> Any:
        import tensorflow as tf

        return classes.shuffle(node, inputs, (tf.constant(self.seed, tf.int64), tf.constant(1, tf.int64)))

    def _with_pinned_functions(self, node: Any, inputs: Sequence[Any]) -> Any:
        kind = classes.kind_of(node)
        changes: dict[str, Any] = {}
        for name in kind.functions if kind is not None else ():
            changes[name] = self._pinned(getattr(node, f"_{name}"))
        if self._serial and type(node).__name__ == "_ParallelMapDataset" and not traced.facts(node._map_func).repeatable:
            return _sequential(node, inputs[0], changes["map_func"])
        if getattr(node, "_deterministic", None) == "false":
            changes["deterministic"] = True
        return classes.construct(node, inputs, **changes)

    def _pinned(self, wrapper: Any) -> Any:
        if id(wrapper) not in self._functions:
            self._functions[id(wrapper)] = (wrapper, functions.pinned(wrapper, self.seed, self._every))
        return self._functions[id(wrapper)][1]


def gives_elements(node: Any) -> bool:
    """Whether a stage gives the elements of a Python generator, also of stacks of them that it takes apart: a source, although it is made of
    several data sets."""
    stage = describe(node).root
    if stage.op == "flat_map" and stage.inputs[0].op == "from_generator":
        return any(kind == "TensorSliceDataset" for kind, _ in traced.node_types(node._map_func))
    return stage.op == "from_generator"


def _sequential(node: Any, source: Any, function: Any) -> Any:
    from tensorflow.python.data.ops import map_op

    return map_op._MapDataset(source, function, preserve_cardinality=node._preserve_cardinality, name=node._name)


def _in_order(node: Any, inputs: Sequence[Any]) -> Any:
    """The options, with elements in order."""
    options = node.options()
    if options.deterministic is False:
        import tensorflow as tf

        ordered = tf.data.Options()
        ordered.deterministic = True
        options = _without_order(options).merge(ordered)
    return type(node)(inputs[0], options, name=node._name)


def _without_order(options: Any) -> Any:
    from tensorflow.core.framework import dataset_options_pb2
    from tensorflow.python.data.ops.options import Options

    proto = dataset_options_pb2.Options()
    proto.CopyFrom(options._to_proto())
    proto.ClearField("deterministic")
    made = Options()
    made._from_proto(proto)
    return made


@contextlib.contextmanager
def variables_kept(*datasets: Any) -> Iterator[None]:
    """Give every variable that a function of these pipelines captures its present value back at the end.

    Raises RebuildError when a function writes to something that cannot be read back (a mutable table).
    """
    from tensorflow.python.ops import gen_resource_variable_ops as raw

    kept = []
    for handle, dtype in _variables(datasets):
        with contextlib.suppress(Exception):  # a table or iterator, or a variable that was never set
            kept.append((handle, raw.read_variable_op(handle, dtype)))
    for dataset in datasets:
        for wrapper in _wrappers(dataset):
            tables = [kind for kind in traced.facts(wrapper).writes if kind.startswith("LookupTable") or "Enqueue" in kind]
            if tables:
                raise RebuildError(
                    f"A function of the pipeline changes a table or queue ({', '.join(tables)}): it cannot be run twice."
                )
    try:
        yield
    finally:
        for handle, value in kept:
            raw.assign_variable_op(handle, value)


def perturb_generators(dataset: Any) -> None:
    """Move every `tf.random.Generator` of the pipeline's functions to another state (inside `variables_kept`, which puts it back)."""
    from tensorflow.python.ops import gen_resource_variable_ops as raw

    if any("Rng" in kind for wrapper in _wrappers(dataset) for kind in traced.facts(wrapper).stateful):
        for handle, dtype in _variables((dataset,)):
            if dtype == 9:  # int64, the type of a generator's state
                raw.assign_add_variable_op(handle, raw.read_variable_op(handle, dtype) * 0 + 1)


def _variables(datasets: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(handle, dtype) of the captured variables, each once."""
    found: dict[int, tuple[Any, Any]] = {}
    for dataset in datasets:
        for wrapper in _wrappers(dataset):
            for tensor in wrapper.function.captured_inputs:
                data = getattr(tensor, "_handle_data", None)
                if tensor.dtype.name == "resource" and data is not None and data.is_set and data.shape_and_type:
                    found[id(tensor)] = (tensor, data.shape_and_type[0].dtype)
    return list(found.values())


def _wrappers(dataset: Any) -> Iterator[Any]:
    for node in nodes(dataset):
        kind = classes.kind_of(node)
        yield from functions_of(node, kind.functions if kind is not None else ())
