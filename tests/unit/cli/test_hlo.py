"""`outpace hlo`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from outpace.cli import app
from outpace.model import UsageError
from tests.support import DATA

PROFILE, OTHER = (str(DATA / "profiles" / name) for name in ("jax_h100_fft_odd", "keras_fit"))


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["hlo", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_programs_are_listed() -> None:
    assert run(PROFILE).splitlines()[1].split() == ["jit_train_step(16565)", "1,239", "450", "G", "1.87", "GiB"]
    (row,) = json.loads(run(PROFILE, "--json"))
    assert row["program"] == "jit_train_step(16565)" and row["peak_bytes"] == 2_003_714_336


def test_a_program_is_printed_whole() -> None:
    lines = run(PROFILE, "--program", "jit_train_step", "--text").splitlines()
    assert lines[0] == "HloModule jit_train_step"
    assert sum(line.startswith("ENTRY ") for line in lines) == 1
    assert sum(" = " in line and line.startswith("  ") for line in lines) == 1239
    assert json.loads(run(PROFILE, "--program", "jit_train_step(16565)", "--json"))["text"] == lines


def test_what_is_around_an_instruction_is_in_the_order_of_the_data() -> None:
    lines = run(PROFILE, "--around", "fft.41.0", "--radius", "1").splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [
        ["1", "above", "%loop_multiply_fusion.3"],
        ["->", "%fft.41.0", "="],
        ["1", "below", "%loop_convert_fusion.3"],
        ["1", "below", "%input_transpose_fusion.9"],
    ]
    assert lines[3].endswith("fft_odd.py:16]")
    document = json.loads(run(PROFILE, "--around", "fft.41.0", "--radius", "1", "--json"))
    assert [node["distance"] for node in document["nodes"]] == [-1, 0, 1, 1] and document["is_whole"]


def test_of_a_fusion_its_parts_are_printed() -> None:
    lines = run(PROFILE, "--around", "loop_multiply_fusion.3").splitlines()
    assert any(line.startswith("            inside  %") and " multiply(" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((PROFILE, "--around", "fft.4100"), "No program has an instruction 'fft.4100'. Did you mean 'fft.41.0'?"),
        ((PROFILE, "--program", "jit_step"), "There is no program 'jit_step'."),
        ((OTHER,), "holds no compiled program"),
    ],
)
def test_what_is_not_there_is_said(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("?", r"\?")):
        run(*words)
