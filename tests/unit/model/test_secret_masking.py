"""Keys, tokens, secrets and passwords among a script's arguments: nobody sees them who
did not ask.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outpace import api
from outpace.capture.record import WindowSummary, write_capture_record
from outpace.capture.recording import SavedProfile
from outpace.model import UsageError
from outpace.model.secret_masking import MASK_TEXT, mask_command_line, mask_secrets
from outpace.report import csv_, html, json_, markdown, terminal
from outpace.store.record import CapturedSteps, CaptureRecord
from outpace.testing import training_run
from outpace.tune.race import _names, replay
from outpace.tune.trial import run_experiment
from outpace.tune.trial.script import Command
from tests.unit.tune.simulated import Machine
from tests.unit.tune.test_tune_next import MAP, PLAN, climbed, following

LEADING = st.sampled_from(["", "api", "hf", "wandb", "aws_secret_access", "my.service", "x"])
KINDS = st.sampled_from(["key", "token", "secret", "password", "passwd", "passphrase", "credentials", "secrets", "keys"])
VALUES = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=_-.", min_size=12, max_size=40).filter(
    lambda text: text[0] not in "-=" and text.strip("0123456789.,_+-") != "" and text.strip("=") == text
)
FORMS: dict[str, Callable[[str, str], list[str]]] = {
    "option": lambda name, value: [f"--{name}", value],
    "option and value in one": lambda name, value: [f"--{name}={value}"],
    "one dash": lambda name, value: [f"-{name}", value],
    "variable": lambda name, value: [f"{name.upper().replace('.', '_').replace('-', '_')}={value}"],
    "setting": lambda name, value: [f"+{name}={value}"],
    "variable for another": lambda name, value: ["--env", f"{name}={value}"],
    "variable in an option": lambda name, value: [f"--env={name}={value}"],
    "address": lambda name, value: [f"https://host/path?{name}={value.replace('=', '')}&page=1"],
    "JSON": lambda name, value: [json.dumps({"epochs": 3, name: value})],
    "header": lambda name, value: ["--header", f"{name}: {value}"],
    "login": lambda name, value: [f"postgres://user:{value.replace('/', '')}@host/table"],
}


def spelled(leading: str, kind: str, style: str) -> str:
    words = [word for word in (*leading.replace(".", "_").split("_"), kind) if word]
    if style == "camel":
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return style.join(words)


@given(LEADING, KINDS, st.sampled_from(["-", "_", ".", "camel"]), VALUES, st.sampled_from(sorted(FORMS)))
def test_no_secret_is_left_in_whatever_form_it_is_given(leading: str, kind: str, style: str, value: str, form: str) -> None:
    given = ["--epochs", "3", *FORMS[form](spelled(leading, kind, style), value), "--batch", "32"]
    shown = value.replace("=", "") if form == "address" else value.replace("/", "") if form == "login" else value
    masked = mask_secrets(given)
    assert shown not in " ".join(masked) and MASK_TEXT in " ".join(masked)
    assert masked[:2] == ("--epochs", "3") and masked[-2:] == ("--batch", "32")
    assert mask_secrets(masked) == masked, "what is masked stays so"
    assert shown not in mask_command_line(shlex.join(["train.py", *given]))


@pytest.mark.parametrize(
    "argument",
    [
        "--max-tokens 512",
        "--tokenizer bert-base",
        "--keypoints coco",
        "--num_keys=8",
        "--seed-key 42",
        "--key --verbose",
        "--monkey-dir=data",
        "MODEL=resnet50 LR=1e-3",
        "data/train.txt https://host/path?page=1",
        "--secret-free",
    ],
)
def test_what_is_no_secret_stays(argument: str) -> None:
    assert mask_command_line(argument) == argument


@given(st.lists(st.text()))
def test_other_arguments_keep_their_number_and_place(arguments: list[str]) -> None:
    masked = mask_secrets(arguments)
    assert len(masked) == len(arguments)
    assume(
        "=" not in "".join(arguments) and ":" not in "".join(arguments) and not any(each.startswith("-") for each in arguments)
    )
    assert list(masked) == arguments


SECRET = "sk-LIVE-0123456789abcdef"
ARGUMENTS = ("--api-key", SECRET, f"--token={SECRET}", f"PASSWORD={SECRET}", "--epochs", "3")


def _plain() -> dict[str, object]:
    """A record as an earlier version wrote it, with all that was given."""
    return {
        "outpace": "0.2.0", "script": "train.py", "argv": ARGUMENTS, "versions": {"tensorflow": "2.21.0"}, "python": "3.11.2",
        "mode": "keras fit", "window": {"first_step": 1, "steps": 5, "warmup": 0, "seconds": 1.0}, "steps_per_execution": 1,
        "overhead": {}, "pipeline": [], "cpu_count": 2, "schema": 1,
    }  # fmt: skip


def test_no_output_of_a_run_has_them(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(training_run().to_bytes())
    (tmp_path / "vm.outpace.json").write_text(json.dumps(_plain()), encoding="utf-8")
    with api.open(tmp_path) as profile:
        report = profile.report()
        assert profile.run.script == "train.py --api-key ... --token=... PASSWORD=... --epochs 3"
    csv_.write(report, tmp_path / "csv")
    texts = [json_.render(report), html.render(report), markdown.render(report), terminal.render(report, details=True)]
    texts += [path.read_text(encoding="utf-8") for path in (tmp_path / "csv").iterdir()]
    assert "--api-key ..." in texts[0] and not [text for text in texts if SECRET in text]


def test_a_record_has_them_where_that_was_asked_for(tmp_path: Path) -> None:
    for secrets in (False, True):
        write_capture_record(
            SavedProfile(str(tmp_path), "vm"),
            WindowSummary("program", CapturedSteps(0, 0, 0, 1.0)),
            "train.py",
            ARGUMENTS,
            secrets=secrets,
        )
        text = (tmp_path / "vm.outpace.json").read_text(encoding="utf-8")
        assert (SECRET in text) is secrets
        assert (CaptureRecord.from_json(text).argv == ARGUMENTS) is secrets


def test_a_command_that_is_raced_gets_them_and_shows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    command = Command.parse(f"WANDB_API_KEY={SECRET} train.py --token {SECRET}")
    assert command.environment == {"WANDB_API_KEY": SECRET} and command.parts[-1] == SECRET
    assert str(command) == "WANDB_API_KEY=... python train.py --token ..."
    assert SECRET in command.line(secrets=True)
    assert _names([mask_command_line(f"train.py --token {each}") for each in ("a1b2", "c3d4")]) == [
        "train.py --token ... #1",
        "train.py --token ... #2",
    ]


def test_a_record_of_a_race_without_them_is_not_run_again() -> None:
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    sources = {name: mask_command_line(f"A_KEY=abcd {name}.py --token {SECRET}") for name in ("a", "b")}
    raced = run_experiment([machine.arm("a"), machine.arm("b")], clock=machine.clock, budget=5, sources=sources)
    with pytest.raises(UsageError, match=r"dots for the value of A_KEY, --token, .* --show-secrets"):
        replay(raced)


def test_the_commands_to_go_on_with_have_none_unless_asked() -> None:
    plan = {**PLAN, "argv": list(ARGUMENTS)}
    (hidden,) = following(climbed(MAP), plan)
    assert hidden.line.endswith("--api-key ... --token=... PASSWORD=... --epochs 3")
    (shown,) = following(climbed(MAP), {**plan, "show_secrets": True})
    assert shown.line.endswith(shlex.join(ARGUMENTS))
