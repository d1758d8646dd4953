"""What reads profiles needs nothing that Windows lacks. `make check` proves the names (mypy, for
that platform); here the commands run without.

A stand-in: there is no Windows here. The standard library and what Outpace depends on learn their
system when they are imported, so that is done first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.cli import _PORTABLE_COMMANDS
from tests.support import DATA

ROOT = Path(__file__).parents[2]

RETRACING = str(DATA / "profiles" / "retracing")
POSIX_ONLY = """
import ctypes, multiprocessing.connection, os, shutil, signal, socket, subprocess, sys, tempfile, webbrowser
import fsspec, jinja2, nanoarrow, numpy, rich.console, typer.main, typer.rich_utils

for name in ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "forkpty", "getuid", "geteuid", "getgid", "killpg", "mkfifo",
             "nice", "pread", "register_at_fork", "sched_getaffinity", "sched_setscheduler", "setsid", "sysconf", "uname", "wait4"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGCHLD", "SIGUSR1", "ITIMER_REAL", "pthread_kill", "setitimer", "siginterrupt"):
    if hasattr(signal, name):
        delattr(signal, name)
whole = ctypes.CDLL.__init__
def named(self, name, *arguments, **options):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    whole(self, name, *arguments, **options)
ctypes.CDLL.__init__ = named
sys.platform = "win32"

from outpace.cli import main
main()
"""


def test_the_documents_name_the_commands_that_work_there() -> None:
    row = next(
        line
        for line in (ROOT / "docs" / "installing.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| Windows")
    )
    told = re.findall(r"`([a-z]+)[` ]", row.split("|")[2])
    assert sorted(told) == sorted(_PORTABLE_COMMANDS)


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", POSIX_ONLY, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report", RETRACING), "Compile-bound"),
        (("report", "--html", "{}/report.html", RETRACING), "report.html"),
        (("report", "--json", RETRACING), '"schema":2'),
        (("explain", RETRACING), "Compilation"),
        (("compare", RETRACING, RETRACING), "Step time"),
        (("baseline", "list", "--dir", "{}"), "0 baselines"),
        (("export", RETRACING, "--parquet", "{}"), "of 1 run are in"),
        (("trace", "--out", "{}/trace.gz", RETRACING), "trace.gz"),
        (("lint", __file__), "0 warnings"),
        (("tools",), "overview"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_profiles_are_read(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = ran(*(argument.format(tmp_path) for argument in arguments))
    assert done.returncode == 0, done.stderr
    assert says in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("ui", "logs"), "'outpace ui'"),
        (("tune", "train.py"), "'outpace tune'"),
        (("trace", RETRACING), "The viewer ('outpace trace' without --out)"),
    ],
    ids=["ui", "tune", "trace"],
)
def test_what_makes_profiles_says_where_it_works(arguments: tuple[str, ...], what: str) -> None:
    done = ran(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"outpace: {what} needs Linux or macOS. On Windows, 'outpace report LOGDIR'")
