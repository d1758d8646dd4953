"""`Command`: what a user writes to start a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.model.errors import NotFoundError, UsageError
from outpace.tune.trial.script import Command


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "my train.py", "A=1.py"):
        Path(name).touch()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.py", Command(("train.py",))),
        ("my train.py", Command(("my train.py",))),
        ("'my train.py' --xla", Command(("my train.py", "--xla"))),
        ("python train.py X=1 'a b'", Command(("train.py", "X=1", "a b"))),
        ("python3 -m package.train 3", Command(("package.train", "3"), module=True)),
        ("-m package.train", Command(("package.train",), module=True)),
        ("A=1 B_2='x y' C= train.py", Command(("train.py",), environment={"A": "1", "B_2": "x y", "C": ""})),
        ("A=1.py", Command(("A=1.py",))),
    ],
)
def test_a_command_is_read_as_a_shell_would(text: str, expected: Command) -> None:
    found = Command.parse(text)
    assert found == expected and Command.parse(str(found)) == expected


def test_variables_are_written_as_a_shell_takes_them() -> None:
    command = Command(("my train.py", "3"), environment={"TF_X": "1", "XLA_FLAGS": "--a=1 --b=2"})
    assert str(command) == "TF_X=1 XLA_FLAGS='--a=1 --b=2' python 'my train.py' 3"


@pytest.mark.parametrize("text", ["", "missing.py", "A=1", "python", "A=1 missing.py", "-m"])
def test_what_is_not_there_is_named(text: str) -> None:
    with pytest.raises(NotFoundError, match="There is no script") as error:
        Command.parse(text)
    assert "NAME=VALUE train.py" in str(error.value)


def test_an_open_quote_is_said() -> None:
    with pytest.raises(UsageError, match="No closing quotation"):
        Command.parse("train.py 'x")
