"""`outpace compare --gate` and `outpace baseline` as continuous integration uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest

from tests.support import profile_path

FIT, LOOP, GPU = (str(profile_path(name)) for name in ("keras_fit", "custom_loop", "tf_gpu_v100_bert"))
TRACED = str(profile_path("verbose_tracer"))  # takes less than the loop
PYTHON = str(profile_path("python_tracer"))
XLA = str(profile_path("keras_fit_xla"))  # other ops than the fit

Outpace = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def outpace(tmp_path: Path) -> Outpace:
    """Runs a command in a folder of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "outpace", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return run


def test_the_exit_code_speaks_only_with_a_gate(outpace: Outpace, tmp_path: Path) -> None:
    assert outpace("compare", TRACED, LOOP).returncode == 0
    failed = outpace("compare", TRACED, LOOP, "--gate", "5%", "--junit", "gate.xml", "--markdown")
    assert failed.returncode == 10 and failed.stderr.startswith("outpace: Gate of 5% failed: the program adds ")
    assert failed.stdout.startswith("**Gate of 5% failed: ")
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "gate.xml"))
    assert suite.failures >= 2 and next(iter(suite)).classname == "step"
    passed = outpace("compare", LOOP, TRACED, "--gate", "6")
    assert passed.returncode == 0 and not passed.stderr and "Gate of 6% passed: the program saves 22" in passed.stdout
    wide = outpace("compare", LOOP, TRACED, "--gate", "50%", "--json")
    assert wide.returncode == 0 and json.loads(wide.stdout)["headline"].startswith("Gate of 50% passed: ")


def test_what_was_not_shown_and_what_cannot_be_compared_are_open(outpace: Outpace, tmp_path: Path) -> None:
    narrow = outpace("compare", PYTHON, TRACED, "--gate", "0.1")
    assert narrow.returncode == 11 and "Gate of 0.1% inconclusive: the program adds at most" in narrow.stderr
    same = outpace("compare", FIT, FIT, "--gate", "50%")
    assert same.returncode == 11 and "both sides are the same run, so that nothing is compared" in same.stderr
    fused = outpace("compare", XLA, FIT, "--gate", "5%")
    assert fused.returncode == 11 and "too few ops are known on both sides" in fused.stderr
    apart = outpace("compare", FIT, GPU, "--gate", "5%", "--junit", "gate.xml")
    assert apart.returncode == 11 and "the runs cannot be compared, because they differ in" in apart.stderr
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "gate.xml"))
    assert suite.skipped >= 1 and suite.failures == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--gate", "5%", "--effect", "5"),
        ("--junit", "gate.xml"),
        ("--gate", "0"),
        ("--gate", "-5"),
        ("--gate", "nan"),
        ("--gate", "101%"),
        ("--gate", "5%%"),
        ("--gate", "five"),
        ("--effect", "0"),
    ],
)
def test_requests_that_make_no_sense(options: tuple[str, ...], outpace: Outpace, tmp_path: Path) -> None:
    done = outpace("compare", FIT, FIT, *options)
    assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reader", ["true", "head -c 10"])
@pytest.mark.parametrize("form", ["--json", "--details", "--markdown"])
def test_a_reader_that_goes_away_lets_nothing_pass(form: str, reader: str) -> None:
    line = f"{sys.executable} -m outpace compare {TRACED} {LOOP} --gate 5% {form} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 10 and "Gate of 5% failed" in done.stderr


def test_a_junit_file_that_cannot_be_written(outpace: Outpace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = outpace("compare", FIT, FIT, "--gate", "5%", "--junit", "file/gate.xml")
    assert done.returncode == 6 and "--junit: The JUnit file cannot be written to" in done.stderr


def test_a_baseline_stands_for_its_profile(outpace: Outpace, tmp_path: Path) -> None:
    saved = outpace("baseline", "save", "main", FIT)
    assert saved.returncode == 0, saved.stderr
    assert saved.stdout == "16 steps are kept in outpace-baselines/main.json (52 kB).\n"
    for name in ("main", "outpace-baselines/main.json"):
        from_file = json.loads(outpace("compare", name, LOOP, "--json").stdout)
        from_run = json.loads(outpace("compare", FIT, LOOP, "--json").stdout)
        tables = [report["tools"]["compare"]["tables"] for report in (from_file, from_run)]
        assert tables[0] == tables[1] and len(tables[0]["changes"]["rows"]) > 30
    for other in ("main", FIT):
        itself = outpace("compare", "main", other, "--gate", "50%")
        assert itself.returncode == 11 and "The same run: both sides are 16 steps of" in " ".join(itself.stdout.split())
    twice = outpace("compare", "main", LOOP, "--before", FIT)
    assert twice.returncode == 2 and "A capture of main is given twice" in twice.stderr


def test_baselines_are_listed_shown_replaced_and_removed(outpace: Outpace, tmp_path: Path) -> None:
    assert outpace("baseline", "list").stdout.count("0 baselines in outpace-baselines.") == 1
    for name in ("one", "two"):
        assert outpace("baseline", "save", name, FIT, "--dir", "kept").returncode == 0
    first = (tmp_path / "kept" / "one.json").read_bytes()
    assert first == (tmp_path / "kept" / "two.json").read_bytes()
    again = outpace("baseline", "save", "one", LOOP, "--dir", "kept")
    assert again.returncode == 2 and again.stderr.startswith("outpace: kept/one.json exists.")
    assert (tmp_path / "kept" / "one.json").read_bytes() == first
    assert outpace("baseline", "save", "one", LOOP, "--dir", "kept", "--force").returncode == 0
    assert (tmp_path / "kept" / "one.json").read_bytes() != first
    (tmp_path / "kept" / "torn.json").write_bytes(first[:1000])
    listed = outpace("baseline", "list", "--dir", "kept", "--json")
    report = json.loads(listed.stdout)
    names = [row[0] for row in report["tools"]["baselines"]["tables"]["baselines"]["rows"]]
    assert listed.returncode == 0 and names == ["one", "two"]
    assert "torn.json is no JSON" in report["warnings"][0]
    shown = outpace("baseline", "show", "two", "--dir", "kept", "--width", "80")
    assert "two: 12.1 ms per step, 16 steps." in shown.stdout and max(map(len, shown.stdout.splitlines())) <= 80
    assert outpace("baseline", "remove", "two", "--dir", "kept").stdout == "kept/two.json is removed.\n"
    gone = outpace("baseline", "show", "two", "--dir", "kept")
    assert gone.returncode == 4 and "There is no baseline two in kept." in gone.stderr
    assert outpace("compare", "kept/torn.json", FIT).returncode == 3


def test_what_is_no_baseline_is_told(outpace: Outpace, tmp_path: Path) -> None:
    slashes = outpace("baseline", "save", "../main", FIT)
    assert slashes.returncode == 2 and "'../main' cannot name a baseline" in slashes.stderr
    report = tmp_path / "report.json"
    report.write_text(outpace("report", FIT, "--json").stdout, encoding="utf-8")
    stored = outpace("compare", "report.json", FIT)
    assert stored.returncode == 3 and "report.json is no baseline of Outpace" in stored.stderr
    outpace("baseline", "save", "main", FIT)
    unknown = outpace("compare", "mian", FIT)
    assert unknown.returncode == 4 and "Baselines in outpace-baselines: main." in unknown.stderr
    (tmp_path / "main").mkdir()
    assert "main is a path and a baseline" in outpace("compare", "main", FIT).stderr
    analysed = outpace("report", "outpace-baselines/main.json")
    assert analysed.returncode == 3 and "Traceback" not in analysed.stderr
