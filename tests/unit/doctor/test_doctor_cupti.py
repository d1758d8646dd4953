"""CUPTI faults of real systems, shown to the doctor as recorded texts."""

from __future__ import annotations

import pytest

from outpace.doctor import cupti, examine, trial
from outpace.doctor.facts import TrialCapture
from outpace.doctor.result import CheckStatus
from outpace.doctor.system import CommandResult
from tests.unit.doctor.doctor_systems import (
    CACHE,
    PARAMS,
    STATUS_DOCKER,
    STATUS_ROOT,
    STATUS_USER,
    Recorded,
    cpu_facts,
    gpu_facts,
    tensorflow,
)

TOOLKIT = "/usr/local/cuda/extras/CUPTI/lib64"
PIP = "/venv/lib/python3.11/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12"
IN_CACHE = {"ldconfig -p": CommandResult(0, CACHE, "")}

# https://github.com/tensorflow/tensorflow/issues/39143
PRIVILEGES = """\
2020-05-06 22:12:04.575505: I tensorflow/core/profiler/internal/gpu/cupti_tracer.cc:1372] Profiler found 1 GPUs
2020-05-06 22:12:04.576324: I tensorflow/stream_executor/platform/default/dso_loader.cc:44] Successfully opened dynamic library libcupti.so.10.1
2020-05-06 22:12:04.677122: E tensorflow/core/profiler/internal/gpu/cupti_tracer.cc:1419] function cupti_interface_->Subscribe( \
&subscriber_, (CUpti_CallbackFunc)ApiCallback, this)failed with error CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
2020-05-06 22:12:04.681355: E tensorflow/core/profiler/internal/gpu/cupti_tracer.cc:1441] function cupti_interface_->EnableCallback( 0 , \
subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, cbid)failed with error CUPTI_ERROR_INVALID_PARAMETER
"""
# LOG_AND_DISABLE_IF_ERROR in xla/backends/profiler/gpu/cupti_error_manager.cc
PRIVILEGES_XLA = """\
E0000 00:00:1714.1 cupti_error_manager.cc:201] cuptiSubscribe: error 35: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
E0000 00:00:1714.2 cupti_error_manager.cc:243] cuptiGetTimestamp: ignored due to a previous error.
"""
SUBSCRIBERS = "E0000 cupti_error_manager.cc:201] cuptiSubscribe: error 39: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED\n"
# https://github.com/openxla/xprof/issues/209
LIBRARY = (
    "2020-10-26 W tensorflow/stream_executor/platform/default/dso_loader.cc:59] Could not load dynamic library 'libcupti.so.10.1'; "
    "dlerror: libcupti.so.10.1: cannot open shared object file: No such file or directory\n"
)
NOT_INITIALISED = (
    "E external/org_tensorflow/tensorflow/core/profiler/internal/gpu/cupti_tracer.cc:1487] function "
    "cupti_interface_->ActivityDisable(activity)failed with error CUPTI_ERROR_NOT_INITIALIZED\n"
)
IGNORED = "E0000 cupti_error_manager.cc:243] cuptiGetTimestamp: ignored due to a previous error.\n"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (PRIVILEGES, "cupti-privileges"),
        (PRIVILEGES_XLA, "cupti-privileges"),
        ("Insufficient privilege to run libcupti (you need root permission).", "cupti-privileges"),  # openxla/xprof#363
        (SUBSCRIBERS, "cupti-subscribers"),
        (LIBRARY, "cupti-library"),
        (NOT_INITIALISED, "cupti-initialisation"),
        (IGNORED, "cupti-error"),
    ],
)
def test_what_a_capture_prints_is_recognised(said: str, name: str) -> None:
    found = cupti.find_fault(Recorded(), said)
    assert found is not None
    assert (found.id, found.outcome) == (name, CheckStatus.PROBLEM)
    assert found.command
    assert all(line in said for line in found.evidence)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I tensorflow/stream_executor/platform/default/dso_loader.cc:44] Successfully opened dynamic library libcupti.so.10.1",
        "Could not find cuda drivers on your machine, GPU will not be used.",
    ],
)
def test_what_is_no_fault_is_not_recognised(said: str) -> None:
    assert cupti.find_fault(Recorded(), said) is None


@pytest.mark.parametrize("origin", ["said", "messages"])
def test_a_gpu_without_events_in_the_trial_is_a_problem_with_its_cause(origin: str) -> None:
    """Whether the framework printed the error or wrote it into the profile."""
    texts = {"output": PRIVILEGES} if origin == "said" else {"messages": (PRIVILEGES_XLA,)}
    facts = gpu_facts(trial=TrialCapture("tensorflow", steps=3, source="marked", events=90, **texts))
    diagnosis = examine(Recorded(files={"/.dockerenv": ""}, commands=IN_CACHE), facts)
    found = {item.id: item for item in diagnosis.results}
    assert len(found) == len(diagnosis.results)  # what the driver's parameters left open is answered once
    assert not diagnosis.works
    assert "holds no GPU events" in found["tensorflow-trial"].text
    assert "--cap-add=SYS_ADMIN" in (found["cupti-privileges"].command or "")
    assert found["tensorflow-trial"].command == found["cupti-privileges"].command


def test_a_gpu_in_the_trial_outweighs_every_suspicion() -> None:
    machine = Recorded(files={"/proc/driver/nvidia/params": PARAMS.format(restricted=1), "/proc/self/status": STATUS_USER})
    facts = gpu_facts(trial=TrialCapture("tensorflow", steps=3, source="marked", events=900, devices=("/device:GPU:0",)))
    diagnosis = examine(machine, facts)
    assert diagnosis.works, [item for item in diagnosis.results if item.outcome is CheckStatus.PROBLEM]
    assert diagnosis.verdict == "Captures work here; they hold host and GPU activity."
    suspects = [item for item in diagnosis.results if item.id.startswith("cupti")]
    assert len(suspects) == 2
    assert all(item.outcome is CheckStatus.NOTE and "all the same" in item.text for item in suspects)


@pytest.mark.parametrize(
    ("status", "restricted", "container", "outcome", "command"),
    [
        (STATUS_USER, 0, False, CheckStatus.OK, ""),
        (STATUS_ROOT, 1, False, CheckStatus.OK, ""),
        (STATUS_USER, 1, False, CheckStatus.PROBLEM, "NVreg_RestrictProfilingToAdminUsers=0"),
        (STATUS_DOCKER, 1, True, CheckStatus.PROBLEM, "--cap-add=SYS_ADMIN"),
    ],
)
def test_privileges(status: str, restricted: int, container: bool, outcome: CheckStatus, command: str) -> None:
    files = {"/proc/driver/nvidia/params": PARAMS.format(restricted=restricted), "/proc/self/status": status}
    files |= {"/proc/1/cgroup": "0::/docker/4c5e"} if container else {}
    (found,) = cupti.check_privileges(Recorded(files=files))
    assert found.outcome is outcome
    assert command in (found.command or "")


def test_without_capabilities_the_user_number_decides() -> None:
    params = {"/proc/driver/nvidia/params": PARAMS.format(restricted=1)}
    assert cupti.check_privileges(Recorded(files=params, user=0))[0].outcome is CheckStatus.OK
    assert cupti.check_privileges(Recorded(files=params, user=1000))[0].outcome is CheckStatus.PROBLEM


def test_a_library_in_the_linkers_cache_is_found() -> None:
    (found,) = cupti.check_library(Recorded(commands=IN_CACHE), gpu_facts())
    assert (found.outcome, found.evidence) == (
        CheckStatus.OK,
        ("/usr/local/cuda-12.5/targets/x86_64-linux/lib/libcupti.so.12",),
    )


def test_pips_library_is_found() -> None:
    (found,) = cupti.check_library(Recorded(files={PIP: ""}), gpu_facts())
    assert (found.outcome, found.evidence) == (CheckStatus.OK, (PIP,))


def test_the_library_path_comes_first() -> None:
    machine = Recorded(
        files={"/opt/cupti/libcupti.so.12": "", PIP: ""}, variables={"LD_LIBRARY_PATH": ":/opt/cupti"}, commands=IN_CACHE
    )
    assert [item.path for item in cupti.find_libraries(machine, gpu_facts())][:2] == ["/opt/cupti/libcupti.so.12", PIP]


def test_a_toolkit_outside_the_path_gets_the_guides_command() -> None:
    (found,) = cupti.check_library(Recorded(files={f"{TOOLKIT}/libcupti.so.12": ""}), gpu_facts())
    assert found.outcome is CheckStatus.PROBLEM
    assert found.command == f"export LD_LIBRARY_PATH={TOOLKIT}:$LD_LIBRARY_PATH"


def test_a_library_of_another_cuda_does_not_serve() -> None:
    machine = Recorded(files={"/opt/libcupti.so.11.8": ""}, variables={"LD_LIBRARY_PATH": "/opt"})
    (found,) = cupti.check_library(machine, gpu_facts())
    assert (found.outcome, found.command) == (CheckStatus.PROBLEM, "pip install nvidia-cuda-cupti-cu12")
    assert "12.5.1" in found.text
    assert found.evidence == ("/opt/libcupti.so.11.8",)


@pytest.mark.parametrize(("built", "fits"), [("11.8", True), ("11.2", False)])
def test_before_cuda_12_the_minor_version_counts(built: str, fits: bool) -> None:
    machine = Recorded(files={"/opt/libcupti.so.11.8": ""}, variables={"LD_LIBRARY_PATH": "/opt"})
    facts = gpu_facts(frameworks=(tensorflow("GPU:0", build={"is_cuda_build": True, "cuda_version": built}),))
    assert (cupti.check_library(machine, facts)[0].outcome is CheckStatus.OK) is fits


def test_a_link_without_a_number_has_its_targets_version() -> None:
    machine = Recorded(
        files={"/opt/libcupti.so": ""},
        links={"/opt/libcupti.so": "/opt/libcupti.so.11.8"},
        variables={"LD_LIBRARY_PATH": "/opt"},
    )
    assert cupti.find_libraries(machine, gpu_facts())[0].version == "11.8"


def test_a_library_that_does_not_load_is_a_problem() -> None:
    (found,) = cupti.check_library(Recorded(files={PIP: ""}, broken={PIP: "invalid ELF header"}), gpu_facts())
    assert (found.outcome, found.evidence) == (CheckStatus.PROBLEM, ("invalid ELF header",))


def test_no_library_at_all_says_what_to_install() -> None:
    (found,) = cupti.check_library(Recorded(), gpu_facts())
    assert (found.outcome, found.command) == (CheckStatus.PROBLEM, "pip install nvidia-cuda-cupti-cu12")


def test_jax_says_its_cuda_by_its_plugin() -> None:
    from outpace.doctor.facts import FrameworkFacts

    facts = gpu_facts(
        frameworks=(FrameworkFacts("jax", {"version": "0.9.0", "gpus": ["cuda:0"]}),), packages={"jax-cuda13-plugin": "0.9.0"}
    )
    assert cupti.built_cuda_versions(facts) == ("13",)
    assert cupti.check_library(Recorded(), facts)[0].command == "pip install nvidia-cuda-cupti"


def test_without_a_gpu_nothing_is_needed() -> None:
    (found,) = cupti.check(Recorded(), cpu_facts())
    assert found.outcome is CheckStatus.NOT_CHECKED
    assert "no GPU" in found.text


def test_a_failed_trial_names_cupti_as_its_cause() -> None:
    facts = gpu_facts(trial=TrialCapture("tensorflow", "its process ended with signal 11.", SUBSCRIBERS))
    found = {item.id: item for item in trial.check(Recorded(), facts)}
    assert set(found) == {"tensorflow-trial", "cupti-subscribers"}
    assert found["tensorflow-trial"].command == found["cupti-subscribers"].command


def test_commands_use_the_examined_pythons_pip() -> None:
    diagnosis = examine(Recorded(), gpu_facts())
    command = next(item.command for item in diagnosis.results if item.id == "cupti")
    assert command == "/venv/bin/python -m pip install nvidia-cuda-cupti-cu12"
