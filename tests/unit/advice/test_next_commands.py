"""The commands to go on with run as they are typed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outpace.advice import suggest_commands
from tests.support import opened


def commands(profile: str, **record: Any) -> list[str]:
    run = opened(profile).run
    return [
        command.line
        for command in suggest_commands(dataclasses.replace(run, records={"host": record} if record else {}), (), ())
    ]


@pytest.mark.parametrize(
    "profile", ["keras_fit", "custom_loop", "eager_loop", "jax_loop", "jax_loop_unmarked", "tpu_v6e_inference"]
)
def test_a_training_whose_script_nobody_knows_is_not_tuned(profile: str) -> None:
    assert not [line for line in commands(profile) if "tune" in line or "train.py" in line]


@pytest.mark.parametrize("profile", ["keras_fit", "custom_loop", "eager_loop", "jax_loop", "jax_loop_unmarked"])
def test_every_training_of_a_known_script_is_tuned(profile: str) -> None:
    assert commands(profile, script="my.py")[-1] == "outpace tune my.py"


@pytest.mark.parametrize(
    ("argv", "command"),
    [([], "outpace tune train.py"), (["--data", "my images"], "outpace tune train.py --data 'my images'")],
)
def test_a_script_is_tuned_with_its_arguments(argv: list[str], command: str) -> None:
    assert commands("keras_fit", script="train.py", argv=argv)[1] == command
