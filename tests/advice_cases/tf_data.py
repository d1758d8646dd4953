"""Stages of input pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.input_pipelines import CHAIN, Pipeline, Segment, StageWork, pipelines
from outpace.metrics.facts.step_gaps import StepGaps, step_gaps
from outpace.metrics.savings import best_case
from outpace.metrics.views import thread_lines as python_threads
from outpace.model import OUTSIDE_STEPS, Category, Severity
from outpace.testing import training_run
from outpace.tools.tf_data import findings as rules
from outpace.tools.tf_data.compute import PipelineTables
from outpace.trace import Trace, read_trace, store_column
from tests.advice_cases.build import HOST, MS, STEP, STEPS, breakdown, computes, run, table, trace_of
from tests.advice_cases.case import Case, Find, about, fires, silent
from tests.support import crowded

_ROOT, _MAP = "Prefetch", "Map"


def staged(kind: str, work: float, parent: int, **more: Any) -> StageWork:
    """A stage that works `work_ps` ms per batch on the thread that calls it, all of it in its
    function.
    """
    plain: dict[str, Any] = {
        "position": kind,
        "type": kind,
        "iterators": (),
        "parent": parent,
        "is_async": kind == _ROOT,
        "calls": STEPS,
        "self_ps": round(work * MS) * STEPS,
        "handoff_ps": 0,
        "function_ps": round(work * MS) * STEPS,
        "threads": 1,
        "function_threads": 0,
        "parallelism": 0,
        "runs_python": False,
        "op_ps": {},
        "label": "",
    }
    return StageWork(**{**plain, **more})


def pipeline_of(
    stages: Sequence[StageWork], busy: float, loop: float = 0.0, host: str = HOST, root: int = 0, step: int = STEP
) -> Pipeline:
    """Below a prefetch a thread is `busy` ms per batch, most of it in the stage with most work; the
    training loop itself `loop` ms.
    """
    below = max(range(1, len(stages)), key=lambda at: stages[at].work_ps)
    thread = Segment(CHAIN, 0, tuple(range(1, len(stages))), round(busy * MS) * STEPS, 1, busy * MS, below)
    own = Segment(CHAIN, -1, (0,), round(loop * MS) * STEPS, 1, loop * MS, 0)
    return Pipeline(host, root, STEPS, tuple(stages), (thread, own), STEPS, STEPS * step)


def _context(
    share: float,
    found: Sequence[Pipeline],
    *,
    record: Mapping[str, Any] | None = None,
    busy: float = 0.5,
    gaps: float = 0.0,
    count: int = STEPS,
    lines: Sequence[Mapping[str, Any]] = (),
    traces: Sequence[Trace] = (),
    beyond: float = 0.0,
) -> Find:
    """Steps of 10 ms of which `share` waits for these pipelines, cores that are `busy`, and `gaps`
    between the steps that wait, too. `beyond`: share of the step that the model's op takes beyond
    its best while an input thread works; 0: nothing is known.
    """
    around = StepGaps(gaps, {c: gaps if c is Category.INPUT else 0.0 for c in Category}, True, "", "", 0.0)
    rows = [{"host": p.host, "saturation": busy} for p in found]
    given = {
        pipelines: tuple(found),
        step_gaps: {HOST: around},
        cpu_saturation.cpu_saturation: table("saturation", cpu_saturation.SATURATION, *rows),
        best_case.best_case_runs: {HOST: _beyond(beyond)} if beyond else {},
        python_threads.thread_lines: table("thread_lines", python_threads.THREAD_LINES, *lines),
    }
    of = run(given, record, *traces)
    none = table("none", cpu_saturation.SATURATION)
    analysis = PipelineTables(none, none, none, none, none, {(p.host, f"p{p.root}"): p for p in found})
    steps = breakdown({Category.INPUT: share}, steps=count)
    return lambda: rules.iter_findings(of, analysis, steps)


def _beyond(share: float) -> best_case.BestCaseRuns:
    """Runs of one op, alone, of 3 ms at best."""
    taken = 2 * share * STEP
    duration = np.array([3 * MS, 3 * MS + round(taken)] * (STEPS // 2))
    wall, beside = duration * 1.0, np.array([0.0, taken] * (STEPS // 2))
    ops = replace(
        computes(0.5)[0],
        op_index=np.zeros(STEPS, np.int32),
        duration=store_column(duration),
        attributed_ps=wall,
        exclusive_ps=wall,
    )
    return best_case.BestCaseRuns(ops, np.arange(STEPS), beside, np.full(1, 3.0 * MS), np.zeros(1))


def _slow(share: float, work: float = 9.0, **more: Any) -> Find:
    return _context(share, [pipeline_of([staged(_ROOT, 0, -1), staged(_MAP, work, 0, label="in_py_L7_map")], work)], **more)


def _of_library(busy: float) -> Find:
    """A Python generator that Keras made of the user's batches, on four cores."""
    generator = staged("Generator", 9, 0, label="in_py_L7_from_generator", runs_python=True)
    noted = {
        "label": "in_py_L7_from_generator",
        "file": "/home/me/in.py",
        "line": 7,
        "op": "from_generator",
        "library": "keras",
    }
    record = {"cpu_count": 4, "pipeline": [noted]}
    return _context(0.5, [pipeline_of([staged(_ROOT, 0, -1), generator], 9)], record=record, busy=busy)


def _batching(share: float, **more: Any) -> Find:
    return _context(share, [pipeline_of([staged(_ROOT, 0, -1), staged("BatchV2", 9, 0, function_ps=0)], 9)], **more)


def _with_next(busy: float) -> Find:
    """The training loop itself is `busy` ms per batch, beside a thread that is 9."""
    return _context(
        0.3, [pipeline_of([staged(_ROOT, busy, -1, is_async=False), staged(_MAP, 9, 0, label="in_py_L7_map")], 9, busy)]
    )


def _kind(kind: str, label: str = "", **more: object) -> Find:
    """A pipeline that a stage of this kind limits."""
    return _context(0.3, [pipeline_of([staged(_ROOT, 0, -1), staged(kind, 9, 0, label=label, function_threads=1, **more)], 9)])


def _two(ratio: float) -> Find:
    """Two pipelines, of which one is `ratio` as busy as the other."""
    made = ((_MAP, 1.0), ("MapV2", ratio))
    return _context(
        0.3, [pipeline_of([staged(_ROOT, 0, -1), staged(kind, 9 * r, 0)], 9 * r, root=at) for at, (kind, r) in enumerate(made)]
    )


def _generator(cores: float) -> Find:
    made = pipeline_of([staged(_ROOT, 0, -1), staged("Generator", 9, 0, label="in_py_L7_from_generator")], 9)
    line = {"thread": "native", "source": "read.py:3", "function": "read", "cores": cores}
    return _context(0.3, [made], lines=[line])


def _sampled(innermost: str, library: str) -> Find:
    """A Python generator whose line 5 mostly calls this."""
    frames = (("/home/me/in.py", "Pages.__getitem__", 3, ""), (f"/lib/{library}/io.py", innermost, 1, library))
    samples = {
        "frames": frames,
        "stacks": (((0, 5), (1, 9)), ((0, 6),)),
        "others": ({"name": "native", "stacks": ((0, 90), (1, 10)), "watched_ns": 10**9, "cpu_ns": 10**9},),
    }
    lines = [
        {"host": HOST, "thread": "native", "source": "in.py:5", "function": "Pages.__getitem__", "cores": 0.9},
        {"host": HOST, "thread": "native", "source": "in.py:6", "function": "Pages.__getitem__", "cores": 0.1},
    ]
    found = [pipeline_of([staged(_ROOT, 0, -1), staged("Generator", 9, 0, runs_python=True)], 9)]
    return _context(0.3, found, record={"python_samples": samples}, lines=lines)


def _beside(ratio: float, share: float = 0.3, kind: str = _MAP, record: Mapping[str, Any] | None = None, **more: Any) -> Find:
    """A stage with `ratio` of the slowest segment's work, beside the stage that limits it."""
    slowest = staged("FlatMap", 9, 0, label="x_py_L3_flat_map")
    return _context(share, [pipeline_of([staged(_ROOT, 0, -1), slowest, staged(kind, 9 * ratio, 1, **more)], 9)], record=record)


_NOTED = {"pipeline": [{"label": "in_py_L7_map", "file": "/home/me/in.py", "line": 7, "op": "map"}]}
_RANDOM = {"pipeline": [{**_NOTED["pipeline"][0], "stateful": ["RandomUniform"]}]}
_PYTHON = {"pipeline": [{**_NOTED["pipeline"][0], "stateful": ["PyFunc"]}]}


_CHEAP = {"pipeline": [{**_RANDOM["pipeline"][0], "varying": ["flip/RandomUniform", "flip"]}]}


def _above(record: Mapping[str, Any]) -> Find:
    """A map that repeats, behind the map of `record`."""
    stages = [staged(_ROOT, 0, -1), staged(_MAP, 9, 0, label="in_py_L9_map"), staged(_MAP, 1, 1, label="in_py_L7_map")]
    noted = {"label": "in_py_L9_map", "file": "/home/me/in.py", "line": 9, "op": "map"}
    return _context(0.3, [pipeline_of(stages, 10)], record={"pipeline": [*record["pipeline"], noted]})


def _above_shuffle(*kinds: str) -> Find:
    """Stages from the prefetch down to a shuffle; the first of them limits the pipeline."""
    stages = [
        staged(_ROOT, 0, -1),
        *(staged(kind, 9 * (at == 0), at, label=f"in_py_L{9 + at}_map") for at, kind in enumerate(kinds)),
    ]
    return _context(0.3, [pipeline_of([*stages, staged("ShuffleV3", 0, len(kinds))], 9)])


def _of_arrays(iterators: int = 0) -> Find:
    """Keras' own adapter. `iterators`: number of iterators that ten steps make."""
    gathering = staged("ParallelMapV2", 9, 0, is_async=True, handoff_ps=9 * MS * STEPS, op_ps={"GatherV2:GatherV2": 1})
    found = pipeline_of([staged(_ROOT, 0, -1), gathering, staged("Zip", 0, 1), staged("FromTensor", 0, 2)], 9)
    return _context(0.3, [found], traces=[_restarting(iterators)] if iterators else ())


def _called(overhead: float) -> Find:
    """A map for each element of a batch. `overhead`: share of its function's time outside of
    ops.
    """
    took = 9 * MS * STEPS
    mapped = staged(_MAP, 9, 1, label="in_py_L7_map", function_ps=took, op_ps={"add:Add": round((1 - overhead) * took)})
    return _context(0.3, [pipeline_of([staged(_ROOT, 0, -1), staged("BatchV2", 0, 0, function_ps=0), mapped], 9)])


def _shuffled_map(*kinds: str, **noted: Any) -> Find:
    """As `_above_shuffle`, and the capture noted the map."""
    stages = [
        staged(_ROOT, 0, -1),
        *(staged(kind, 9 * (at == 0), at, label="in_py_L7_map" * (at == 0)) for at, kind in enumerate(kinds)),
    ]
    return _context(
        0.3,
        [pipeline_of([*stages, staged("ShuffleV3", 0, len(kinds))], 9)],
        record={"pipeline": [{**_NOTED["pipeline"][0], **noted}]},
    )


def _cached(ratio: float, share: float = 0.3, record: Mapping[str, Any] = _NOTED) -> Find:
    return _beside(ratio, share, record=record, label="in_py_L7_map")


def _under_random(ratio: float, gaps: float) -> Find:
    """A map that repeats feeds a stage that draws random numbers; the program waits for both
    between its steps.
    """
    slowest = staged("FlatMap", 9, 0, label="x_py_L3_flat_map")
    stages = [staged(_ROOT, 0, -1), slowest, staged(_MAP, 9 * ratio, 1, label="in_py_L7_map")]
    drawn = {"label": "x_py_L3_flat_map", "file": "x.py", "line": 3, "op": "flat_map", "stateful": ["RandomUniform"]}
    return _context(0.0, [pipeline_of(stages, 9)], record={"pipeline": [*_NOTED["pipeline"], drawn]}, gaps=gaps)


@cache
def _shuffling(megabytes: float) -> Trace:
    space = training_run(steps=STEPS, step_ps=STEP, hostname=HOST)
    line = space.plane("/host:CPU").line("tf_data_private_threadpool/9")
    line.event("Iterator::Root::Prefetch::Shuffle", MS, MS, buffered_bytes_MB=megabytes)
    return read_trace(space.to_bytes(), HOST)


@cache
def _restarting(count: int) -> Trace:
    """Ten steps, during which so many iterators are made."""
    space = training_run(steps=STEPS, step_ps=STEP, hostname=HOST)
    line = space.plane("/host:CPU").line("tf_Compute")
    for number in range(count):
        line.event("MakeIterator::RootDataset", number * STEP, MS)
        line.event("MakeIterator::ShuffleDataset", number * STEP, MS // 2)
    return read_trace(space.to_bytes(), HOST)


def _restarts(count: int, share: float = 0.3, kind: str = "ShuffleV3") -> Find:
    stages = [staged(_ROOT, 0, -1), staged(_MAP, 9, 0), staged(kind, 0, 1)]
    return _context(share, [pipeline_of(stages, 9)], traces=[_restarting(count)])


def _shuffle(megabytes: float, *below: str, nested: bool = False) -> Find:
    """nested: each of what is below feeds the one before it."""
    stages = [staged(_ROOT, 0, -1), staged(_MAP, 9, 0), staged("Shuffle", 0, 1, label="in_py_L8_shuffle")]
    stages += [staged(kind, 0, 2 + at if nested else 2) for at, kind in enumerate(below)]
    return _context(0.3, [pipeline_of(stages, 9)], traces=[_shuffling(megabytes)])


def _loop(busy: float, share: float = 0.3) -> Find:
    return _context(share, [pipeline_of([staged(_ROOT, 0, -1), staged(_MAP, 9, 0)], 9, busy)])


def _hosts(*kinds: str) -> Find:
    names = ("a", "b")
    found = [pipeline_of([staged(_ROOT, 0, -1), *(staged(k, 1, 0) for k in kinds)], 1, host=name) for name in names]
    return _context(0.0, found, traces=[trace_of(STEPS, name) for name in names])


def _one_host() -> Find:
    return _context(0.3, [pipeline_of([staged(_ROOT, 0, -1), staged("TFRecord", 1, 0)], 1)])


_TAKES: dict[str, Any] = {"takes_from": ("input", "host_compute")}
_WAIT: dict[str, Any] = {"takes_from": ("input",)}
_MAP_AT: dict[str, Any] = {"location": "in.py:7"}
_TWO_CORES: dict[str, Any] = {"record": {"cpu_count": 2}}
_PROFILED: dict[str, Any] = {
    "record": {"overhead": {"before_ns": [8_000_000] * 5, "during_ns": [10_000_000] * 5}},
    "traces": [read_trace(crowded(training_run(steps=STEPS, step_ps=STEP, hostname=HOST)).to_bytes(), HOST)],
}
_SLOW = "slow_stage"


def _measured(used: float, busy: float) -> dict[str, Any]:
    """What the capture noted of two cores: how many the process used, and which share of them was
    busy.
    """
    return {"cpu_count": 2, "window": {"seconds": 1.0, "cpu_seconds": used, "machine_busy": busy}}


CASES: list[Case] = [
    fires(
        _SLOW,
        "30% of the step waits",
        _slow(0.3),
        Severity.HIGH,
        saves=about(0.3),
        says=("in.py:7 map limits", "its function runs sequentially", "AUTOTUNE"),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "a filter, which has no num_parallel_calls",
        _kind("Filter", "in_py_L7_filter"),
        Severity.HIGH,
        saves=about(0.3),
        says=("Compute the test in a parallel map, before in.py:7 filter",),
        never=("AUTOTUNE on",),
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "a map that was fused with its batch",
        _kind("MapAndBatchV2", parallelism=1),
        Severity.HIGH,
        saves=about(0.3),
        says=(".map().batch() limits", "AUTOTUNE on .map();"),
        never=("MapAndBatch",),
    ),
    fires(
        _SLOW,
        "a parallel map that was fused with its batch, all of whose calls one thread ran",
        _kind("MapAndBatchV2", is_async=True),
        Severity.HIGH,
        saves=about(0.3),
        says=("is parallel already",),
        never=("AUTOTUNE",),
    ),
    fires(
        _SLOW,
        "a generator with a name of its own",
        _kind("Generator", "reader"),
        Severity.HIGH,
        saves=about(0.3),
        says=("reader (from_generator()) limits",),
    ),
    fires(_SLOW, "15% of the step waits", _slow(0.15), Severity.MODERATE, saves=about(0.15), **_WAIT, **_MAP_AT),
    fires(_SLOW, "7% of the step waits", _slow(0.07), Severity.MODERATE, saves=about(0.07), **_WAIT, **_MAP_AT),
    fires(_SLOW, "3% of the step waits", _slow(0.03), Severity.INFO, says=("keeps up",), **_MAP_AT),
    fires(
        _SLOW,
        "between the steps",
        _slow(0.0, gaps=0.4),
        Severity.HIGH,
        saves=about(0.4),
        takes_from=(OUTSIDE_STEPS,),
        says=("between the steps",),
        **_MAP_AT,
    ),
    fires(
        _SLOW, "all cores are busy", _slow(0.02, busy=0.95, **_TWO_CORES), Severity.HIGH, saves=(0.45, 0.5), **_TAKES, **_MAP_AT
    ),
    fires(
        _SLOW,
        "ops take 30% of the step beyond their best while it works",
        _slow(0.02, busy=0.95, beyond=0.3, **_TWO_CORES),
        Severity.MODERATE,
        saves=about(0.32),
        says=("and beside it the model's ops take 6.00 ms per step, 3.00 ms at their best",),
        never=("That saves",),
        **_TAKES,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "ops take 4% of the step beyond their best while it works",
        _slow(0.02, busy=0.95, beyond=0.04, **_TWO_CORES),
        Severity.INFO,
        never=("at their best",),
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "hardly any other program took a core",
        _slow(0.02, busy=0.95, beyond=0.3, record=_measured(1.9, 0.98)),
        Severity.HIGH,
        saves=about(0.32),
        **_TAKES,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "other programs took cores, too",
        _slow(0.02, busy=0.95, beyond=0.3, record=_measured(1.85, 1.0)),
        Severity.MODERATE,
        saves=about(0.32),
        **_TAKES,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "cores are free",
        _slow(0.02, busy=0.6, **_TWO_CORES),
        Severity.INFO,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "of a stage without a function only the wait can go",
        _batching(0.3, **_TWO_CORES),
        Severity.HIGH,
        saves=about(0.3),
        **_TAKES,
    ),
    fires(_SLOW, "all cores are busy, and it only batches", _batching(0.02, busy=0.95, **_TWO_CORES), Severity.INFO),
    fires(
        _SLOW,
        "mostly a wait",
        _slow(0.3, 3.5, **_TWO_CORES),
        Severity.HIGH,
        saves=about(0.3),
        says=("30% to 48%",),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(_SLOW, "mostly cores", _slow(0.15, 6.0, **_TWO_CORES), Severity.MODERATE, saves=about(0.15), **_WAIT, **_MAP_AT),
    fires(
        _SLOW,
        "a generator whose line is known",
        _generator(0.08),
        Severity.HIGH,
        saves=about(0.3),
        location="read.py:3",
        says=("read()",),
    ),
    fires(
        _SLOW,
        "a generator met by chance",
        _generator(0.03),
        Severity.HIGH,
        saves=about(0.3),
        location="in.py:7",
        never=("read()",),
    ),
    fires(_SLOW, "two pipelines that work", _two(0.4), Severity.HIGH, saves=about(0.3)),
    fires(_SLOW, "beside one that idles", _two(0.15), Severity.HIGH, saves=about(0.3)),
    fires(
        _SLOW,
        "steps were 8 ms without the profiler",
        _slow(0.6, **_PROFILED),
        Severity.HIGH,
        saves=about(0.5),
        says=("50% to 75%",),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "in the steps, and hardly between them",
        _slow(0.3, gaps=0.005),
        Severity.HIGH,
        saves=about(0.3),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "a wait and cores",
        _slow(0.3, 6.0, **_TWO_CORES),
        Severity.HIGH,
        saves=about(0.3),
        says=("30% to 56%",),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(_SLOW, "seven steps", _slow(0.3, count=7), Severity.HIGH, saves=about(0.3), **_WAIT, **_MAP_AT),
    fires(_SLOW, "fifteen steps", _slow(0.3, count=15), Severity.HIGH, saves=about(0.3), **_WAIT, **_MAP_AT),
    fires(_SLOW, "0.8% of the step waits", _slow(0.008), Severity.INFO, says=("1% of the step waits",), **_MAP_AT),
    fires(_SLOW, "0.3% of the step waits", _slow(0.003), Severity.INFO, says=("hardly any",), **_MAP_AT),
    fires(_SLOW, "the loop itself needs 6.3 of 10 ms", _with_next(6.3), Severity.HIGH, saves=about(0.3), **_MAP_AT),
    fires(_SLOW, "the loop itself needs 3.2 of 10 ms", _with_next(3.2), Severity.HIGH, saves=about(0.3), **_MAP_AT),
    fires(_SLOW, "two steps", _slow(0.3, count=2), Severity.HIGH, saves=about(0.3), **_WAIT, **_MAP_AT),
    fires(_SLOW, "four steps", _slow(0.3, count=4), Severity.HIGH, saves=about(0.3), **_WAIT, **_MAP_AT),
    fires(_SLOW, "its work is 70% of the wait", _slow(0.3, 2.1), Severity.HIGH, saves=about(0.3), **_WAIT, **_MAP_AT),
    fires(_SLOW, "its work is 35% of the wait", _slow(0.3, 1.05), Severity.MODERATE, saves=about(0.105), **_WAIT, **_MAP_AT),
    fires(
        _SLOW,
        "more than its model: the cores leave less than the wait",
        _slow(0.65, 8.5, busy=0.55, **_TWO_CORES),
        Severity.HIGH,
        saves=about(0.45),
        says=("AUTOTUNE",),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "batches of the user's in Python, and idle cores",
        _of_library(0.5),
        Severity.HIGH,
        says=("Prepare batches in several workers",),
        saves=about(0.5),
        **_WAIT,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "batches of the user's in Python, and busy cores",
        _of_library(0.95),
        Severity.HIGH,
        says=("Make the line that takes the time cheaper", "more workers wait for them"),
        never=("several workers",),
        saves=(0.45, 0.75),
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "batches of the user's in Python, and cores with some room",
        _of_library(0.7),
        Severity.HIGH,
        says=("Make the line that takes the time cheaper",),
        saves=(0.65, 0.8),
        **_MAP_AT,
    ),
    *(
        fires(
            _SLOW,
            f"a map of which {overhead:.0%} is calling its function, for each element of a batch",
            _called(overhead),
            Severity.HIGH,
            says=says,
            never=never,
            saves=about(0.3),
            **_MAP_AT,
        )
        for overhead, says, never in (
            (0.7, ("Call in.py:7 map once per batch", "70% of it to call it"), ()),
            (0.35, ("Set num_parallel_calls",), ("once per batch",)),
        )
    ),
    fires(
        _SLOW,
        "of arrays, and each step makes a new iterator",
        _of_arrays(10),
        Severity.HIGH,
        says=("Call model(x) or train_on_batch(x, y)",),
        saves=about(0.3),
    ),
    fires(
        _SLOW,
        "busy cores take no work",
        _slow(0.3, busy=0.97, **_TWO_CORES),
        Severity.HIGH,
        says=("put .cache()",),
        saves=(0.5, 0.7),
        **_TAKES,
        **_MAP_AT,
    ),
    fires(
        _SLOW,
        "behind a shuffle",
        _above_shuffle(_MAP),
        Severity.HIGH,
        saves=about(0.3),
        location="in.py:9",
        says=("move in.py:9 map before the shuffle",),
        never=("right after",),
    ),
    fires(
        _SLOW,
        "behind batches of a shuffle",
        _above_shuffle(_MAP, "BatchV2"),
        Severity.HIGH,
        saves=about(0.3),
        location="in.py:9",
        never=("cache",),
    ),
    fires(
        _SLOW,
        "Keras' own adapter",
        _of_arrays(),
        Severity.HIGH,
        saves=about(0.3),
        says=("Keras' own adapter of arrays", "batch_size"),
        never=(".map()",),
    ),
    fires(_SLOW, "ready long before it is asked for", _slow(0.06, 0.6), Severity.INFO, says=("keeps up",), **_MAP_AT),
    silent(_SLOW, "no pipeline", _context(0.3, [])),
    fires(
        "no_prefetch",
        "0.7 of 10 ms in the loop",
        _loop(0.7),
        Severity.MODERATE,
        saves=about(0.3),
        says=(".prefetch(tf.data.AUTOTUNE)",),
        **_WAIT,
    ),
    fires("no_prefetch", "a short model", _loop(7.0, 0.8), Severity.MODERATE, saves=about(0.2), **_WAIT),
    silent("no_prefetch", "0.3 of 10 ms in the loop", _loop(0.3)),
    fires(
        "no_cache",
        "30% of the work",
        _cached(0.3),
        Severity.MODERATE,
        saves=(0.25, 0.3),
        says=(".cache()",),
        **_TAKES,
        **_MAP_AT,
    ),
    fires(
        "no_cache",
        "what feeds it is random, and the steps do not wait",
        _under_random(0.3, 0.4),
        Severity.MODERATE,
        saves=about(0.3 * 0.4),
        takes_from=(OUTSIDE_STEPS,),
        **_MAP_AT,
    ),
    silent("no_cache", "15% of the work", _cached(0.15)),
    silent("no_cache", "random", _cached(0.3, record=_RANDOM)),
    silent("no_cache", "Python, which may draw", _cached(0.3, record=_PYTHON)),
    silent(
        "no_cache",
        "random, and so cheap that the draw left no event",
        _beside(
            0.3, record=_CHEAP, label="in_py_L7_map", op_ps={"resize:ResizeBilinear": 9, "flip/then/_0/ReverseV2:ReverseV2": 1}
        ),
    ),
    silent("no_cache", "what feeds it is random", _above(_RANDOM)),
    fires(
        "no_cache",
        "what feeds it is shuffled",
        _shuffled_map(_MAP),
        Severity.MODERATE,
        saves=about(0.3),
        says=("before the shuffle",),
        never=("right after",),
        **_MAP_AT,
    ),
    fires(
        "no_cache",
        "what a library shuffled before",
        _shuffled_map(_MAP, library="keras"),
        Severity.MODERATE,
        saves=about(0.3),
        says=("Let Keras make the data set with shuffle=False",),
        never=("Move",),
        **_MAP_AT,
    ),
    silent("no_cache", "what feeds it are batches of a shuffle", _shuffled_map(_MAP, "BatchV2")),
    silent("no_cache", "what feeds it is Python, which may draw", _above(_PYTHON)),
    silent("no_cache", "the pipeline keeps up", _cached(0.3, 0.02)),
    fires(
        "python_in_pipeline",
        "30% of the work",
        _beside(0.3, runs_python=True, label="in_py_L7_map"),
        Severity.MODERATE,
        **_MAP_AT,
    ),
    silent("python_in_pipeline", "15% of the work", _beside(0.15, runs_python=True)),
    fires(
        _SLOW,
        "a generator that reads a compressed file",
        _sampled("ZipExtFile.read1", "python"),
        Severity.HIGH,
        saves=about(0.3),
        location="in.py:5",
        says=("Read each file once (at in.py:5)", "keep it in memory"),
        **_TAKES,
    ),
    fires(
        _SLOW,
        "a generator that resizes",
        _sampled("Image.resize", "PIL"),
        Severity.HIGH,
        saves=about(0.3),
        location="in.py:5",
        never=("Read each file once",),
        **_TAKES,
    ),
    fires(
        "new_iterators",
        "in each step",
        _restarts(10),
        Severity.HIGH,
        saves=about(0.3),
        says=(
            "Each step makes a new iterator of the data set, whose shuffle fills its buffer",
            "30% of the step",
            "before the loop",
        ),
        **_WAIT,
    ),
    fires(
        "new_iterators",
        "in six of ten",
        _restarts(6, kind="Batch"),
        Severity.HIGH,
        saves=about(0.3),
        never=("shuffle",),
        **_WAIT,
    ),
    silent("new_iterators", "in four of ten", _restarts(4)),
    silent("new_iterators", "which hardly any step waits for", _restarts(10, 0.04)),
    fires(
        "late_shuffle", "150 MB", _shuffle(150.0), Severity.POTENTIAL, location="in.py:8", says=("150 MB of decoded elements",)
    ),
    fires(
        "late_shuffle",
        "whole batches",
        _shuffle(1.0, "BatchV2"),
        Severity.POTENTIAL,
        location="in.py:8",
        says=("whole batches",),
    ),
    silent("late_shuffle", "70 MB", _shuffle(70.0)),
    silent("late_shuffle", "windows that flat_map takes apart", _shuffle(1.0, "FlatMap", "BatchV2", nested=True)),
    fires("no_shard", "two hosts", _hosts("TFRecord"), Severity.POTENTIAL, says=(".shard(num_workers",)),
    silent("no_shard", "one host", _one_host()),
    silent("no_shard", "they shard", _hosts("Shard", "TFRecord")),
]
