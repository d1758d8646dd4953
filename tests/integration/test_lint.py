"""`outpace lint` as users run it: alone, on a machine without TensorFlow, and with the record of a real capture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow

TRAIN = """
import numpy as np
import keras
import tensorflow as tf
from helper import load, flip

@tf.function
def count(x, i):
    return x + i

for i in range(12):
    count(tf.constant(1), i)

x = np.zeros((640, 8), "float32")
ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
ds = ds.map(load)
ds = ds.map(flip)
ds = ds.cache()
ds = ds.batch(16)
ds = ds.prefetch(2)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, epochs=2, verbose=0)
"""
HELPER = """
import tensorflow as tf
def load(x, y): return x * 2.0, y
def flip(x, y): return x + tf.random.uniform([]), y
"""


def run(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "TF_CPP_MIN_LOG_LEVEL": "3", **changes}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def test_text_exit_codes_and_summary(folder: Path) -> None:
    done = run(folder, "lint", "train.py")
    assert done.returncode == 1
    assert "train.py:12:5" in done.stdout
    assert "12 |     count(tf.constant(1), i)" in done.stdout
    assert "   |     ^^^^^" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 warning and 2 notes in 1 file."
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "\x1b" not in done.stdout
    assert run(folder, "lint", "train.py", "--exit-zero").returncode == 0
    assert run(folder, "lint", "train.py", "--ignore", "TF205").returncode == 0  # notes alone
    assert run(folder, "lint", "helper.py").stdout == "0 warnings and 0 notes in 1 file.\n"


def test_colours_and_long_lines(folder: Path) -> None:
    text = (
        "import tensorflow as tf\nds = tf.data.Dataset.range(9)"
        + ".take(1)" * 40
        + ".batch(2).shuffle(3)  # 漢字 far behind"
        + "!" * 90
    )
    (folder / "long.py").write_text(text)
    done = run(folder, "lint", "long.py", "--color")
    assert "\x1b[" in done.stdout
    plain = run(folder, "lint", "long.py", "--width", "60").stdout.splitlines()
    assert max(map(len, plain)) <= 60
    (at,) = (number for number, line in enumerate(plain) if "^" in line)
    assert plain[at - 1][plain[at].index("^") : plain[at].rindex("^") + 1] == "shuffle"


def test_json(folder: Path) -> None:
    done = run(folder, "lint", ".", "--json", "--select", "DS,TF205")
    result = json.loads(done.stdout)
    assert {key: result[key] for key in ("files", "warnings", "notes", "capture", "errors")} == {
        "files": 2, "warnings": 1, "notes": 2, "capture": None, "errors": [],
    }  # fmt: skip
    assert [(m["rule"], m["line"], m["origin"]) for m in result["messages"]] == [
        ("TF205", 12, "source"), ("DS102", 16, "source"), ("DS102", 17, "source"),
    ]  # fmt: skip


def test_characters_that_a_terminal_lacks_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import tensorflow as tf\nds = tf.data.Dataset.range(9).batch(2){'.map(abs)' * 20}  # ü\n"
    )
    done = run(tmp_path, "lint", "--width", "60", "train.py", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "train.py:2" in done.stdout


def test_a_file_that_cannot_be_parsed(folder: Path) -> None:
    (folder / "broken.py").write_text("def f(:\n")
    done = run(folder, "lint", ".")
    assert done.returncode == 2
    assert "broken.py:1:7 cannot be parsed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "train.py:12:5" in done.stdout  # the others are checked all the same
    assert run(folder, "lint", "missing.py").returncode == 4
    assert run(folder, "lint", "train.py", "--select", "ZZ9").returncode == 2
    assert run(folder, "lint", "train.py", "--record", "nowhere").returncode == 4


def test_neither_tensorflow_nor_the_users_code_is_imported(folder: Path) -> None:
    (folder / "loud.py").write_text("import tensorflow as tf\nopen('ran', 'w')\nraise SystemExit(3)\n")
    code = (
        "import sys; sys.argv = ['outpace', 'lint', 'train.py', 'loud.py', '--exit-zero']\n"
        "import outpace.cli, atexit\n"
        "def check(code):\n"
        "    wrong = {'tensorflow', 'keras', 'jax', 'numpy', 'train', 'helper'} & set(sys.modules)\n"
        "    print('LOADED', sorted(wrong))\n"
        "    raise SystemExit(code)\n"
        "outpace.cli.leave = check\n"
        "outpace.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert "LOADED []" in done.stdout, done.stdout + done.stderr
    assert not (folder / "ran").exists()


def test_a_long_file_takes_a_fraction_of_a_second(folder: Path) -> None:
    """Processor time, in a process of its own: 370 lines with 14 pipelines and 14 loops."""
    part = TRAIN.replace("from helper import load, flip", HELPER).replace("\n", "\n    ")
    (folder / "long.py").write_text("".join(f"def part{n}():{part}\n" for n in range(14)))
    code = (
        "import time; from outpace.lint import lint_file\n"
        "start = time.process_time(); found, lines = lint_file('long.py')\n"
        "print(len(lines), len(found), time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=240, check=True)
    lines, found, seconds = done.stdout.split()
    assert int(lines) > 350 and int(found) > 40
    assert float(seconds) < 1.5  # about 0.1 s on an idle machine; quadratic work takes minutes


@needs_tensorflow
def test_with_the_record_of_a_real_capture(folder: Path) -> None:
    captured = run(folder, "profile", "train.py", "--warmup", "3", "--steps", "5", "--json")
    assert captured.returncode == 0, captured.stderr
    result = json.loads(run(folder, "lint", "train.py", "--record", "auto", "--json").stdout)
    assert result["capture"]
    messages = {(m["rule"], m["line"]): m for m in result["messages"]}
    assert set(messages) == {("TF205", 12), ("DS102", 16), ("DS102", 17), ("DS105", 18)}
    assert {m["origin"] for m in messages.values()} == {"capture"}
    assert messages["TF205", 12]["evidence"].startswith("traced 12 times, ")
    assert (messages["DS102", 16]["level"], messages["DS102", 16]["evidence"]) == ("note", "its function is stateless")
    assert (messages["DS102", 17]["level"], messages["DS102", 17]["evidence"]) == (
        "warning",
        "its function holds RandomUniform",
    )
    text = run(folder, "lint", "train.py", "--record", "outpace-logs").stdout
    assert text.splitlines()[-1] == "3 warnings and 1 note in 1 file, 4 of them confirmed by the capture."
    assert "capture: traced 12 times" in text
