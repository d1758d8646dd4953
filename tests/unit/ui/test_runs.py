"""Which runs the workbench lists, and what their lines say."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from outpace.model.input_files import read_file
from outpace.ui import run_summaries
from outpace.ui.pages import build_run_lines
from outpace.ui.run_summaries import RunSummary, SummaryCache, compute_op_sketch, same_program
from outpace.ui.runs import RunList, scan_folders
from tests.support import PROFILES, opened, profile_path


def run(logdir: Path, name: str, profile: str = "custom_loop") -> Path:
    folder = logdir / "plugins" / "profile" / name
    shutil.copytree(profile_path(profile), folder)
    return folder


def test_all_runs_are_listed_newest_first(tmp_path: Path) -> None:
    run(tmp_path / "a", "2026_01_02_00_00_00")
    run(tmp_path / "b" / "train", "2026_01_03_00_00_00")
    run(tmp_path / "b", "2026_01_01_00_00_00")
    found = scan_folders([str(tmp_path)])
    assert [(r.info.run[:10], r.logdir) for r in found] == [("2026_01_03", "b/train"), ("2026_01_02", "a"), ("2026_01_01", "b")]
    assert len({r.id for r in found}) == 3
    assert [r.id for r in scan_folders([str(tmp_path / "a")])] == [found[1].id], "its address stays"


def test_a_runs_own_folder_and_several_roots(tmp_path: Path) -> None:
    single, other = run(tmp_path / "a", "r"), tmp_path / "b"
    run(other, "s")
    assert [r.info.folder for r in scan_folders([str(single)])] == [str(single)]
    assert {r.info.run for r in scan_folders([str(single), str(other), str(tmp_path / "a"), str(tmp_path / "nowhere")])} == {
        "r",
        "s",
    }
    assert scan_folders([str(tmp_path / "nowhere"), str(Path(__file__))]) == ()


def test_a_changed_file_is_another_state(tmp_path: Path) -> None:
    folder = run(tmp_path, "r")
    before = scan_folders([str(tmp_path)])[0]
    file = next(folder.glob("*.xplane.pb*"))
    os.utime(file, (1, 1))
    after = scan_folders([str(tmp_path)])[0]
    assert (before.id, before.info.state) != (after.id, after.info.state)
    assert before.id == after.id


def test_a_list_that_is_asked_again_shows_what_has_changed(tmp_path: Path) -> None:
    """A run that is new, or has gone, at once; a file that was written over, of a folder that is as
    it was, within thirty times.
    """
    old, other = run(tmp_path, "2026_01_01_00_00_00"), run(tmp_path, "2026_01_02_00_00_00")
    for folder in (old, other):
        for each in (*folder.iterdir(), folder):
            os.utime(each, (1e9, 1e9))
    runs = RunList([str(tmp_path)])
    first = runs.refresh()
    assert runs.refresh() is first, "nothing is made again"
    run(tmp_path, "2026_01_03_00_00_00")
    assert [each.info.run[:10] for each in runs.refresh()] == ["2026_01_03", "2026_01_02", "2026_01_01"]
    assert runs.refresh()[1] is first[0]
    shutil.rmtree(other)
    assert [each.info.run[:10] for each in runs.refresh()] == ["2026_01_03", "2026_01_01"]
    file, before = next(old.glob("*.xplane.pb*")), runs.refresh()[1].info.state
    with open(file, "r+b") as content:
        content.truncate(file.stat().st_size - 1)
    # which of the scans reads the folder again depends on its path
    states = {runs.refresh()[1].info.state for _ in range(31)}
    assert len(states - {before}) == 1, "it was written over"


def test_a_run_that_is_being_written_is_looked_at_each_time(tmp_path: Path) -> None:
    folder = run(tmp_path, "r")
    runs = RunList([str(tmp_path)])
    states = set()
    for size in (1, 2, 3):
        next(folder.glob("*.xplane.pb*")).write_bytes(b"x" * size)
        states |= {each.info.state for each in runs.refresh()}
    assert len(states) == 3


def test_verdicts_outlive_the_server_but_errors_do_not(tmp_path: Path) -> None:
    run(tmp_path, "r")
    info = scan_folders([str(tmp_path)])[0].info
    SummaryCache(tmp_path / "cache").put(info, RunSummary("Input-bound", 5e9, "Cache it", "half", "train.py", (1, 2)))
    assert SummaryCache(tmp_path / "cache").get(info) == RunSummary("Input-bound", 5e9, "Cache it", "half", "train.py", (1, 2))
    other = SummaryCache(tmp_path / "other")
    other.put(info, RunSummary(error="no"))
    assert other.get(info) == RunSummary(error="no") and SummaryCache(tmp_path / "other").get(info) is None
    for file in (tmp_path / "cache").iterdir():
        file.write_text('{"headline": 7}')
    assert SummaryCache(tmp_path / "cache").get(info) is None, "what cannot be read is looked at again"


def test_a_verdict_that_another_thread_is_reading_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that was told so would show its run as not looked at until something else changes."""
    run(tmp_path, "r")
    info, verdict = scan_folders([str(tmp_path)])[0].info, RunSummary("Input-bound")
    SummaryCache(tmp_path / "cache").put(info, verdict)
    cache, seen = SummaryCache(tmp_path / "cache"), []

    def read(*given: Any) -> bytes:
        monkeypatch.setattr(run_summaries, "read_file", read_file)
        seen.append(cache.get(info))  # what the other thread is told meanwhile
        return read_file(*given)

    monkeypatch.setattr(run_summaries, "read_file", read)
    assert cache.get(info) == verdict and seen == [verdict]


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    run(tmp_path, "r")
    (tmp_path / "file").write_text("")
    info, cache = scan_folders([str(tmp_path)])[0].info, SummaryCache(tmp_path / "file" / "cache")
    cache.put(info, RunSummary("x"))
    assert cache.get(info) == RunSummary("x")


def test_a_step_is_held_against_the_run_before_of_the_same_program(tmp_path: Path) -> None:
    for day in (1, 2, 3, 4):
        run(tmp_path, f"2026_01_0{day}_00_00_00")
    runs, cache = scan_folders([str(tmp_path)]), SummaryCache(tmp_path / "cache")
    verdicts = [
        RunSummary("d", 8e9, script="train.py --big"),
        RunSummary("c", 1e9, script="other.py"),
        RunSummary("b", 0.0, script="train.py"),
        RunSummary("a", 10e9, script="train.py"),
    ]
    for one, verdict in zip(runs, verdicts, strict=True):
        cache.put(one.info, verdict)
    shown = build_run_lines(runs, cache)
    assert round(shown[0]["against"]["share"], 6) == -0.2 and shown[0]["against"]["id"] == runs[3].id
    assert all("against" not in line for line in shown[1:])
    assert shown[0]["step"] == "8 ms" or shown[0]["step"] == "8.00 ms"


ALL, HALF, LESS, ALMOST = (*(tuple(range(16)), (*range(8), *[99] * 8), (*range(7), *[99] * 9), (*range(15), 99)),)


@pytest.mark.parametrize(
    ("one", "other", "together", "apart"),
    [
        (RunSummary(script="a.py 1"), RunSummary(script="a.py 2"), True, False),  # nothing but the script's name is known
        (RunSummary(script="a.py"), RunSummary(script="b.py"), False, False),
        (RunSummary(script="a.py", ops=ALL), RunSummary(script="b.py", ops=ALL), False, False),
        (RunSummary(script="a.py 1", ops=ALL), RunSummary(script="a.py 2", ops=HALF), True, True),
        (RunSummary(script="a.py bert", ops=ALL), RunSummary(script="a.py resnet", ops=LESS), False, False),
        (
            RunSummary(script="a.py", ops=ALL),
            RunSummary(script="a.py", ops=LESS),
            True,
            False,
        ),  # another compiler, say; or another a.py
        (RunSummary(ops=ALL), RunSummary(ops=HALF, script="a.py"), False, False),  # half of the names are those of any training
        (RunSummary(ops=ALL), RunSummary(ops=ALMOST), True, True),
        (RunSummary(ops=ALL), RunSummary(ops=ALMOST, script="a.py"), True, True),
        (RunSummary(), RunSummary(), False, False),
        (RunSummary(), RunSummary(script="a.py"), False, False),
    ],
)
def test_programs_are_told_by_their_scripts_and_by_what_they_execute(
    one: RunSummary, other: RunSummary, together: bool, apart: bool
) -> None:
    for where, wanted in ((True, together), (False, apart)):
        assert same_program(one, other, same_logdir=where) is same_program(other, one, same_logdir=where) is wanted


def of_one_program(name: str) -> str:
    """Profiles of the test data that are of one program, captured in several ways or fed in several
    ways.
    """
    model = (
        "custom_loop",
        "custom_loop_unmarked",
        "input_bound_generator",
        "python_tracer",
        "tfrecord_pipeline",
        "verbose_tracer",
    )
    return "one model" if name in model else name.removeprefix("derived_").removeprefix("tf_gpu_").removesuffix("_unmarked")


def test_only_runs_of_one_program_are_held_against_each_other() -> None:
    """All profiles of the test data, of which a few have the name of their script."""
    found = {name: RunSummary(script=opened(name).run.script, ops=compute_op_sketch(opened(name).run)) for name in PROFILES}
    pairs = [
        (one, other)
        for one, other in itertools.combinations(found, 2)
        if same_program(found[one], found[other], same_logdir=True)
    ]
    assert [pair for pair in pairs if len(set(map(of_one_program, pair))) > 1] == []
    assert ("custom_loop", "python_tracer") in pairs and ("derived_v100_bert", "tf_gpu_v100_bert") in pairs


def test_names_are_text(tmp_path: Path) -> None:
    run(tmp_path, "r<script>\x1b[31m")
    line = build_run_lines(scan_folders([str(tmp_path)]), SummaryCache(tmp_path / "cache"))[0]
    assert line["name"] == "r<script>[31m" or "\x1b" not in line["name"]
    assert line["waits"] is True
