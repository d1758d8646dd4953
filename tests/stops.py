"""A busy machine on demand: a pytest plugin that stops the tests' processes for a while at drawn
moments, as a scheduler may.

    python -m pytest -p tests.stops [--stops SEED] ...

Every verdict must be the same with it. What a test starts is stopped too, one process at a time or
all at once.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

PAUSES, LENGTHS = (0.2, 1.5), (0.1, 0.5)  # seconds: between two stops, and of one
ARM = b"outpace.tune.trial.child"  # a race stops its arms itself, and a second hand would let them go


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stops", type=int, default=None, metavar="SEED", help="moments at which the tests' processes are stopped"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a worker of xdist's, which is stopped from above
        return
    seed = config.getoption("--stops")
    config.stash[_SEED] = random.SystemRandom().randrange(10**6) if seed is None else seed
    config.stash[_STOPPER] = subprocess.Popen(
        [sys.executable, __file__, str(os.getpid()), str(config.stash[_SEED])], start_new_session=True, stdin=subprocess.DEVNULL
    )


def pytest_report_header(config: pytest.Config) -> str:
    return f"the tests' processes are stopped now and then: --stops {config.stash[_SEED]}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if stopper := config.stash.get(_STOPPER, None):
        stopper.terminate()
        stopper.wait()


_SEED = pytest.StashKey[int]()
_STOPPER = pytest.StashKey["subprocess.Popen[bytes]"]()


def descendants(root: int, without: int) -> list[int]:
    """`root` and the processes that descend from it, where they run, but for `without` and for arms
    of races.
    """
    children: dict[int, list[int]] = {}
    running = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(name))
            if state not in (b"T", b"t", b"Z", b"X"):
                running.add(int(name))
    found, todo = [root], [root]
    while todo:
        todo += [child for child in children.get(todo.pop(), ()) if child != without]
        found += [child for child in todo if child not in found]
    return [process for process in found if process in running and not _is_arm(process)]


def _is_arm(process: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return ARM in file.read()
    return True


def stop(root: int, seed: int) -> None:
    """Until `root` ends: stop it or one of its descendants, or all of them, and let them go on."""
    chance = random.Random(seed)
    while os.getppid() == root:
        time.sleep(chance.uniform(*PAUSES))
        found = descendants(root, os.getpid())
        chosen = found if chance.random() < 0.3 else chance.sample(found, min(1, len(found)))
        length = chance.uniform(*LENGTHS)
        try:
            _send(chosen, signal.SIGSTOP)
            time.sleep(length)
        finally:
            _send(chosen, signal.SIGCONT)


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    stop(int(sys.argv[1]), int(sys.argv[2]))
