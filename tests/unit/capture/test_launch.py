"""The child's small parts that need no framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.capture import runner
from outpace.capture.frames import CallSite
from outpace.capture.options import CaptureOptions, Plan, ScriptOutcome
from outpace.capture.pipeline import _build_label
from outpace.capture.process_exit import exit_code, write_outcome


@pytest.mark.parametrize(
    ("given", "code"), [(None, 0), (0, 0), (7, 7), (256, 0), (259, 3), (-1, 255), (True, 1), ("text", 1), (2.0, 1)]
)
def test_exit_code_is_what_python_returns(given: object, code: int) -> None:
    assert exit_code(given) == code


def test_plan_and_outcome_survive_json(tmp_path: Path) -> None:
    plan = Plan("a b.py", ("--x", "ü"), "/logs", "logs", "/o.json", CaptureOptions(steps=None, seconds=2.5))
    assert Plan.from_json(plan.to_json()) == plan
    outcome = ScriptOutcome("run", "host", None, True, 3, True)
    write_outcome(str(tmp_path / "o.json"), outcome)
    assert ScriptOutcome.from_json((tmp_path / "o.json").read_text()) == outcome
    assert [path.name for path in tmp_path.iterdir()] == ["o.json"]


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("/x/train.py", "train_py_L7_map"),
        ("/x/3d-net.py", "_3d_net_py_L7_map"),
        ("<stdin>", "_stdin__L7_map"),
        ("/x/é.py", "__py_L7_map"),
    ],
)
def test_label_is_an_identifier(file: str, label: str) -> None:
    assert _build_label(CallSite(file, 7, None), "map") == label
    assert label.isidentifier()


def test_without_command_buffers_xla_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/x")
    assert runner._script_variables(CaptureOptions()) == {}
    assert runner._script_variables(CaptureOptions(command_buffers=False)) == {
        "XLA_FLAGS": "--xla_dump_to=/x --xla_gpu_enable_command_buffer="
    }


@pytest.mark.parametrize(
    ("code", "signal", "known"), [(139, "SIGSEGV", True), (134, "SIGABRT", True), (143, "SIGTERM", False), (3, "", False)]
)
def test_a_crash_is_told_from_another_end(code: int, signal: str, known: bool) -> None:
    assert runner.signal_name(code) == signal and ("--command-buffers off" in runner.explain_crash(code)) == known
