# SPDX-License-Identifier: Apache-2.0
"""How many examples a training step takes: the batch size from the stages of the input pipeline."""

from __future__ import annotations

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.metrics.facts.input_iterators import IteratorGraph, iterator_graphs
from outpace.timeline import OpKind, Run
from outpace.timeline.event_names import event_names
from outpace.trace import dialect

BATCHING_STAGES = compile_lazily(r"(?:Padded|Parallel|MapAnd)?Batch(?:V\d)?$")
"""Types of stages that group examples into batches."""
REGROUPING_STAGES = compile_lazily(r"(?:Unbatch|FlatMap|Interleave|ParallelInterleave(?:V\d)?|Window|Group.*)(?:\[\d+\])?$")
"""Types of stages that take their input elements apart, or combine the elements of other
datasets.
"""

_SPLITS, _SHARES = "Rebatch", "Shard"


@memoize
def examples_per_step(run: Run) -> dict[str, int]:
    """Return the examples of a training step, by host.

    This is the product of the batch sizes from the pipeline's end to the first stage that takes
    batches apart. A host is left out unless all its pipelines with a batch size have the same one.
    """
    sizes_by_host = {host: set(_sizes(graph)) for host, graph in iterator_graphs(run).items()}
    return {host: sizes.pop() for host, sizes in sizes_by_host.items() if len(sizes) == 1}


def _sizes(graph: IteratorGraph) -> list[int]:
    """Return the examples per element of each outermost batching iterator.

    An iterator below a regrouping stage is left out. The size of a batch of batches is the product
    of both.
    """
    trace, column = graph.trace, graph.trace.stat(dialect.BATCH_SIZE)
    stages = event_names(trace).op_kind_mask(OpKind.TF_DATA)  # only the names of tf.data stages are paths
    by_name = {name: column.value(at) for at, name in enumerate(trace.name[column.rows].tolist()) if stages[name]}
    paths = {
        tuple(trace.names[name].split("::")[1:]): size for name, size in by_name.items() if isinstance(size, int) and size > 0
    }
    sizes: dict[tuple[str, ...], int] = {}
    for path in sorted(paths, key=len):
        above = [stage for stage in path[:-1] if REGROUPING_STAGES.match(stage)]
        if above or not BATCHING_STAGES.match(path[-1]) or _is_split(path):
            continue
        outer = next((p for p in sizes if p == path[: len(p)]), None)
        if outer is None:
            sizes[path] = paths[path]
        else:
            sizes[outer] *= paths[path]
    return list(sizes.values())


def _is_split(path: tuple[str, ...]) -> bool:
    """Whether a distribution strategy splits the batches of this stage among hosts, so that a
    host's own step takes only some of the examples.
    """
    return _SPLITS in path and _SHARES in path[: path.index(_SPLITS)]
