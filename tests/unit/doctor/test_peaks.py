"""What this machine's processor can do: measured, kept, and read for the same machine alone."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outpace.cli import app
from outpace.doctor import peaks
from outpace.doctor.system import CommandResult, System
from outpace.model import OutputError, UsageError
from outpace.store import cpu_peaks
from outpace.store.cpu_peaks import CpuPeaks, MeasuredRate, read_cpu_peaks, write_cpu_peaks

RATES = {"float32": [3e9, 1e9, 2e9], "float64": [1e9, 1e9, 1e9], "copy": [4e9, 5e9, 6e9]}


class Scripted(System):
    """A machine on which each measurement prints what is given, by library."""

    def __init__(self, printed: dict[str, Any]) -> None:
        self.printed = printed
        self.cores: list[str] = []

    def run(self, command: Any, timeout: float = 30.0, variables: Any = None) -> CommandResult:
        library, cores = command[3], command[4]
        self.cores.append(f"{library} {cores} {variables['OPENBLAS_NUM_THREADS']}")
        printed = self.printed[library]
        return CommandResult(1, "", printed) if isinstance(printed, str) else CommandResult(0, json.dumps(printed), "")


def measured(monkeypatch: pytest.MonkeyPatch, system: System, cores: int = 2) -> CpuPeaks:
    monkeypatch.setattr(peaks, "available_cpus", lambda: cores)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "jax" or None)
    return peaks.measure_cpu_peaks(system)


def test_the_fastest_library_and_the_range_of_its_trials_count(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Scripted({"numpy": RATES, "jax": {"float32": [9e9, 7e9, 8e9], "float64": [5e8] * 3, "copy": []}})
    found = measured(monkeypatch, system)
    assert system.cores == ["numpy 1 1", "numpy 2 2", "jax 1 1", "jax 2 2"]
    assert found.flops == found.core_flops == {"float32": MeasuredRate(7e9, 8e9, 9e9), "float64": MeasuredRate(1e9, 1e9, 1e9)}
    assert found.copy_bytes == MeasuredRate(4e9, 5e9, 6e9)
    assert found.libraries == ("NumPy", "JAX")
    assert found.highest == {"float32": 9e9, "float64": 1e9, "copy": 6e9}


def test_on_one_core_each_library_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Scripted({"numpy": RATES, "jax": RATES})
    measured(monkeypatch, system, cores=1)
    assert system.cores == ["numpy 1 1", "jax 1 1"]


def test_a_framework_that_does_not_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, Scripted({"numpy": RATES, "jax": "no CPU"})).flops["float32"].high == 3e9


def test_without_numpy_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"NumPy's products did not run under .*: ImportError: no BLAS"):
        measured(monkeypatch, Scripted({"numpy": "Traceback\nImportError: no BLAS", "jax": RATES}))


def test_a_real_measurement_of_small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices and arrays, by NumPy: the rates say nothing, but each is one."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = peaks.measure_cpu_peaks(System(), size=64, megabytes=1, trials=3)
    assert set(found.flops) == {"float32", "float64"}
    for rate in (*found.flops.values(), *found.core_flops.values(), found.copy_bytes, found.core_copy_bytes):
        assert 0 < rate.low <= rate.median <= rate.high < 1e15


RATE = MeasuredRate(1e9, 2e9, 3e9)


def mine(**changes: Any) -> CpuPeaks:
    told = {"cpu": "a processor", "cores": 2, "flops": {"float32": RATE}, "core_flops": {"float32": RATE}}
    return CpuPeaks(
        **{**told, "copy_bytes": RATE, "core_copy_bytes": RATE, "libraries": ("NumPy",), "measured": "now", **changes}
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_peaks, "cpu_name", lambda: "a processor")
    monkeypatch.setattr(cpu_peaks, "available_cpus", lambda: 2)


@pytest.mark.usefixtures("machine")
def test_what_is_kept_is_read_on_the_same_machine_alone(tmp_path: Path) -> None:
    assert read_cpu_peaks(tmp_path) is None
    write_cpu_peaks(mine(), tmp_path / "new")
    assert read_cpu_peaks(tmp_path / "new") == mine()
    for other in (mine(cpu="another"), mine(cores=3)):
        write_cpu_peaks(other, tmp_path)
        assert read_cpu_peaks(tmp_path) is None


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cpu": 3}', "\x00", '{"cpu": "a processor", "cores": "two"}'])
def test_a_damaged_file_is_none(text: str, tmp_path: Path) -> None:
    path = write_cpu_peaks(mine(), tmp_path)
    path.write_text(text)
    assert read_cpu_peaks(tmp_path) is None


def test_where_nothing_can_be_kept_there_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="The file of measured peaks cannot be written"):
        write_cpu_peaks(mine(), tmp_path / "file" / "below")


@pytest.mark.usefixtures("machine")
def test_the_command_prints_and_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks, "measure_cpu_peaks", lambda system, tell: mine())
    text = " ".join(CliRunner().invoke(app, ["doctor", "--peaks"]).output.split())
    assert "a processor, 2 cores" in text and "3 (1 to 3)" in text and "Measure again on a quiet machine" in text
    assert read_cpu_peaks() == mine()
    printed = json.loads(CliRunner().invoke(app, ["doctor", "--peaks", "--json"]).output)
    assert printed["flops"]["float32"] == {"low": 1e9, "median": 2e9, "high": 3e9}
