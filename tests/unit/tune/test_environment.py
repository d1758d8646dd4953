"""Knobs of the environment: variables, reasons and evidence, of what is known of a machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outpace.model import Paragraph
from outpace.tune.climb.environment import EnvironmentOutcome
from outpace.tune.climb.outcome import Tried
from outpace.tune.optimisations import environment_knobs
from outpace.tune.optimisations.environment import EnvironmentKnob, Host, Observed
from outpace.tune.optimisations.optimisation import Applies, Explained, NotApplicable
from outpace.tune.pages.environment import page_of
from outpace.tune.trial.script import Command, room

KNOBS = {knob.id: knob for knob in environment_knobs()}
SEEN = Observed(pool_threads=16, configured={"intra": 0, "inter": 0}, onednn=True)
CPU = Host(cores=8, visible=8, environment={}, observed=SEEN)
GPU = replace(CPU, observed=replace(SEEN, gpus=2, xla=True))


def variables(knob: str, host: Host) -> list[dict[str, str]]:
    assert isinstance(KNOBS[knob].applies(host), Applies)
    return [dict(setting.variables) for setting in KNOBS[knob].settings(host)]


def reason(knob: str, host: Host) -> str:
    applies = KNOBS[knob].applies(host)
    assert isinstance(applies, (NotApplicable, Explained))
    return applies.sentence


def seeing(host: Host, **changes: Any) -> Host:
    return replace(host, observed=replace(host.observed, **changes))


def test_threads_are_tried_below_the_number_of_cores() -> None:
    assert variables("intra_op_threads", CPU) == [{"TF_NUM_INTRAOP_THREADS": "1"}, {"TF_NUM_INTRAOP_THREADS": "4"}]
    assert variables("inter_op_threads", CPU) == [{"TF_NUM_INTEROP_THREADS": "1"}]
    assert variables("intra_op_threads", replace(CPU, cores=2, visible=2)) == [{"TF_NUM_INTRAOP_THREADS": "1"}]
    assert reason("intra_op_threads", replace(CPU, cores=1, visible=1)) == "there is one core"


def test_a_containers_quota_is_tried_because_tensorflow_does_not_know_it() -> None:
    inside = replace(CPU, cores=4, visible=64)
    assert [v["TF_NUM_INTRAOP_THREADS"] for v in variables("intra_op_threads", inside)] == ["1", "2", "4"]


def test_what_the_user_or_the_script_sets_is_left_alone() -> None:
    for host in (
        replace(CPU, environment={"TF_NUM_INTRAOP_THREADS": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}),
        seeing(CPU, variables={"TF_NUM_INTRAOP_THREADS": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}),
    ):
        assert "TF_NUM_INTRAOP_THREADS=3" in reason("intra_op_threads", host)
        assert "TF_ENABLE_ONEDNN_OPTS=1" in reason("onednn", host)
        assert isinstance(KNOBS["inter_op_threads"].applies(host), Applies)
    assert "tf.config.threading" in reason("inter_op_threads", seeing(CPU, configured={"inter": 2}))
    assert "XLA_FLAGS=--xla_dump_to=d" in reason("xla_flags", replace(GPU, environment={"XLA_FLAGS": "--xla_dump_to=d"}))
    assert "TF_GPU_THREAD_COUNT=4" in reason("gpu_threads", replace(GPU, environment={"TF_GPU_THREAD_COUNT": "4"}))
    preloaded = replace(CPU, allocators=("libjemalloc.so.2",), environment={"LD_PRELOAD": "libprofiler.so"})
    assert "libprofiler" in reason("allocator", preloaded)


def test_threads_are_not_tried_where_tensorflow_was_not_seen_to_start() -> None:
    assert "did not show" in reason("intra_op_threads", seeing(CPU, pool_threads=None))


def test_onednn_is_tried_off_where_it_is_on_and_the_cpu_trains() -> None:
    assert variables("onednn", CPU) == [{"TF_ENABLE_ONEDNN_OPTS": "0"}]
    assert "GPU" in reason("onednn", GPU)
    assert reason("onednn", seeing(CPU, onednn=False)) == "TensorFlow runs without oneDNN"
    assert "does not say" in reason("onednn", seeing(CPU, onednn=None))


def test_knobs_of_gpus_wait_for_a_gpu() -> None:
    for knob in ("gpu_threads", "memory_growth", "l2_fetch"):
        assert reason(knob, CPU) == "the script uses no GPU"
    private = [{"TF_GPU_THREAD_MODE": "gpu_private", "TF_GPU_THREAD_COUNT": count} for count in ("1", "2")]
    assert variables("gpu_threads", GPU) == private
    assert "makes none faster" in reason("memory_growth", GPU)
    assert "cudaDeviceSetLimit(5, 128)" in reason("l2_fetch", GPU)


def test_xla_flags_fit_the_hardware() -> None:
    assert "not compiled by XLA" in reason("xla_flags", CPU)
    compiled = seeing(CPU, xla=True)
    assert "no vectors of 512 bits" in reason("xla_flags", compiled)
    assert variables("xla_flags", replace(compiled, wide_vectors=True)) == [{"XLA_FLAGS": "--xla_cpu_prefer_vector_width=512"}]
    assert variables("xla_flags", GPU) == [{"XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true"}]
    assert "one GPU" in reason("xla_flags", seeing(GPU, gpus=1))


def test_an_allocator_is_tried_only_where_one_is_installed() -> None:
    assert "installed" in reason("allocator", CPU)
    installed = replace(CPU, allocators=("libtcmalloc_minimal.so.4",))
    assert variables("allocator", installed) == [{"LD_PRELOAD": "libtcmalloc_minimal.so.4"}]
    assert "already" in reason("allocator", seeing(installed, allocators=("libjemalloc.so.2",)))


XLA = replace(seeing(CPU, xla=True), wide_vectors=True)
TCMALLOC = replace(CPU, allocators=("/lib/libtcmalloc_minimal.so.4",))
EFFECTS: list[tuple[str, Host, dict[str, Any]]] = [
    ("intra_op_threads", CPU, {"pool_threads": 9}),
    ("inter_op_threads", CPU, {"pool_threads": 9}),
    ("onednn", CPU, {"onednn": False}),
    ("gpu_threads", GPU, {"pool_threads": 18}),
    ("xla_flags", XLA, {"xla_options": ("xla_cpu_prefer_vector_width: 512",)}),
    ("allocator", TCMALLOC, {"allocators": ("libtcmalloc_minimal.so.4.5.10",)}),
]


@pytest.mark.parametrize(("knob", "host", "effect"), EFFECTS, ids=[knob for knob, _, _ in EFFECTS])
def test_a_knob_proves_its_effect_and_nothing_else(knob: str, host: Host, effect: dict[str, Any]) -> None:
    made: EnvironmentKnob = KNOBS[knob]
    setting = made.settings(host)[0]
    inert = replace(host.observed, variables=dict(setting.variables))  # the variable is there, and that proves nothing
    assert made.proof(setting, inert, host) is None
    assert made.proof(setting, replace(inert, **effect), host)


def test_every_knob_that_can_apply_has_its_proof_tested() -> None:
    explained = {knob for knob in KNOBS if not KNOBS[knob].settings(GPU) and not KNOBS[knob].settings(TCMALLOC)}
    assert {knob for knob, _, _ in EFFECTS} == set(KNOBS) - explained
    assert explained == {"memory_growth", "l2_fetch"}


def test_xla_is_asked_to_note_its_options_down_in_the_trial_alone() -> None:
    setting = KNOBS["xla_flags"].settings(XLA)[0]
    assert setting.noting is not None
    assert setting.noting("/tmp/x") == {"XLA_FLAGS": "--xla_cpu_prefer_vector_width=512 --xla_dump_to=/tmp/x"}
    assert "dump" not in setting.variables["XLA_FLAGS"]


def test_the_page_names_what_is_kept_and_the_line_to_write() -> None:
    tried = (
        Tried("onednn", "oneDNN off", "not applicable", "it is off"),
        Tried("intra_op_threads", "Intra-op threads: 4", "slower", "10.0% slower.", "many threads", (0.9, 0.88, 0.92)),
        Tried("intra_op_threads", "Intra-op threads: 1", "faster", "1.20 times.", "many threads", (1.2, 1.1, 1.3)),
    )
    one = {"TF_NUM_INTRAOP_THREADS": "1"}
    command = Command(("train.py",), environment=one)
    outcome = EnvironmentOutcome(tried, one, ("Intra-op threads: 1",), (), command, 9.0)
    page = page_of(outcome)
    assert page.headline == "Faster with TF_NUM_INTRAOP_THREADS=1."
    assert [row[:3] for row in page.table("environment").rows()] == [
        ("Intra-op threads: 1", "kept", 1.2),
        ("Intra-op threads: 4", "slower", 0.9),
        ("oneDNN off", "not applicable", None),
    ]
    texts = {section.title: section.body for section in page.sections if isinstance(section, Paragraph)}
    assert texts["How to keep it"] == "TF_NUM_INTRAOP_THREADS=1 python train.py"
    assert "oneDNN off: It is off." in texts["Why"]


def test_no_more_processes_start_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outpace.tune.trial.script.free_memory", lambda: 100)
    assert room(10) == 8  # a fifth is left to others
    assert room(90) == 0
    assert room(0) > 50  # not known
