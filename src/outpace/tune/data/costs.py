"""What each stage of a running iterator costs, from TensorFlow's own model of it (`get_model_proto`): free, and without a profile.

Segments use the words of `metrics/segments.py`: a **chain** is the synchronous stages between two asynchronous ones, run one after the other
by one thread; a **function** is what an asynchronous stage runs on pool threads. The slowest segment limits the pipeline. Times are wall time,
so they grow when threads compete for cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outpace.metrics.iterators import is_async
from outpace.model.errors import NotFoundError
from outpace.model.table import Field, Table
from outpace.model.units import Unit
from outpace.tune.data.tree import describe

CHAIN, FUNCTION = "chain", "function"
_PS_PER_NS = 1000
_WORKS = ("Parallel", "MapAndBatch")  # asynchronous stages that work themselves; a Prefetch or Generator hand-over only stores
FIELDS = (
    Field("stage", Unit.TEXT, "Type of the stage, as TensorFlow's model names it."),
    Field("depth", Unit.COUNT, "Distance from the pipeline's end."),
    Field("elements", Unit.COUNT, "Elements that it gave while it was measured."),
    Field("per_element_ps", Unit.PS, "Processing time per element that it gave; all threads together."),
    Field("bytes", Unit.BYTES, "Bytes per element that it gave."),
    Field("parallelism", Unit.COUNT, "Threads that run its function."),
    Field("capacity", Unit.RATIO, "Elements per second that it could give if its input were always there."),
    Field("share", Unit.RATIO, "Elements of it that go into one element of the pipeline."),
    Field("segment", Unit.COUNT, "The segment whose threads run it, as numbered in the list of segments."),
    Field("asynchronous", Unit.BOOL, "Whether it hands elements over from threads of its own."),
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a stage in the running iterator: its value now, and whether autotune sets it."""

    value: float
    tunable: bool


@dataclass(frozen=True)
class Segment:
    """Stages that run on the same threads. busy_ps: their time per element of the pipeline's end, divided by the threads; `dominant` is the
    stage with most of it; stages: rows of the table."""

    kind: str
    stages: tuple[int, ...]
    threads: int
    busy_ps: float
    dominant: int

    @property
    def per_second(self) -> float:
        """Pipeline elements per second that this segment could give."""
        return 1e12 / self.busy_ps if self.busy_ps else float("inf")


@dataclass(frozen=True)
class Costs:
    """Stages (a table, the pipeline's end first), segments slowest first, and the rate that was measured (elements per second)."""

    stages: Table
    segments: tuple[Segment, ...]
    per_second: float

    @property
    def slowest(self) -> Segment | None:
        """The segment that limits the pipeline."""
        return self.segments[0] if self.segments else None


def model_of(iterator: Any) -> Any:
    """TensorFlow's model of an iterator that gave at least one element.

    Raises NotFoundError when there is none: autotune is off, or this TensorFlow does not tell.
    """
    import tensorflow as tf

    read = getattr(tf.data.experimental, "get_model_proto", None)
    if read is None:
        raise NotFoundError(
            f"TensorFlow {tf.__version__} does not tell what a pipeline's stages cost (2.21 does). A profile does: outpace profile."
        )
    try:
        return read(iterator)
    except tf.errors.NotFoundError as error:
        raise NotFoundError(
            "This iterator has no performance model because autotune is off, so the cost of its stages is not known. Switch it on "
            "(options.autotune.enabled = True), or read the stages from a profile (outpace profile)."
        ) from error


def parameter_of(iterator: Any, stage: str, name: str) -> Parameter | None:
    """A parameter of the first stage of that type in the running iterator; None where there is no such stage, or no model."""
    try:
        model = model_of(iterator)
    except NotFoundError:
        return None
    for _, node in _walk(model):
        if node.name == stage:
            for parameter in node.parameters:
                if parameter.name == name:
                    return Parameter(float(parameter.value), bool(parameter.tunable))
    return None


def stages_of(iterator: Any) -> tuple[str, ...]:
    """Types of the stages that really run, the end first; empty where there is no model."""
    try:
        return tuple(node.name for _, node in _walk(model_of(iterator)))
    except NotFoundError:
        return ()


def proved_cache(iterator: Any, kind: str) -> str | None:
    """Evidence of a cache in a running iterator: its model, or (a stage whose input has ended leaves the model, as behind a shuffle that holds
    all elements) the data set that the iterator keeps. `kind` is `MemoryCache` or `FileCache`."""
    found = [name for name in stages_of(iterator) if name.startswith(kind)]
    if found:
        return f"{found[0]} runs in the iterator."
    whole = getattr(iterator, "_dataset", None)
    caches = (
        [s for s in describe(whole).find("cache") if bool(s.arguments.get("filename")) is (kind == "FileCache")]
        if whole is not None
        else []
    )
    return "The data set that the iterator runs has the cache; its input has ended in this epoch." if caches else None


def costs(source: Any, seconds: float = 2.0, clock: Callable[[], float] = time.perf_counter) -> Costs:
    """Run an iterator (or a new one of a data set) for some seconds and read what its stages cost in that time.

    The first element, which starts threads and fills buffers, is not counted. It consumes elements, and a data set that ends is measured
    to its end. Raises NotFoundError when there is no model, or no element.
    """
    iterator = source if hasattr(source, "__next__") else iter(source)
    if next(iterator, None) is None:
        raise NotFoundError("The pipeline gave no element, so nothing can be measured. Is its source empty?")
    before = model_of(iterator)
    start, given = clock(), 0
    while clock() - start < seconds:
        if next(iterator, None) is None:
            break
        given += 1
    spent = clock() - start
    if not given:
        raise NotFoundError("The pipeline ended after one element, so nothing can be measured. Repeat it.")
    return from_models(before, model_of(iterator), given / spent)


def from_models(before: Any, after: Any, per_second: float) -> Costs:
    """Costs between two readings of the same iterator's model."""
    old = dict(before.nodes)
    walked = [(depth, node) for depth, node in _walk(after) if node.name != "Root"]
    if not walked:
        raise NotFoundError("The iterator's model is empty.")
    measured = [_since(node, old.get(node.id)) for _, node in walked]
    shares = _shares(walked)
    chains, segment_of = _chains(walked)
    rows = []
    for row, ((depth, node), (count, ns, size)) in enumerate(zip(walked, measured, strict=True)):
        threads = _threads(node)
        capacity = threads * count / ns * 1e9 if ns and count else float("inf")
        per = ns / count * _PS_PER_NS if count else float("nan")
        mean = size / count if count else float("nan")
        rows.append((node.name, depth, count, per, mean, threads, capacity, shares[row], segment_of[row], is_async(node.name)))
    busy = [ns / count * _PS_PER_NS * share if count else 0.0 for (count, ns, _), share in zip(measured, shares, strict=True)]
    segments = _segments(walked, busy, chains)
    return Costs(Table.from_rows("stage_costs", "What the stages cost", FIELDS, rows), segments, per_second)


def _since(node: Any, old: Any) -> tuple[int, int, int]:
    """(elements, processing ns, bytes) since the earlier reading."""
    earlier = (old.num_elements, old.processing_time, old.bytes_produced) if old is not None else (0, 0, 0)
    return (
        max(0, node.num_elements - earlier[0]),
        max(0, node.processing_time - earlier[1]),
        max(0, node.bytes_produced - earlier[2]),
    )


def _shares(walked: list[tuple[int, Any]]) -> list[float]:
    """Elements of each stage per element of the pipeline's end, by the model's ratios. (Counts would mislead: behind a repeat the stages
    are made anew in every epoch and count from zero.)"""
    shares: dict[int, float] = {}
    found = []
    for _, node in walked:
        own = shares.get(node.id, 1.0)
        found.append(own)
        for child in node.inputs:
            given = next((other for _, other in walked if other.id == child), None)
            counted = given.num_elements / node.num_elements if given is not None and node.num_elements else 1.0
            shares[child] = own * (node.ratio if node.ratio > 0 else counted)
    return found


def _works(node: Any) -> bool:
    return is_async(node.name) and node.name.startswith(_WORKS)


def _threads(node: Any) -> int:
    values = [parameter.value for parameter in node.parameters if parameter.name == "parallelism"]
    return max(1, round(values[0])) if values else 1


def _chains(walked: list[tuple[int, Any]]) -> tuple[list[list[int]], list[int]]:
    """Rows of each chain, and the chain of each row. An asynchronous stage belongs to the chain of its consumer; what feeds it begins
    a new one, run by its own thread."""
    row_of = {node.id: row for row, (_, node) in enumerate(walked)}
    feeds = {child: row for row, (_, node) in enumerate(walked) for child in node.inputs}
    chains: list[list[int]] = []
    chain_of: list[int] = []
    for row, (_, node) in enumerate(walked):
        consumer = feeds.get(node.id)
        if consumer is None or is_async(walked[consumer][1].name) or row_of[walked[consumer][1].id] > row:
            chains.append([])
            chain_of.append(len(chains) - 1)
        else:
            chain_of.append(chain_of[consumer])
        chains[chain_of[row]].append(row)
    return chains, chain_of


def _segments(walked: list[tuple[int, Any]], busy: list[float], chains: list[list[int]]) -> tuple[Segment, ...]:
    """Segments of stages that take `busy` ps per element of the pipeline's end, slowest first."""
    found = []
    for rows in chains:
        own = {row: 0.0 if _works(walked[row][1]) else busy[row] for row in rows}
        found.append(Segment(CHAIN, tuple(rows), 1, sum(own.values()), max(own, key=own.__getitem__)))
    for row, (_, node) in enumerate(walked):
        if _works(node):
            threads = _threads(node)
            found.append(Segment(FUNCTION, (row,), threads, busy[row] / threads, row))
    return tuple(sorted(found, key=lambda segment: -segment.busy_ps))


def _walk(model: Any) -> list[tuple[int, Any]]:
    """(depth, node) from the output down, parents first."""
    nodes = dict(model.nodes)
    found: list[tuple[int, Any]] = []

    def visit(number: int, depth: int) -> None:
        if number in nodes and len(found) < 10_000:
            found.append((depth, nodes[number]))
            for child in nodes[number].inputs:
                visit(child, depth + 1)

    visit(model.output, 0)
    return found
