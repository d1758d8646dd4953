"""What reads profiles needs nothing that Windows lacks. `make check` proves the names (mypy, for that platform); here the commands run without.

A stand-in: there is no Windows here. The standard library and what Outpace depends on learn their system when they are imported, so that is
done first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import DATA

RETRACING = str(DATA / "profiles" / "retracing")
POSIX_ONLY = """
import ctypes, multiprocessing.connection, os, shutil, signal, socket, subprocess, sys, tempfile, webbrowser
import fsspec, jinja2, nanoarrow, numpy, rich.console, typer.main, typer.rich_utils

for name in ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "forkpty", "getuid", "geteuid", "getgid", "killpg", "mkfifo",
             "nice", "pread", "register_at_fork", "sched_getaffinity", "sched_setscheduler", "setsid", "sysconf", "uname", "wait4"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGCHLD", "SIGUSR1", "ITIMER_REAL", "pthread_kill", "setitimer", "siginterrupt"):
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


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", POSIX_ONLY, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report", RETRACING), "Bound by compilation"),
        (("report", "--html", "{}/report.html", RETRACING), "report.html"),
        (("report", "--json", RETRACING), '"schema":2'),
        (("explain", RETRACING), "Compilation"),
        (("compare", RETRACING, RETRACING), "step"),
        (("trace", "--out", "{}/trace.gz", RETRACING), "trace.gz"),
        (("lint", __file__), ""),
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
