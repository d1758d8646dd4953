"""The monitor's work per step on a clock that the test drives: lines, deep captures, and what they
may cost.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outpace.capture.profilers import ProfilerBusy
from outpace.monitor import slowdown_capture as deep_module
from outpace.monitor import step_monitor as core_module
from outpace.monitor.slowdown_capture import CaptureLimits
from outpace.monitor.step_monitor import MonitorSettings, StepMonitor

SECOND = 10**9


class FileProfiler:
    """A profiler whose profiles have a size that the test chooses; `busy` is another session in the
    process.
    """

    def __init__(self) -> None:
        self.busy = False
        self.megabytes = 1.0
        self.started = 0
        self.marks: list[int] = []
        self.open = 0

    def start(self, logdir: str) -> None:
        if self.busy:
            raise ProfilerBusy
        self.started += 1
        self._logdir = logdir

    def stop(self, save: bool) -> None:
        folder = Path(self._logdir, "plugins", "profile", "run")
        folder.mkdir(parents=True)
        (folder / "host.xplane.pb").write_bytes(bytes(int(self.megabytes * 1e6)))

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        assert not self.open, "marks of steps do not nest"
        self.open += 1
        self.marks.append(number)
        return self._close

    def _close(self) -> None:
        self.open -= 1

    def sync(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True


class Run:
    """A core with its clock, its profiler and its files."""

    def __init__(self, logdir: Path, profiler: FileProfiler, **settings: Any) -> None:
        self.now = 0
        self.profiler = profiler
        self.logdir = logdir
        self.draw = random.Random(3)
        self.core = StepMonitor(MonitorSettings(str(logdir), **{"tensorboard": False, **settings}), clock=lambda: self.now)
        self.core.start()
        self.core.begin_step()

    def steps(self, count: int, milliseconds: float, waits: float = 0.0) -> None:
        for _ in range(count):
            duration = milliseconds * self.draw.lognormvariate(0, 0.05)
            self.now += int(duration * 1e6)
            self.core.input_clock.waited_ns += int(duration * waits * 1e6)
            self.core.input_clock.batches += bool(waits)
            self.core.advance_step()

    def lines(self, event: str) -> list[dict[str, Any]]:
        (file,) = self.logdir.glob("outpace-monitor/*.jsonl")
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if line["event"] == event]

    @property
    def runs(self) -> list[str]:
        folder = self.logdir / "plugins" / "profile"
        return sorted(os.listdir(folder)) if folder.is_dir() else []


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> FileProfiler:
    fake = FileProfiler()
    monkeypatch.setattr(deep_module, "build_profiler", lambda options: fake)
    return fake


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(core_module, "print_message", told.append)
    return told


def test_lines_hold_what_happened(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler, batch_size=32)
    run.steps(5000, 5, waits=0.25)
    run.core.finish()
    intervals = run.lines("interval")
    assert sum(line["steps"] for line in intervals) == 5000 - 10
    assert len(intervals) == 3  # 25 s, a line every 10 s
    for line in intervals:
        assert line["step_ms"]["mean"] == pytest.approx(5, rel=0.02)
        assert line["step_ms"]["p50"] < line["step_ms"]["p95"] <= line["step_ms"]["max"]
        assert line["steps_per_s"] == pytest.approx(200, rel=0.02)
        assert line["examples_per_s"] == pytest.approx(6400, rel=0.02)
        assert line["input_wait_ms"] == pytest.approx(1.25, rel=0.02)
        assert line["input_share"] == pytest.approx(0.25, rel=0.01)
        assert line["memory"]["rss_mb"] > 1
    (end,) = run.lines("end")
    assert (end["steps"], end["timed_steps"], end["slowdowns"], end["captures"]) == (5000, 4990, 0, 0)
    assert re.fullmatch(
        r"monitor: 5000 steps, 5(\.0\d)? ms each on average, 25% of it waiting for input, 0 slowdowns, 0 captures; details in .*",
        said[-1],
    )


def test_every_steps_and_steps_per_call(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler, every_steps=50, warmup=0)
    run.core.steps_per_call = 4
    run.steps(200, 20)
    run.core.finish()
    assert [(line["step"], line["steps"]) for line in run.lines("interval")] == [(200, 200), (400, 200), (600, 200), (800, 200)]
    assert run.lines("interval")[0]["step_ms"]["mean"] == pytest.approx(5, rel=0.02)


def test_an_unmeasured_input_wait_is_absent_and_said_once(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler)
    run.steps(6000, 5)
    run.core.finish()
    assert not any("input_wait_ms" in line or "input_share" in line for line in run.lines("interval"))
    (note,) = run.lines("note")
    assert "monitor.input(...)" in note["text"]
    assert "input wait not measured" in said[-1]


def test_a_lasting_slowdown_gives_one_capture(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler)
    run.steps(1000, 5)
    run.steps(200_000, 12)  # 40 minutes: several cooldowns
    run.core.finish()
    assert (profiler.started, len(run.runs)) == (1, 1)
    assert len(profiler.marks) == 10
    assert profiler.open == 0
    (slow,), (capture,) = run.lines("slowdown"), run.lines("capture")
    assert 980 < slow["since"] < 1020
    assert capture["steps"] == 10
    assert capture["run"].startswith(str(tmp_path))
    pattern = r"monitor: steps take 1[12].* ms instead of \d.* ms since step \d+; captured 10 steps in /.*"
    assert re.fullmatch(pattern, said[0])
    record = json.loads((tmp_path / "plugins" / "profile" / "run" / "host.outpace.json").read_text(encoding="utf-8"))
    assert record["mode"] == "monitor"
    assert record["window"]["steps"] == len(record["overhead"]["during_ns"]) == 10
    assert record["overhead"]["before_ns"][-1] == pytest.approx(12e6, rel=0.3)


def test_captured_steps_are_in_no_line(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler, limits=CaptureLimits(seconds=100))
    run.steps(1000, 5)
    for _ in range(1000):
        if not run.core.slowdown_capture.recording:
            run.steps(1, 12)
    assert run.core.slowdown_capture.recording
    run.steps(10, 500)
    run.steps(2, 500)  # after a capture, two calls settle
    run.steps(1000, 12)
    run.core.finish()
    assert profiler.started == 1
    assert max(line["step_ms"]["max"] for line in run.lines("interval")) < 20


def test_a_second_slowdown_within_the_cooldown_gives_none(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler)
    for milliseconds in (5, 12, 5, 15):
        run.steps(2000, milliseconds)
    assert [line.get("no_capture") for line in run.lines("slowdown")] == [None, "cooldown"]
    run.steps(2000, 5)
    run.now += 600 * SECOND
    run.core.pause()
    run.steps(2000, 15)
    run.core.finish()
    assert [line.get("no_capture") for line in run.lines("slowdown")] == [None, "cooldown", None]
    assert profiler.started == 2


def test_a_capture_also_ends_after_its_seconds(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler)
    run.steps(250, 300)
    run.steps(60, 900)
    run.core.finish()
    assert run.lines("capture")[0]["steps"] == 3


def test_the_disk_budget_is_kept_and_said_once(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    profiler.megabytes = 4
    run = Run(tmp_path, profiler, limits=CaptureLimits(cooldown=0, megabytes=10))
    for milliseconds in (5, 12, 5, 12, 5, 12, 5, 12):
        run.steps(2000, milliseconds)
    run.core.finish()
    assert [line.get("no_capture") for line in run.lines("slowdown")] == [None, None, "disk budget", "disk budget"]
    assert len(run.runs) == 2
    assert sum("8 of 10 MB" in text for text in said) == 1


def test_captures_can_be_off(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler, limits=CaptureLimits(megabytes=0))
    run.steps(1000, 5)
    run.steps(1000, 12)
    run.core.finish()
    assert [line["no_capture"] for line in run.lines("slowdown")] == ["off"]
    assert len(said) == 1


def test_a_capture_waits_for_another_profiler_and_says_so_once(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    profiler.busy = True
    run = Run(tmp_path, profiler)
    run.steps(1000, 5)
    run.steps(3000, 12)
    assert (profiler.started, len(said)) == (0, 1)
    assert "another profiler runs" in said[0]
    profiler.busy = False
    run.steps(1000, 12)
    run.core.finish()
    assert profiler.started == 1
    assert sum(line["steps"] for line in run.lines("interval")) == 5000 - 10 - 10 - 2


def test_no_profile_is_no_end_of_the_monitor(
    tmp_path: Path, profiler: FileProfiler, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(logdir: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(profiler, "start", fails)
    run = Run(tmp_path, profiler)
    run.steps(1000, 5)
    run.steps(1000, 12)
    run.core.finish()
    assert "no space left" in said[0]
    assert run.lines("end")[0]["steps"] == 2000


@pytest.mark.parametrize("epoch", [50, 333])
def test_epochs_and_validations_are_no_slowdown(tmp_path: Path, profiler: FileProfiler, said: list[str], epoch: int) -> None:
    run = Run(tmp_path, profiler)
    for _ in range(10_000 // epoch):
        run.steps(1, 80)  # the first step of an epoch waits for a pipeline that begins anew
        run.steps(epoch - 1, 5)
        run.core.pause(count_step=True)
        run.now += 30 * SECOND
        run.core.begin_step()
    run.core.finish()
    assert run.lines("slowdown") == []
    assert max(line["step_ms"]["max"] for line in run.lines("interval")) < 200


def test_a_validation_ends_a_capture(tmp_path: Path, profiler: FileProfiler, said: list[str]) -> None:
    run = Run(tmp_path, profiler)
    run.steps(1000, 5)
    for _ in range(1000):
        if not run.core.slowdown_capture.recording:
            run.steps(1, 12)
    assert run.core.slowdown_capture.recording
    run.steps(4, 12)
    run.core.pause(count_step=True)
    assert run.lines("capture")[0]["steps"] == 4
    record = json.loads((tmp_path / "plugins" / "profile" / "run" / "host.outpace.json").read_text(encoding="utf-8"))
    assert record["window"]["interrupted"] == [profiler.marks[-1]]
    run.core.finish()
