"""Damaged inputs end in a report or in a sentence: profiles, stored reports and capture records
with some of their values changed.

Thousands of each in the long run (`make verify`), some in the fast one. A mutant is made again from
its number.
"""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace import api
from outpace.compare import Side
from outpace.model import OutpaceError
from outpace.report import json_
from outpace.store.record import (
    CapturedSteps,
    CaptureRecord,
    Compilation,
    FunctionTrace,
    GraphShapes,
    LayerSource,
    OpSources,
    PipelineStage,
    PythonSamples,
    StepDurations,
    ThreadSamples,
)
from outpace.testing import training_run
from outpace.trace.export import ExportFormat
from outpace.viewer import Arguments, parse_selection, write_trace
from tests import cuts, mutants, outlets
from tests.support import opened, profile_bytes
from tests.xspace_proto import XSpace

pytestmark = pytest.mark.slow

BATCH = 20  # mutants in one test


def batches(few: int, many: int) -> pytest.MarkDecorator:
    """Numbers of the first mutants of batches: a few for each change, many in the long run."""
    fast = range(0, few, BATCH)
    return pytest.mark.parametrize(
        "first", [*fast, *(pytest.param(at, marks=pytest.mark.verify) for at in range(few, many, BATCH))]
    )


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """A warning of NumPy's would stand above the report."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@functools.cache
def documents() -> list[Any]:
    names = ("eager_loop", "jax_loop", "multi_host", "tfdata_heavy", "memory_heavy", "idle_empty")
    return [json.loads(json_.render(opened(name).report())) for name in names]


@batches(60, 2000)
def test_a_damaged_stored_report_is_shown_or_refused(first: int, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for seed in range(first, first + BATCH):
        path.write_text(mutants.document(seed, documents()[seed % len(documents())]))
        with contextlib.suppress(OutpaceError):
            outlets.show(api.stored(path), tmp_path / "tables")


MS, UNIX = 1_000_000_000, 1_800_000_000_000_000_000
RECORD = CaptureRecord(
    outpace="0.2",
    script="train.py",
    argv=("-x",),
    versions={"tensorflow": "2.21", "keras": "3.1"},
    python="3.11",
    mode="keras fit",
    window=CapturedSteps(10, 20, 10, 0.2, (12,), 0.3, 0.9),
    steps_per_execution=1,
    overhead=StepDurations((9_000_000, 9_100_000), (10_000_000,) * 20, (9_000_000,)),
    pipeline=(
        PipelineStage(1, "map", "ParallelMapV2:1", "/me/train.py", 3, "d.map(f)", {"num_parallel_calls": 4}, (0,), ("PyFunc",)),
        PipelineStage(0, "range", None, "/me/train.py", 2, "Dataset.range(9)", inner=(1,)),
    ),
    cpu_count=2,
    traces=(FunctionTrace("step", "/me/train.py", 9, UNIX + 5_000_000, 3_000_000, {"x": "TensorSpec(shape=(3,))"}),),
    python_samples=PythonSamples(
        UNIX - 5_000_000,
        "MainThread",
        "signal",
        (("/me/train.py", "<module>", 1, ""), ("/k/trainer.py", "fit", 10, "keras"), ("/me/train.py", "Noter.end", 30, "")),
        (((0, 50), (1, 11)), ((0, 50), (1, 12), (2, 31))),
        tuple((ms * 5_000_000, 5_000_000, ms % 2) for ms in range(40)),
        ((0, 50, "model.fit(data)"),),
        1,
        (ThreadSamples("worker", 5_000_000, 100_000_000, ((0, 3), (1, 2))),),
    ),
    compilations=(
        Compilation(
            UNIX, 5, "/jax/core/compile/backend_compile_duration", "/me/train.py", 3, "f", "g", {"x": "float32[3]"}, {}
        ),
    ),
    op_sources=OpSources(
        (("/me/train.py", 7, "y = x + 1"),), {"__inference_one_step_on_data_1": {"MatMul": 0, "sequential/dense/MatMul": 0}}
    ),
    graph_shapes=GraphShapes(
        ("MatMul f32[s0,784] f32[784,10] -> f32[s0,10]", "Relu f32[s0,10] -> f32[s0,10]"),
        {"__inference_one_step_on_data_1": {"MatMul": 0, "sequential/dense/MatMul": 0, "Relu": 1}},
    ),
    layers={"sequential/dense": LayerSource("dense", "layer", "Dense", "/me/train.py", 5, "Dense(3)")},
    callbacks={"Noter": ("/me/train.py", 29, "class Noter")},
    exit=0,
    created="2026-01-01T00:00:00+00:00",
)


@batches(60, 2000)
def test_a_damaged_capture_record_is_used_or_ignored(first: int, tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(training_run(steps=12, python_ps=3 * MS, timestamp_ns=UNIX).to_bytes())
    record = json.loads(RECORD.to_json())
    for seed in range(first, first + BATCH):
        (tmp_path / "vm.outpace.json").write_text(mutants.document(seed, record))
        report = api.open(tmp_path).report()
        assert not report.failed_pages(), (seed, [page.failure for page in report.failed_pages()])
        outlets.show(report, tmp_path / "tables")


@functools.cache
def profiles() -> list[bytes]:
    hosts = {"idle_empty": "vm", "jax_loop": "vm", "predict_inference": "vm", "memory_heavy": "vm", "jax_rocm_gemm": "tw003"}
    made = [training_run(steps=5, timestamp_ns=UNIX), training_run(steps=12, python_ps=3 * MS)]
    return [*(space.to_bytes() for space in made), *(profile_bytes(*each) for each in hosts.items())]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jax_loop", "none of them takes any time."),
        ("memory_heavy", "none of them takes any time."),
        ("predict_inference", "of the 2.72 ms prediction"),
    ],
)
def test_events_without_length_make_no_verdict(name: str, said: str, tmp_path: Path) -> None:
    """Predictions last from the end of one to the end of the next."""
    space = XSpace.FromString(profile_bytes(name, "vm"))
    for event in (event for plane in space.planes for line in plane.lines for event in line.events):
        event.duration_ps = 0
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(space.SerializeToString())
    report = api.open(path).report()
    assert not report.failed_pages() and said in report.headline
    outlets.show(report, tmp_path / "tables")


@batches(60, 20_000)
def test_a_damaged_profile_is_reported_or_refused(first: int, tmp_path: Path) -> None:
    path = tmp_path / "vm.xplane.pb"
    for seed in range(first, first + BATCH):
        path.write_bytes(mutants.profile(seed, profiles()[seed % len(profiles())]))
        with contextlib.suppress(OutpaceError), api.open(path) as profile:
            report = profile.report()
            assert not report.failed_pages(), (seed, [page.failure for page in report.failed_pages()])
            outlets.show(report, tmp_path / "tables")
            with contextlib.suppress(OutpaceError):
                outlets.show(profile.report_of(profile.explain()), tmp_path / "tables")
            for form in ExportFormat:
                with open(tmp_path / "trace", "wb") as file:
                    write_trace(profile.run, file.fileno(), form, parse_selection(None, None, None, Arguments.ALL))
            json.loads((tmp_path / "trace").read_bytes() if form is ExportFormat.JSON else "0", parse_constant=pytest.fail)


@functools.lru_cache(maxsize=4)
def side(path: Path, middle: bool, folder: Path) -> Side | None:
    """The side of a comparison that a cut is, before anything is changed; None where it has no
    steps.
    """
    file = folder / path.name.removesuffix(".gz")
    file.write_bytes(cuts.cut(path, middle))
    with contextlib.suppress(OutpaceError), api.open(file) as profile:
        return Side.from_runs("before", profile.run)
    return None


@batches(40, 2000)
def test_whatever_shape_a_program_has_no_way_to_look_at_it_fails(first: int, tmp_path: Path) -> None:
    """Captures that may be some program's: every page, comparison, file and picture of them is
    there, or refused with a sentence.
    """
    seeds = cuts.seeds()
    found = []
    for seed in range(first, first + BATCH):
        (path, middle), other = seeds[seed * 37 % len(seeds)], seeds[seed * 7 % len(seeds)]
        run = tmp_path / str(seed)
        run.mkdir()
        before = side(path, middle, tmp_path)
        file = run / path.name.removesuffix(".gz")
        file.write_bytes(mutants.program(seed, cuts.cut(path, middle), cuts.cut(*other)))
        record = path.with_name(path.name.replace(".xplane.pb.gz", ".outpace.json"))
        if record.exists() and seed % 2:
            (run / record.name).write_bytes(record.read_bytes())
        if seed % 4 == 3:  # and a second host
            (run / "second.xplane.pb").write_bytes(mutants.program(seed + 10**6, cuts.cut(path, middle), cuts.cut(*other)))
        found += [f"{seed} ({path.parent.name}): {fault}" for fault in outlets.faults(run, tmp_path, before, seed)]
    assert not found, "\n".join(found)
