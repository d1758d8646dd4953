"""The commands to go on with run as they are typed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outpace.advice import following
from tests.support import opened


def commands(profile: str, **record: Any) -> list[str]:
    run = opened(profile).run
    return [command.line for command in following(dataclasses.replace(run, records={"host": record} if record else {}), (), ())]


@pytest.mark.parametrize("profile", ["keras_fit", "custom_loop", "eager_loop", "jax_loop", "jax_loop_unmarked"])
def test_every_training_is_tuned(profile: str) -> None:
    assert commands(profile)[-1] == "outpace tune train.py"


@pytest.mark.parametrize(
    ("argv", "command"),
    [([], "outpace tune train.py"), (["--data", "my images"], "outpace tune train.py --data 'my images'")],
)
def test_a_script_is_tuned_with_its_arguments(argv: list[str], command: str) -> None:
    assert commands("keras_fit", script="train.py", argv=argv)[1] == command
