"""The doctor on simulated machines: versions, devices, storage, other profilers, and what they mean
together.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from outpace.doctor import devices, diagnose, examine, profiler, storage, trial, versions
from outpace.doctor.facts import (
    Driver,
    FrameworkFacts,
    TimedTrialCapture,
    TrialCapture,
    query_driver,
    query_framework,
    query_python,
    query_requirements,
)
from outpace.doctor.result import CheckResult, CheckStatus
from outpace.doctor.system import CommandResult, System
from outpace.model import NotFoundError
from tests.unit.doctor.doctor_systems import CPU_BUILD, INFORMATION, Recorded, cpu_facts, gpu_facts, tensorflow

DLOPEN = (
    "2024-05-08 W tensorflow/core/common_runtime/gpu/gpu_device.cc:2251] Cannot dlopen some GPU libraries. Please make sure the missing "
    "libraries mentioned above are installed properly if you would like to use GPU.\nSkipping registering GPU devices...\n"
)


def by_id(results: list[CheckResult]) -> dict[str, CheckResult]:
    return {item.id: item for item in results}


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ({"tensorflow-cpu": "2.16.2", "numpy": "2.1.0"}, "versions-numpy"),
        ({"tensorflow": "2.17.1", "numpy": "2.0.0"}, "versions-numpy"),
        ({"tensorflow": "2.14.1", "keras": "3.0.1"}, "versions-keras"),
        ({"tensorflow": "2.18.0", "tf-keras": "2.17.0"}, "versions-tf-keras"),
        ({"tensorflow": "2.18.0", "tensorflow-cpu": "2.18.0"}, "versions-two-tensorflows"),
        ({"jax": "0.4.6", "jaxlib": "0.4.14"}, "versions-jaxlib"),
        ({"jax": "0.9.0", "jaxlib": "0.9.0", "jax-cuda12-plugin": "0.9.2"}, "versions-jax-cuda12-plugin"),
        ({"xprof": "2.24.2", "tensorboard-plugin-profile": "2.19.0"}, "versions-two-profile-plugins"),
        ({"tensorboard-plugin-profile": "2.11.2", "protobuf": "4.23.2"}, "versions-profile-plugin"),
        ({"tensorboard": "2.20.0", "setuptools": "82.0.1"}, "versions-tensorboard"),
        ({"tensorboard": "2.20.0", "torch-tb-profiler": "0.4.3"}, "versions-torch-tb-profiler"),
    ],
)
def test_known_mismatches(packages: dict[str, str], expected: str) -> None:
    found = by_id(versions.check(Recorded(), cpu_facts(packages=packages)))
    assert {name for name in found if name.startswith("versions-")} == {expected}
    assert found[expected].outcome is CheckStatus.NOTE  # the import worked
    assert found[expected].command
    assert "{" not in found[expected].text + (found[expected].command or "")


@pytest.mark.parametrize(
    "packages",
    [
        {"tensorflow": "2.18.0", "numpy": "2.0.2", "keras": "3.8.0", "tf-keras": "2.18.0"},
        {
            "tensorflow-cpu": "2.16.2",
            "numpy": "1.26.4",
            "keras": "3.15.1",
            "protobuf": "4.25.9",
            "tensorboard": "2.16.2",
            "setuptools": "65.5.0",
        },
        {"jax": "0.10.2", "jaxlib": "0.10.1"},
        {"xprof": "2.24.2", "tensorboard-plugin-profile": "2.24.2"},  # since 2.20 one is only a name for the other
        {"tensorboard": "2.21.0", "setuptools": "82.0.1"},
        {"numpy": "2.4.6"},
    ],
)
def test_what_fits_is_no_mismatch(packages: dict[str, str]) -> None:
    assert not [
        name for name in by_id(versions.check(Recorded(), cpu_facts(packages=packages))) if name.startswith("versions-")
    ]


def test_a_mismatch_behind_a_failed_import_is_the_problem() -> None:
    broken = FrameworkFacts(
        "tensorflow",
        {},
        "cannot be imported: numpy.core.umath failed to import",
        "ImportError: numpy.core.umath failed to import\n",
    )
    facts = cpu_facts(packages={"tensorflow": "2.16.2", "numpy": "2.1.0"}, frameworks=(broken,))
    found = by_id(versions.check(Recorded(), facts))
    assert found["versions-numpy"].outcome is found["tensorflow"].outcome is CheckStatus.PROBLEM
    assert found["tensorflow"].command == found["versions-numpy"].command == "pip install 'numpy<2'"
    assert found["tensorflow"].evidence == ("ImportError: numpy.core.umath failed to import",)


def test_no_framework_is_a_problem_with_its_sentence() -> None:
    diagnosis = examine(Recorded(), cpu_facts(frameworks=(), trials=()))
    assert not diagnosis.works
    assert diagnosis.verdict.startswith("Captures do not work with this Python: it has neither TensorFlow nor JAX.")
    assert [item.id for item in diagnosis.results if item.outcome is CheckStatus.PROBLEM] == ["framework"]


def test_a_python_without_outpace_cannot_capture() -> None:
    found = by_id(list(examine(Recorded(), cpu_facts(outpace=None, trials=())).results))
    assert found["outpace"].command == "/venv/bin/python -m pip install outpace"
    assert found["trial"].outcome is CheckStatus.NOT_CHECKED


def test_unmet_requirements_of_other_packages_are_not_ours() -> None:
    lines = (
        "tensorflow 2.18.0 has requirement numpy<2.1.0, but you have numpy 2.2.",
        "botocore 1.2 requires jmespath, which is not installed.",
    )
    assert by_id(versions.check(Recorded(), cpu_facts(requirements=lines)))["requirements"].evidence == lines[:1]
    assert by_id(versions.check(Recorded(), cpu_facts(requirements=lines[1:])))["requirements"].outcome is CheckStatus.OK


def test_no_gpu_is_said_plainly_and_stops_nothing() -> None:
    diagnosis = examine(Recorded(), cpu_facts(trials=(TrialCapture("tensorflow", steps=3, source="marked", events=100),)))
    assert diagnosis.works
    assert diagnosis.verdict == "Captures work here; they hold host activity only, as there is no GPU."
    assert "CPU-only machine" in by_id(list(diagnosis.results))["devices"].text


def blind(said: str = "", build: dict[str, object] | None = None, **changes: object) -> CheckResult:
    facts = gpu_facts(frameworks=(tensorflow(said=said, build=build),), **changes)  # type: ignore[arg-type]
    return by_id(devices.check(Recorded(files={"/dev/nvidia0": ""}), facts))["tensorflow-gpu"]


def test_why_tensorflow_sees_no_gpu() -> None:
    missing = blind(DLOPEN)
    assert (missing.outcome, missing.command) == (CheckStatus.PROBLEM, "pip install -U 'tensorflow[and-cuda]'")
    assert "Cannot dlopen" in missing.evidence[0]
    cpu = blind(build=dict(CPU_BUILD), packages={"tensorflow-cpu": "2.18.0"})
    assert cpu.command == "pip uninstall -y tensorflow-cpu && pip install 'tensorflow[and-cuda]==2.18.0'"
    old = blind("E cuda_driver.cc:265] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
    assert "no device" in old.text


def test_a_container_without_the_gpus_devices() -> None:
    facts = gpu_facts(frameworks=(tensorflow(),))
    assert "docker run --gpus all" in (by_id(devices.check(Recorded(), facts))["tensorflow-gpu"].command or "")


def test_a_gpu_hidden_on_purpose_is_a_note() -> None:
    facts = gpu_facts(frameworks=(tensorflow(),))
    found = by_id(devices.check(Recorded(variables={"CUDA_VISIBLE_DEVICES": "-1"}), facts))["tensorflow-gpu"]
    assert (found.outcome, found.command) == (CheckStatus.NOTE, "unset CUDA_VISIBLE_DEVICES")


def test_jax_on_the_gpu_beside_a_tensorflow_for_the_cpu_is_sound() -> None:
    jax = FrameworkFacts("jax", {"version": "0.9.0", "gpus": ["cuda:0"], "levels": True})
    found = by_id(devices.check(Recorded(), gpu_facts(frameworks=(tensorflow(build=CPU_BUILD), jax))))
    assert (found["tensorflow-gpu"].outcome, found["jax-gpu"].outcome) == (CheckStatus.NOTE, CheckStatus.OK)


def test_the_driver_is_asked_by_its_tool_and_else_by_its_folder() -> None:
    listed = "Tesla V100-SXM2-16GB, 550.54.15\nTesla V100-SXM2-16GB, 550.54.15\n"
    assert query_driver(Recorded(commands={"nvidia-smi": CommandResult(0, listed, "")})) == Driver(
        ("Tesla V100-SXM2-16GB",) * 2, "550.54.15"
    )
    files = {"/proc/driver/nvidia/gpus/0000:00:1e.0/information": INFORMATION}
    mismatch = CommandResult(18, "Failed to initialize NVML: Driver/library version mismatch\n", "")
    driver = query_driver(Recorded(files=files, commands={"nvidia-smi": mismatch}))
    assert driver.gpus == ("Tesla V100-SXM2-16GB",)
    assert "version mismatch" in by_id(devices.check(Recorded(), gpu_facts(driver=driver)))["driver"].evidence[0]
    assert query_driver(Recorded()) == Driver()


@pytest.mark.parametrize(
    ("error", "words", "command"),
    [
        (errno.EROFS, "mounted read-only", "outpace doctor --logdir"),
        (errno.ENOSPC, "full", "df -h"),
        (errno.EACCES, "may not write", "outpace doctor --logdir"),
        (errno.ENOTDIR, "a file is in the way", "outpace doctor --logdir"),
    ],
)
def test_an_unwritable_log_directory_says_why(error: int, words: str, command: str) -> None:
    found = by_id(storage.check(Recorded(unwritable={"/logs": error}), cpu_facts()))
    assert found["logdir"].outcome is CheckStatus.PROBLEM
    assert words in found["logdir"].text
    assert command in (found["logdir"].command or "")
    assert found["temporary"].outcome is CheckStatus.OK


def test_an_unwritable_temporary_directory() -> None:
    machine = Recorded(unwritable={"/fast/tmp": errno.EACCES}, variables={"TMPDIR": "/fast/tmp"})
    found = by_id(storage.check(machine, cpu_facts()))
    assert (found["logdir"].outcome, found["temporary"].outcome) == (CheckStatus.OK, CheckStatus.PROBLEM)
    assert "TMPDIR" in (found["temporary"].command or "")


@pytest.mark.parametrize(
    ("free", "outcome"), [(2 * 10**9, CheckStatus.OK), (5 * 10**8, CheckStatus.NOTE), (5 * 10**7, CheckStatus.PROBLEM)]
)
def test_room_for_a_profile(free: int, outcome: CheckStatus) -> None:
    assert storage.check(Recorded(free=free), cpu_facts())[0].outcome is outcome


def test_urls_are_written_to_and_left_clean() -> None:
    fsspec = pytest.importorskip("fsspec")
    (found, _) = storage.check(Recorded(), cpu_facts(logdir="memory://doctor/logs"))
    assert found.outcome is CheckStatus.OK
    assert not [name for name in fsspec.filesystem("memory").find("/doctor") if "outpace" in name]
    (unknown, _) = storage.check(Recorded(), cpu_facts(logdir="nosuchstore://bucket/logs"))
    assert unknown.outcome is CheckStatus.PROBLEM


def test_variables_that_disturb_a_capture() -> None:
    variables = {
        "TF_GPU_PROFILER_DISABLE_CUPTI": "1",
        "CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    found = {
        item.evidence[0].split("=")[0]: item
        for item in profiler.check(Recorded(variables=variables), gpu_facts())
        if item.evidence
    }
    assert found["TF_GPU_PROFILER_DISABLE_CUPTI"].outcome is CheckStatus.PROBLEM
    assert found["CUDA_INJECTION64_PATH"].outcome is CheckStatus.PROBLEM
    assert found["TF_CPP_MIN_LOG_LEVEL"].command == "unset TF_CPP_MIN_LOG_LEVEL"
    assert [item.id for item in examine(Recorded(variables=variables), gpu_facts()).results].count("environment") == 3
    on_cpu = [item for item in profiler.check(Recorded(variables=variables), cpu_facts()) if item.id == "environment"]
    assert [item.evidence for item in on_cpu] == [("TF_CPP_MIN_LOG_LEVEL=3",)]
    quiet = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "LD_PRELOAD": "libjemalloc.so",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
    assert by_id(profiler.check(Recorded(variables=quiet), gpu_facts()))["profiler"].outcome is CheckStatus.OK


def test_a_running_profiler_is_named() -> None:
    machine = Recorded(files={"/proc/71/comm": "nsys\n", "/proc/72/comm": "python\n", "/proc/self/comm": "ncu\n"})
    found = by_id(profiler.check(machine, gpu_facts()))["profiler"]
    assert (found.outcome, found.evidence) == (CheckStatus.NOTE, ("nsys (process 71)",))


@pytest.mark.parametrize(("version", "outcome"), [("2.21.0", CheckStatus.NOTE), ("2.18.0", CheckStatus.OK)])
def test_tracer_levels(version: str, outcome: CheckStatus) -> None:
    found = by_id(profiler.check(Recorded(), cpu_facts(frameworks=(tensorflow(version=version),))))
    assert found["tensorflow-levels"].outcome is outcome


def test_a_trial_that_finds_another_profiler() -> None:
    said = "outpace: the script is profiling itself; its capture is left alone, ours waits until it has ended\n"
    (found,) = trial.check(Recorded(), cpu_facts(trials=(TrialCapture("tensorflow", "The script ended.", said),)))
    assert "one at a time" in found.text
    assert found.evidence == (said.strip(),)


def test_a_trial_with_other_steps_than_captured_is_noted() -> None:
    (found,) = trial.check(Recorded(), cpu_facts(trials=(TrialCapture("tensorflow", steps=2, source="inferred", events=9),)))
    assert (found.outcome, "shows 2" in found.text) == (CheckStatus.NOTE, True)


@pytest.mark.parametrize(
    ("failure", "outcome"), [("", CheckStatus.OK), ("its program was ended by SIGSEGV.", CheckStatus.PROBLEM)]
)
def test_a_program_that_a_capture_by_time_ends_is_a_problem(failure: str, outcome: CheckStatus) -> None:
    facts = cpu_facts(
        trials=(TrialCapture("jax", steps=3, source="marked"),), timed_trial=TimedTrialCapture(failure, "what it said")
    )
    found = by_id(trial.check(Recorded(), replace(facts, frameworks=(FrameworkFacts("jax", {"version": "0.11.2"}),))))[
        "jax-by-time"
    ]
    assert found.outcome is outcome
    assert (found.command == "outpace profile --command-buffers off SCRIPT") is bool(failure)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"run": "logs/run", "reason": None, "exit_code": 0}, ""),
        (
            {"run": "logs/run", "reason": None, "exit_code": 139},
            "its program was ended by SIGSEGV. The script need not be at fault",
        ),
        (
            {"run": None, "reason": "it died", "exit_code": 134},
            "its program was ended by SIGABRT. The script need not be at fault",
        ),
        ({"run": "logs/run", "reason": None, "exit_code": 1}, "its program was ended by code 1."),
        ({"run": None, "reason": "No profiler.", "exit_code": 0}, "No profiler."),
        (None, "its process ended with signal 11."),
    ],
)
def test_how_a_program_ends_that_is_captured_by_time(answer: dict[str, object] | None, told: str) -> None:
    class Runs(System):
        def run(
            self, command: Sequence[str], timeout: float = 30.0, variables: Mapping[str, str] | None = None
        ) -> CommandResult:
            if answer is not None:
                Path(command[-2]).write_text(json.dumps(answer))
            return CommandResult(0 if answer is not None else -11, "", "")

    failure = trial.run_timed_trial(Runs(), "python").failure
    assert failure.startswith(told)
    assert bool(failure) is bool(told)


def test_a_crashing_or_hanging_probe_is_an_answer() -> None:
    crashed = query_framework(
        Recorded(commands={"probe.py": CommandResult(-11, "", "Fatal Python error: Segmentation fault\n")}), "python", "jax"
    )
    assert crashed.failure == "crashed with signal 11 when it was imported"
    hung = query_framework(Recorded(commands={"probe.py": CommandResult(-9, "", "", 120.0, timed_out=True)}), "python", "jax")
    assert "did not answer within 120 s" in hung.failure
    found = by_id(versions.check(Recorded(), cpu_facts(frameworks=(crashed,))))["jax"]
    assert found.text == "JAX crashed with signal 11 when it was imported."
    assert found.evidence == ("Fatal Python error: Segmentation fault",)


def test_a_python_that_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="--python"):
        diagnose(python="/nowhere/python", trial=False)
    assert query_python(System(), sys.executable)["executable"] == sys.executable


def test_pip_check_is_read() -> None:
    said = "tensorflow-cpu 2.16.2 has requirement numpy<2.0.0, but you have numpy 2.4.6.\nWARNING: something\n"
    assert query_requirements(Recorded(commands={"pip check": CommandResult(1, said, "")}), "python") == tuple(
        said.splitlines()[:1]
    )
    assert (
        query_requirements(Recorded(commands={"pip check": CommandResult(1, "", "python: No module named pip\n")}), "python")
        is None
    )


def test_private_names_that_a_framework_lacks_are_noted() -> None:
    site = cpu_facts().site[0]
    jax = {f"{site}/jax/__init__.py": "", f"{site}/jax/_src/xla_bridge.py": "backends = {}"}
    found = by_id(versions.check(Recorded(files=jax), cpu_facts()))["private-names"]
    assert (found.outcome, found.command) == (CheckStatus.NOTE, "pip install -U outpace")
    assert "jax._src.xla_bridge._backends" in found.evidence
    assert not any(name.startswith("tensorflow") for name in found.evidence)
    jax[f"{site}/jax/_src/xla_bridge.py"] = "_backends = {}"
    found = by_id(versions.check(Recorded(files=jax), cpu_facts()))["private-names"]
    assert "jax._src.xla_bridge._backends" not in found.evidence
    assert "private-names" not in by_id(versions.check(Recorded(), cpu_facts()))


def test_the_diagnosis_is_json() -> None:
    data = json.loads(json.dumps(examine(Recorded(), gpu_facts()).to_dict()))
    assert set(data) == {"verdict", "works", "python", "results"}
    assert {tuple(item) for item in data["results"]} == {("id", "outcome", "text", "evidence", "command")}
    assert {item["outcome"] for item in data["results"]} <= {"ok", "note", "problem", "not checked"}


def test_the_real_machine(tmp_path: Path) -> None:
    system = System()
    assert system.write_error(str(tmp_path / "a" / "b")) is None
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    assert system.write_error(str(tmp_path / "file" / "logs")) in (errno.ENOTDIR, errno.EEXIST)
    assert system.load_error("libouthere-is-none.so.1") is not None
    late = system.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert late.timed_out
    assert late.seconds < 50
    assert system.run(["/nowhere/tool"]).code == 127
    assert system.free_bytes(str(tmp_path / "not" / "yet")) == pytest.approx(system.free_bytes(str(tmp_path)), rel=0.1)
