"""What a monitor's file costs the workbench, whatever stands in it: bounded reading, bounded
memory, and no impossible numbers.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.model import input_files
from outpace.ui import monitor_series, trainings
from outpace.ui.http import Request
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site

LINE = '{"event":"x"}\n'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "outpace-monitor").mkdir()
    made = Site([str(tmp_path)], SummaryCache(tmp_path / "cache"))
    yield made
    made.close()


@pytest.fixture
def took(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes were read of files of others since it was asked last."""
    sizes: list[int] = []

    class Counted(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            sizes.append(len(data))
            return data

    monkeypatch.setattr(input_files, "open", lambda path, _, opener: Counted(io.FileIO(path, opener=opener)), raising=False)

    def since() -> int:
        total = sum(sizes)
        sizes.clear()
        return total

    return since


def ask(site: Site, path: str) -> Any:
    answer = site.answer(Request(path))
    assert answer.status == 200 and isinstance(answer.body, bytes), answer
    return json.loads(answer.body)


def curves(site: Site) -> Any:
    (line,) = ask(site, "watched")
    return ask(site, f"watched/{line['id']}/curves")


def interval(step: int, **numbers: Any) -> str:
    return json.dumps({"time": 1e9 + step, "event": "interval", "step": step, **numbers}) + "\n"


def of(folder: Path, name: str = "host-1") -> Path:
    return folder / "outpace-monitor" / f"{name}.jsonl"


def write(path: Path, text: str, mode: str = "a") -> None:
    with path.open(mode) as file:
        file.write(text)


def test_only_what_was_appended_is_read(site: Site, tmp_path: Path, took: Callable[[], int]) -> None:
    write(of(tmp_path), "".join(interval(at) for at in range(5000)))
    ask(site, "watched")
    assert took() > 100_000
    ask(site, "watched")
    assert took() == 0, "nothing has changed"
    write(of(tmp_path), interval(7777) + '{"event": "inter')
    assert ask(site, "watched")[0]["step"] == 7777 and took() < 4096
    write(of(tmp_path), 'val", "step": 8888}\n')
    assert ask(site, "watched")[0]["step"] == 8888 and took() < 4096


def test_a_look_reads_no_more_than_a_budget_of_all_files(
    site: Site, tmp_path: Path, took: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of what is smallest first, so that the large ones keep none waiting."""
    monkeypatch.setattr(trainings, "MAX_READ_BYTES", 200_000)
    for name in "abc":
        write(of(tmp_path, name), LINE * 30_000 + interval(3))
    write(of(tmp_path, "small"), interval(7))
    steps: list[dict[str, Any]] = []
    for _ in range(12):
        steps.append({line["name"]: line["step"] for line in ask(site, "watched")})
        assert took() <= 200_000 + 4 * 1024
    assert steps[0]["small"] == 7 and steps[0]["a"] is None
    assert steps[-1] == {"a": 3, "b": 3, "c": 3, "small": 7}
    assert sum(each[name] is not None for each in steps for name in "abc") > 12, "one after the other"


@pytest.mark.parametrize("way", ["shrunk", "replaced", "written over"])
def test_a_file_that_is_another_one_is_read_anew(site: Site, tmp_path: Path, way: str) -> None:
    write(of(tmp_path), "".join(interval(at) for at in range(100)))
    assert curves(site)["step"][-1] == 99
    if way == "replaced":
        write(tmp_path / "new", "".join(interval(at) for at in range(1000, 1300)))
        os.replace(tmp_path / "new", of(tmp_path))
    else:
        write(of(tmp_path), "".join(interval(at) for at in range(1000, 1003 if way == "shrunk" else 1300)), "w")
    assert curves(site)["step"][0] == 1000


def test_few_points_and_events_are_kept_and_the_picture_is_the_same(site: Site, tmp_path: Path) -> None:
    count = 8_000
    write(of(tmp_path), "".join(interval(at, step_ms={"p50": 1.0 + at}, input_wait_ms=0.0) for at in range(count)))
    write(of(tmp_path), "".join(json.dumps({"event": "slowdown", "step": at}) + "\n" for at in range(1000)))
    write(of(tmp_path), json.dumps({"event": "note", "step": 9, "text": "long " * 10_000}) + "\n" + interval(count))
    found = curves(site)
    (kept,) = site._trainings._series.values()
    assert 300 <= len(kept.curve._groups) == len(found["step"]) <= 600 and found["step"][-1] == count
    assert found["p50"][0] < found["p50"][-2] and set(found["wait"][:-1]) == {0.0}
    middle = found["step"][len(found["step"]) // 2]
    assert found["p50"][len(found["step"]) // 2] == pytest.approx(middle * 1e9, rel=0.01)
    assert len(found["events"]) <= 101 and len(str(found["events"][-1]["text"])) < 1000
    assert "901 earlier events" in found["events"][0]["text"]
    (line,) = ask(site, "watched")
    assert line["slow"] == 1000


def test_few_files_are_kept_the_last_that_wrote(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "MAX_FILES", 3)
    for at in range(5):
        write(of(tmp_path, str(at)), interval(at))
        os.utime(of(tmp_path, str(at)), (at, at))
    found = ask(site, "watched")
    assert [line["name"] for line in found] == ["4", "3", "2"] and [line["left_out"] for line in found] == [2, 2, 2]
    assert len(site._trainings._series) == 3
    for file in (tmp_path / "outpace-monitor").iterdir():
        file.unlink()
    assert ask(site, "watched") == [] and not site._trainings._series, "forgotten"


def test_a_line_without_an_end_is_passed_over(site: Site, tmp_path: Path) -> None:
    write(of(tmp_path), '{"event":"note","text":"' + "x" * 3 * monitor_series.MAX_LINE_BYTES + '"}\n' + interval(5))
    for _ in range(3):
        (line,) = ask(site, "watched")
    assert line["step"] == 5 and ask(site, f"watched/{line['id']}/curves")["events"] == []


@pytest.mark.parametrize(
    ("share", "p50", "said"),
    [
        (-5, 8.0, "8.00 ms per step"), (1e14, 8.0, "8.00 ms per step"), (1.01, 8.0, "8.00 ms per step"), ("a", 8.0, "8.00 ms per step"),
        (0, 8.0, "8.00 ms per step, 0% of it waiting for input"), (1, 8, "8.00 ms per step, 100% of it waiting for input"),
        (0.5, -3, ""), (0.5, 0, ""), (0.5, 1e999, ""), (0.5, True, ""), (0.5, "3", ""), (0.5, None, ""),
    ],
)  # fmt: skip
def test_impossible_numbers_are_none(site: Site, tmp_path: Path, share: object, p50: object, said: str) -> None:
    write(
        of(tmp_path),
        interval(4, input_share=share, step_ms={"p50": p50, "p95": -1e-9}, input_wait_ms=-1, memory={"rss_mb": -7}),
    )
    write(of(tmp_path), json.dumps({"event": "slowdown", "step": -4, "now_ms": -3, "before_ms": "x"}) + "\n")
    (line,) = ask(site, "watched")
    assert line["text"] == said and line["ps"] == (8e9 if said else None)
    found = curves(site)
    assert found["p95"] == found["wait"] == found["memory"] == [None]
    assert found["events"] == [{"step": 0, "kind": "slowdown", "text": "steps take longer than before"}]
