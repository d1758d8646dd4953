"""A part of a run says of its steps what the whole says of them, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.api import Profile
from outpace.model import UsageError
from outpace.timeline import Run, Timeline
from outpace.timeline.run_part import RunPart, parse_step_range
from tests.support import opened

PROFILES = (
    *("custom_loop", "keras_fit", "tfdata_heavy", "jax_loop", "memory_heavy", "mirrored", "retracing", "predict_inference"),
    *("jax_rocm_conv_8gpu", "tpu_v6e_inference", "input_bound_generator"),
)


def rows(profile: Profile) -> dict[tuple[object, object], dict[str, object]]:
    """The steps of the overview by host and number."""
    table = next(t for t in profile.overview().tables() if t.name == "steps")
    return {(row["host"], row["step"]): row for row in table.records()}


@pytest.mark.parametrize("name", PROFILES)
def test_a_step_takes_what_it_takes_in_the_whole(name: str) -> None:
    whole = opened(name)
    numbers = whole.run.hosts[0].steps.number
    first, last = int(numbers[len(numbers) // 3]), int(numbers[2 * len(numbers) // 3])
    mine, all_of_them = rows(whole.part(steps=(first, last))), rows(whole)
    assert set(mine) == {key for key in all_of_them if first <= int(str(key[1])) <= last}
    other = ("start_ps", "aside")  # counted from the part's beginning, and held against the part's own steps
    same = [key for key in mine if all(mine[key][c] == v for c, v in all_of_them[key].items() if c not in other)]
    assert same == list(mine)


@pytest.mark.parametrize("name", ["jax_rocm_gemm", "tpu_v6e_inference", "jax_loop", "keras_fit"])
def test_a_single_step_takes_what_it_takes_in_the_whole(name: str) -> None:
    """Also what ran in its time and belongs to another step: devices work behind the program."""
    whole = opened(name)
    for number in whole.run.hosts[0].steps.number[2:6].tolist():
        (key,) = mine = rows(whole.part(steps=(number, number)))
        assert {**mine[key], "start_ps": 0, "aside": ""} == {**rows(whole)[key], "start_ps": 0, "aside": ""}


@pytest.mark.parametrize("name", [*PROFILES, "multi_host", "tf_gpu_v100_bert"])
def test_every_tool_makes_its_page_of_a_part(name: str) -> None:
    whole = opened(name)
    number = int(whole.run.hosts[0].steps.number[len(whole.run.hosts[0].steps) // 2])
    report = whole.part(steps=(number, number)).report()
    assert [page.failure for page in report.pages if page.failure] == []
    assert report.warnings[0].startswith(f"Only a part of the run is in this report: step {number}")


@pytest.mark.parametrize("name", PROFILES)
def test_the_part_of_all_steps_holds_all_that_belongs_to_one(name: str) -> None:
    run = opened(name).run
    number = run.hosts[0].steps.number
    part = RunPart(steps=(int(number.min()), int(number.max()))).select_from(run).hosts[0]
    whole = run.hosts[0]
    belongs = np.flatnonzero(whole.step_index[:] >= 0)
    assert (part.step_index[:] >= 0).sum() == len(belongs)
    assert sorted(part.trace.start[np.flatnonzero(part.step_index[:] >= 0)].tolist()) == sorted(
        whole.trace.start[belongs].tolist()
    )
    assert part.steps.duration.tolist() == whole.steps.duration.tolist()


@pytest.mark.parametrize("stat", ["step_num", "_r", "id", "parent_id", "tf_function_call"])
def test_stats_are_those_of_the_events_that_stay(stat: str) -> None:
    run = opened("keras_fit").run
    whole, part = run.hosts[0], RunPart(steps=(12, 14)).select_from(run).hosts[0]

    def values(timeline: Timeline) -> set[tuple[int, int, int, int, str]]:
        trace, column = timeline.trace, timeline.trace.stat(stat)
        places = zip(column.rows.tolist(), column.texts(), strict=True)
        return {
            (int(trace.line[r]), int(trace.start[r]), int(trace.duration[r]), int(trace.name[r]), text) for r, text in places
        }

    trace = part.trace
    line = trace.line[np.arange(len(trace))]
    kept = set(zip(line.tolist(), trace.start[:].tolist(), trace.duration[:].tolist(), trace.name[:].tolist(), strict=True))
    assert values(part) == {value for value in values(whole) if value[:4] in kept}
    assert len(values(part)) > 0 or stat == "_r"


def test_hosts_are_chosen_by_name() -> None:
    whole = opened("multi_host")
    one = whole.part(hosts=("localhost_7011",))
    assert [t.host for t in one.run.hosts] == ["localhost_7011"]
    assert one.report().headline.startswith("Input-bound: 6")
    assert whole.part(hosts=[t.host for t in whole.run.hosts]).run is whole.run


def test_devices_are_chosen_by_name() -> None:
    whole = opened("tf_gpu_v100_bert")
    part = whole.part(devices=("/device:GPU:6",)).run.hosts[0]
    assert [plane.name for plane in part.device_planes] == ["/device:GPU:6"]
    assert len(part.steps) == len(whole.run.hosts[0].steps)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"hosts": ("nowhere",)}, "no host nowhere. There are: localhost_7010"),
        ({"steps": (5000, 6000)}, "localhost_7010 has steps"),
        ({"devices": ("/device:GPU:9",)}, "Nothing of the run is such a part"),
    ],
)
def test_what_is_not_there_is_said(asked: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        opened("multi_host").part(**asked)  # type: ignore[arg-type]  # one of several kinds


@pytest.mark.parametrize(
    ("text", "range_"), [("3:5", (3, 5)), ("3:", (3, None)), (":5", (None, 5)), (" 3 ", (3, 3)), ("-2:-1", (-2, -1))]
)
def test_steps_are_written_as_first_and_last(text: str, range_: tuple[int | None, int | None]) -> None:
    assert parse_step_range(text) == range_


@pytest.mark.parametrize("text", ["", ":", "a:b", "5:3", "1.5:2", "1:2:3", "3 5"])
def test_what_is_no_range_of_steps_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="steps"):
        parse_step_range(text)


def test_an_open_range_has_all_steps_on_its_side() -> None:
    run = opened("keras_fit").run
    middle = int(run.hosts[0].steps.number[4])
    numbers = run.hosts[0].steps.number.tolist()
    assert RunPart(steps=(middle, None)).select_from(run).hosts[0].steps.number.tolist() == [n for n in numbers if n >= middle]
    part = RunPart(steps=(None, middle)).select_from(run)
    assert part.hosts[0].steps.number.tolist() == [n for n in numbers if n <= middle]
    assert part.remarks[0] == f"Only a part of the run is in this report: steps the first to {middle}."


def test_a_part_of_a_notebooks_run_calls_its_cells_as_the_whole_does() -> None:
    run = opened("jax_loop").run
    file = run.hosts[0].hlo_modules.find_source_line("step").rpartition(":")[0]
    noted = {timeline.host: {"cells": {file: "In [3]"}} for timeline in run.hosts}
    notebook = Run.from_traces([timeline.trace for timeline in run.hosts], records=noted)
    first = int(notebook.hosts[0].steps.number[0])
    for part in (notebook, RunPart(steps=(first, first)).select_from(notebook)):
        assert part.hosts[0].hlo_modules.find_source_line("step").startswith("In [3]:")
