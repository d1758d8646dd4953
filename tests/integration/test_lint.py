"""`outpace lint`: alone, without TensorFlow, and with the record of a real capture."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import urllib.parse
from pathlib import Path

import jsonschema
import pytest

from outpace.lint import RULES
from tests.integration.programs import needs_tensorflow

DATA = Path(__file__).parents[1] / "data"
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
ds = ds.batch(4)
ds = ds.prefetch(2)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, epochs=2, verbose=0)
"""
MODEL = "import keras\nmodel = keras.Sequential()\n"
EAGER = "model.compile('sgd', 'mse', run_eagerly=True)"
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
    assert done.stdout.splitlines()[-1] == "1 warning and 1 note in 1 file."
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
        "files": 2, "warnings": 1, "notes": 1, "capture": None, "errors": [],
    }  # fmt: skip
    assert [(m["rule"], m["line"], m["origin"]) for m in result["messages"]] == [
        ("TF205", 12, "source"), ("DS112", 19, "source"),
    ]  # fmt: skip


def test_a_sarif_log_fits_the_schema_and_names_every_place(folder: Path) -> None:
    """The schema is the one that SARIF's own tools bring (tests/data/SOURCES.md)."""
    packed = (DATA / "sarif" / "sarif-2.1.0.json.gz").read_bytes()
    schema = gzip.decompress(packed)
    assert hashlib.sha256(schema).hexdigest() in (DATA / "SOURCES.md").read_text(encoding="utf-8")
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "a b.py").write_text(f"{MODEL}{EAGER}\n")
    done = run(folder, "lint", ".", "--format", "sarif")
    log = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(schema)).validate(log)
    (ran,) = log["runs"]
    rules = ran["tool"]["driver"]["rules"]
    plain = json.loads(run(folder, "lint", ".", "--json").stdout)["messages"]
    assert len(plain) == 3 == len(ran["results"])
    for result, message in zip(ran["results"], plain, strict=True):
        place = result["locations"][0]["physicalLocation"]
        region = place["region"]
        assert (result["ruleId"], result["level"]) == (message["rule"], message["level"])
        assert rules[result["ruleIndex"]]["id"] == message["rule"]
        assert (region["startLine"], region["startColumn"]) == (message["line"], message["column"])
        assert place["artifactLocation"]["uriBaseId"] in ran["originalUriBaseIds"]
        assert (folder / urllib.parse.unquote(place["artifactLocation"]["uri"])).is_file()
    assert not ran["invocations"][0]["executionSuccessful"] and done.returncode == 2  # of the broken file
    assert str(folder) not in done.stdout  # nobody learns where the folder lies
    (eager,) = (result for result in ran["results"] if result["ruleId"] == "LP111")
    (change,) = eager["fixes"][0]["artifactChanges"][0]["replacements"]
    area = change["deletedRegion"]
    mended = EAGER[: area["startColumn"] - 1] + change["insertedContent"]["text"] + EAGER[area["endColumn"] - 1 :]
    assert mended == EAGER.replace("True", "False")


def test_fingerprints_stay_where_lines_move(folder: Path) -> None:
    def prints(*paths: str) -> list[str]:
        log = json.loads(run(folder, "lint", *paths, "--format", "sarif").stdout)
        return [result["partialFingerprints"]["outpaceLine/v1"] for result in log["runs"][0]["results"]]

    before = prints("train.py")
    (folder / "train.py").write_text("# a line more\n" + TRAIN)
    assert prints("train.py") == before and len(set(before)) == len(before) == 2
    assert prints(str(folder / "train.py")) == before  # a whole path is the same file
    (folder / "train.py").write_text(TRAIN + 2 * f"{EAGER}\n")
    assert len(set(prints("train.py"))) == 4 and set(before) < set(prints("train.py"))  # two lines of one text


def test_forms_that_contradict_each_other(folder: Path) -> None:
    done = run(folder, "lint", "train.py", "--json", "--format", "sarif")
    assert done.returncode == 2 and "contradict" in done.stderr
    assert run(folder, "lint", "train.py", "--format", "json").stdout == run(folder, "lint", "train.py", "--json").stdout


def test_flake8_runs_the_rules(folder: Path) -> None:
    """Those that warn; `noqa`, our own comment and flake8's options choose among them."""
    (folder / "eager.py").write_text(f"{MODEL}{EAGER}\n{EAGER}  # noqa: LP111\n{EAGER}  # outpace: ignore[LP111]\n")

    def flake8(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "flake8", "--isolated", "--max-line-length=200", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
        assert not done.stderr and done.returncode == bool(done.stdout)
        return done.stdout.splitlines()

    told = json.loads(run(folder, "lint", "eager.py", "train.py", "--json").stdout)["messages"]
    warnings = [
        f"{m['path']}:{m['line']}:{m['column']}: {m['rule']} {m['sentence']}"
        for m in told
        if m["level"] == "warning" and (m["path"], m["line"]) != ("eager.py", 4)  # which has the comment for flake8
    ]
    assert flake8("--select=DS,JX,KR,LP,PF,TF", "eager.py", "train.py") == warnings and len(warnings) == 2
    assert set(warnings) < set(flake8("eager.py", "train.py"))  # they are chosen without a word, beside flake8's own
    assert flake8("--select=TF", "eager.py", "train.py") == warnings[1:]


def test_every_rule_is_of_a_plugin() -> None:
    codes = {point.name for point in importlib.metadata.entry_points(group="flake8.extension") if "outpace" in point.value}
    assert codes == {rule.rstrip("0123456789") for rule in RULES}


def test_characters_that_a_terminal_lacks_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import tensorflow as tf\nds = tf.data.Dataset.range(9){'.map(abs)' * 20}.batch(2).shuffle(9)  # ü\n"
    )
    done = run(tmp_path, "lint", "--width", "60", "train.py", PYTHONIOENCODING="ascii")
    assert done.returncode == 1, done.stderr
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
        "outpace.cli.exit_process = check\n"
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
    assert set(messages) == {("TF205", 12), ("DS102", 17), ("DS105", 18), ("DS112", 19)}
    assert {m["origin"] for m in messages.values()} == {"capture"}
    assert messages["TF205", 12]["evidence"].startswith("traced 12 times, ")
    drawing = messages["DS102", 17]
    assert (drawing["level"], drawing["evidence"]) == ("warning", "its function holds RandomUniform")
    text = run(folder, "lint", "train.py", "--record", "outpace-logs").stdout
    assert text.splitlines()[-1] == "3 warnings and 1 note in 1 file, 4 of them confirmed by the capture."
    assert "capture: traced 12 times" in text
