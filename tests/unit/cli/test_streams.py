"""Every command with each standard stream closed, as daemons and schedulers start programs
(`2>&-`): what goes elsewhere is as it was.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outpace.cli import COMMANDS
from tests.support import DATA

PROFILE = str(DATA / "profiles" / "retracing")
CASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "report": (("report", PROFILE), ("report", "nowhere"), ("report", PROFILE, "--csv", "tables")),
    "explain": (("explain", PROFILE),),
    "hlo": (("hlo", PROFILE), ("hlo", str(DATA / "profiles" / "jax_cpu_steps"), "--text")),
    "compare": (("compare", PROFILE, PROFILE), ("compare", PROFILE, "nowhere")),
    "baseline": (("baseline", "list"), ("baseline", "save", "one", PROFILE)),
    "export": (("export", PROFILE, "--parquet", "tables"),),
    "ui": (("ui",), ("ui", PROFILE, "--port", "99999")),
    "profile": (("profile", "nowhere.py"),),
    "capture": (("capture", "nowhere"),),
    "serve": (("serve", "nowhere.py"),),
    "trace": (("trace", PROFILE, "--out", "trace.gz"),),
    "doctor": (("doctor", "--help"),),
    "lint": (("lint", __file__), ("lint", "nowhere.py")),
    "tune": (("tune", "nowhere.py"),),
    "race": (("race", "nowhere.py", "nor_here.py"),),
    "replay": (("replay", "nowhere.jsonl"),),
    "tools": (("tools",),),
    "mcp": (("mcp", "--skill"), ("mcp",)),
}
CLOSED = ("", "stdin", "stdout", "stderr")

# One process imports the commands, and a fork of it runs each of them, with streams as Python has
# them at its start.
RUNNER = """
import importlib, json, os, sys, tempfile
from outpace.cli import COMMANDS, main
from outpace import api
from outpace.report import html, json_, terminal
for name in COMMANDS:
    importlib.import_module(f"outpace.cli.{name}")

def stream(number, name, closed, file):
    if name == closed:
        os.close(number)
        made = None
    else:
        os.dup2(file.fileno(), number)
        made = open(number, "r" if name == "stdin" else "w", closefd=False)
    setattr(sys, name, made)
    setattr(sys, f"__{name}__", made)

found = []
for arguments, closed in json.load(sys.stdin):
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as null:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            for number, (name, file) in enumerate((("stdin", null), ("stdout", out), ("stderr", err))):
                stream(number, name, closed, file)
            sys.argv = ["outpace", *arguments]
            main()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode().replace(folder, ""))
        found.append((code, *texts, sorted(os.listdir(folder))))
sys.stdout.write(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[tuple[str, ...], str], Any]:
    """Exit code, standard output, standard error, and names of the files that were written, of
    every command and stream that is closed.
    """
    asked = [(arguments, closed) for those in CASES.values() for arguments in those for closed in CLOSED]
    command = [sys.executable, "-c", RUNNER, str(tmp_path_factory.mktemp("streams"))]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, json.loads(done.stdout), strict=True))


def test_every_command_is_asked() -> None:
    assert sorted(CASES) == sorted(COMMANDS)


@pytest.mark.parametrize(
    "arguments", [each for those in CASES.values() for each in those], ids=lambda words: " ".join(words).replace(str(DATA), "")
)
def test_a_closed_stream_changes_nothing_else(
    arguments: tuple[str, ...], outcomes: dict[tuple[tuple[str, ...], str], Any]
) -> None:
    code, out, err, files = outcomes[arguments, ""]
    assert outcomes[arguments, "stdin"] == [code, out, err, files]
    assert outcomes[arguments, "stderr"] == [code, out, "", files]
    lost = [
        6,
        "",
        "outpace: The report cannot be written: standard output is closed. Use --html or --csv, or redirect it to a file.\n",
    ]
    assert outcomes[arguments, "stdout"] == ([*lost, files] if out else [code, "", err, files])


def test_what_is_opened_gets_no_number_of_a_stream(tmp_path: Path) -> None:
    """Of a shell's: a library that prints to standard error must not print into a file."""
    program = f"from outpace.cli.process import open_missing_streams as o; o(); import sys; f = open('{tmp_path}/a', 'w'); sys.exit(f.fileno())"
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = f'"{sys.executable}" -c "{program}" {closed}'
        assert subprocess.run(command, shell=True, timeout=60).returncode > 2, closed


def test_memory_that_has_run_out_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from outpace import cli

    for error, why in ((MemoryError(), "the system gives no more"), (MemoryError("1 GB"), "1 GB")):

        def fails(error: MemoryError = error) -> None:
            raise error

        monkeypatch.setattr(cli, "app", fails)
        assert cli._run() == 1
        assert capsys.readouterr().err == f"outpace: There is not enough memory: {why}.\n"
