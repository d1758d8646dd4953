"""The capture record: what is written is read back, and anything else is refused with a reason."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from outpace.store.logdir import read_capture_record
from outpace.store.record import (
    CapturedSteps,
    CaptureRecord,
    Compilation,
    PipelineStage,
    PythonSamples,
    StepDurations,
    write_record,
)

STAGE = PipelineStage(
    1, "map", "a_py_L3_map", "/a.py", 3, "d.map(f)", {"num_parallel_calls": 4}, (0,), ("PyFunc",), (), "f", None
)
RECORD = CaptureRecord(
    outpace="0.1",
    script="a.py",
    argv=("-x",),
    versions={"tensorflow": "2.21"},
    python="3.11",
    mode="keras fit",
    window=CapturedSteps(10, 20, 10, 1.5, (12,), 2.25),
    steps_per_execution=1,
    overhead=StepDurations((1, 2), (3,), ()),
    pipeline=(STAGE,),
    cpu_count=2,
    python_samples=PythonSamples(
        10**18,
        "MainThread",
        "signal",
        (("/a.py", "f", 3, ""), ("/s/k.py", "g", 1, "k")),
        (((0, 4), (1, 2)),),
        ((5, 6, 0),),
        ((0, 4, "g()"),),
    ),
    compilations=(
        Compilation(10**18, 5, "/jax/core/compile/x", "/a.py", 3, "f", "g"),
        Compilation(10**18, 5, "/jax/core/compile/x", "/a.py", 3, "f", "g", {"x": "float32[3]"}, {"x": "float32[4]"}),
    ),
    exit=0,
    created="2026-01-01T00:00:00+00:00",
)


def test_round_trip(tmp_path: Path) -> None:
    write_record(str(tmp_path), "host.a", RECORD)
    assert read_capture_record(str(tmp_path), "host.a") == (RECORD, None)
    assert [path.name for path in tmp_path.iterdir()] == ["host.a.outpace.json"]


def test_missing_is_no_warning(tmp_path: Path) -> None:
    assert read_capture_record(str(tmp_path / "nowhere"), "host") == (None, None)


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    data = dataclasses.asdict(RECORD)
    data["later"] = data["window"]["later"] = data["pipeline"][0]["later"] = 1
    assert CaptureRecord.from_json(json.dumps(data)) == RECORD


def test_a_record_of_an_earlier_version_has_no_samples() -> None:
    data = dataclasses.asdict(RECORD)
    del data["python_samples"], data["compilations"]
    record = CaptureRecord.from_json(json.dumps(data))
    assert record.python_samples is None and record.compilations == ()
    assert record.as_dict()["python_samples"] is None
    assert CaptureRecord.from_json(record.to_json()) == record


def test_plain_form_is_that_of_dataclasses() -> None:
    assert json.loads(json.dumps(RECORD.as_dict())) == json.loads(json.dumps(dataclasses.asdict(RECORD)))


def test_samples_take_one_line_of_the_file() -> None:
    (line,) = (line for line in RECORD.to_json().splitlines() if "python_samples" in line)
    assert line.endswith("},") and '"samples":[[5,6,0]]' in line


def _without(key: str) -> str:
    data = dataclasses.asdict(RECORD)
    del data[key]
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"schema": 99}', "schema is 99"),
        (_without("window"), "window"),
        (_without("mode"), "mode"),
        (RECORD.to_json().replace("[[5,6,0]]", "[[5,6,1]]"), "a stack that is not there"),
        (RECORD.to_json().replace("[[[0,4],[1,2]]]", "[[[0,4],[2,2]]]"), "a frame that is not there"),
        (RECORD.to_json().replace("[[5,6,0]]", "[[5,6]]"), "wrong kind"),
        (RECORD.to_json().replace('"a_py_L3_map"', "NaN").replace('"id": 1', '"id": "one"'), "wrong kind"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_malformed_is_ignored_with_a_warning(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "h.outpace.json").write_text(text)
    record, warning = read_capture_record(str(tmp_path), "h")
    assert record is None
    assert warning is not None and reason in warning and "h.outpace.json" in warning


def test_bytes_that_are_no_text_are_ignored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "h.outpace.json").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in str(read_capture_record(str(tmp_path), "h")[1])
