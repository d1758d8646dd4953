"""The monitor around plain Python loops: it measures, it writes what others can read, and it never
hurts the loop.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outpace.model.errors import UsageError
from outpace.monitor import Monitor
from outpace.monitor.input_wait import count_examples
from outpace.monitor.sinks import Sinks, encode_tfrecord
from outpace.monitor.step_monitor import StepMonitor


def lines(logdir: Path) -> list[dict[str, Any]]:
    (file,) = logdir.glob("outpace-monitor/*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Clock:
    """One that goes on while the test sleeps, and never else: a machine that stops the test for a
    while is no part of what is measured.
    """

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Sleep so long, and a little longer."""
        self.now += round(seconds * 1e9) + 100_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "perf_counter_ns", made)
    monkeypatch.setattr(StepMonitor.__init__, "__defaults__", (made,))
    return made


class Array:
    """As much of an array as a batch shows."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


def test_a_loop_with_its_input(tmp_path: Path, capfd: pytest.CaptureFixture[str], clock: Clock) -> None:
    def batches() -> Any:
        for _ in range(25):
            clock.sleep(0.003)
            yield {"x": Array(16, 4), "y": Array(16)}

    with Monitor(tmp_path, every_steps=20, warmup=5, tensorboard=False) as monitor:
        for _ in range(2):
            for _batch in monitor.input(batches()):
                with monitor.step():
                    clock.sleep(0.001)
            clock.sleep(0.1)  # a validation
    intervals = [line for line in lines(tmp_path) if line["event"] == "interval"]
    assert [line["steps"] for line in intervals] == [20, 20, 5]
    for line in intervals:
        assert 4 < line["step_ms"]["p50"] <= line["step_ms"]["max"] < 80
        assert 3 < line["input_wait_ms"] < line["step_ms"]["mean"]
        assert line["examples_per_s"] == pytest.approx(16 * line["steps_per_s"], rel=1e-3)
    assert "monitor: 50 steps" in capfd.readouterr().err


def test_one_call_per_step(tmp_path: Path, clock: Clock) -> None:
    monitor = Monitor(tmp_path, warmup=0, tensorboard=False)
    for _ in range(11):
        clock.sleep(0.002)
        monitor.step_done()
    monitor.pause()
    clock.sleep(0.1)
    monitor.step_done()
    clock.sleep(0.002)
    monitor.step_done()
    monitor.close()
    end = lines(tmp_path)[-1]
    assert (end["event"], end["steps"]) == ("end", 11)
    assert 2 < end["step_ms"]["p50"] <= end["step_ms"]["max"] < 80


def test_an_exception_passes_and_its_step_is_not_counted(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="the user's own"), Monitor(tmp_path, warmup=0, tensorboard=False) as monitor:
        for number in range(5):
            with monitor.step():
                if number == 3:
                    raise KeyError("the user's own")
    assert lines(tmp_path)[-1]["steps"] == 3


@pytest.mark.parametrize("how", ["open", "write"])
def test_a_failure_of_its_own_ends_the_monitor_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "open":
        (tmp_path / "outpace-monitor").write_text("a file is in the way", encoding="utf-8")
    else:

        def full(self: Sinks, content: Any) -> None:
            if content["event"] == "interval":
                raise OSError("No space left on device")

        monkeypatch.setattr(Sinks, "write_line", full)
    done = 0
    with Monitor(tmp_path, every_steps=5, warmup=0) as monitor:
        for _ in monitor.input(range(50)):
            with monitor.step():
                done += 1
    assert done == 50
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert "the training goes on without it" in said[0]


def test_a_forked_child_does_nothing(tmp_path: Path) -> None:
    code = f"""
import os, time
from outpace.monitor import Monitor
from outpace.monitor.step_monitor import StepMonitor
monitor = Monitor({str(tmp_path)!r}, every_steps=1, warmup=0)
monitor.step_done(); monitor.step_done()
if os.fork() == 0:
    for _ in range(100): monitor.step_done()
    raise SystemExit(0)
os.wait()
monitor.step_done()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stderr.count("\n") == 1  # at the end of the process, without a call of `close`
    written = lines(tmp_path)
    assert (written[-1]["event"], written[-1]["steps"]) == ("end", 2)
    assert len({line["pid"] for line in written if "pid" in line}) == 1


def test_it_loads_the_standard_library_only() -> None:
    code = "import sys, outpace.monitor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert {"numpy", "fsspec", "tensorflow", "keras", "jax"}.isdisjoint(done.stdout.split())


def test_a_remote_log_directory(capfd: pytest.CaptureFixture[str]) -> None:
    import fsspec

    with Monitor("memory://monitor-test/logs", warmup=0) as monitor:
        for _ in range(5):
            monitor.step_done()
    files = fsspec.filesystem("memory").find("/monitor-test/logs/outpace-monitor")
    assert [os.path.splitext(name)[1] for name in sorted(files)] == [".outpace", ".jsonl"]
    assert "details in memory://monitor-test/logs/outpace-monitor" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"every": 0}, "every"), ({"ratio": 1}, "ratio"), ({"every_steps": 0}, "every_steps"), ({"cooldown": -1}, "cooldown")],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Monitor("logs", **settings)


def test_batch_sizes() -> None:
    class Odd:
        shape = None

    assert count_examples(({"x": Array(8, 2)}, Array(9))) == 8
    others: tuple[object, ...] = ((), {}, Array(), Odd(), 3, [Array(4)])
    assert [count_examples(item) for item in others] == [0, 0, 0, 0, 0, 4]


def test_records_carry_the_check_sums_of_the_format() -> None:
    """The CRC-32C of "123456789" is 0xE3069283 (RFC 3720 and others); a TFRecord masks it."""
    crc = struct.unpack("<I", encode_tfrecord(b"123456789")[-4:])[0]
    assert crc == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
