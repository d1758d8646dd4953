"""What of a script goes on behind its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from outpace.tune.same import lasting
from outpace.tune.same.lasting import Sending, find_lasting, find_processes


class Last:
    """An object that does something at its end."""

    def __del__(self) -> None:
        pass


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """The user's modules; threads that other tests left are not the script's."""
    modules: list[ModuleType] = []
    before, find = set(threading.enumerate()), lasting.lasting_threads
    monkeypatch.setattr(lasting, "lasting_threads", lambda: [each for each in find() if each not in before])
    monkeypatch.setattr(lasting, "modules_of", lambda users: modules)
    return modules


def test_nothing_goes_on(users: list[ModuleType]) -> None:
    assert find_lasting(bool, find_processes()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it is told by /proc")
def test_a_process_goes_on_that_the_script_started(users: list[ModuleType]) -> None:
    before = find_processes()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert find_lasting(bool, before) == ["a process"]
        assert find_lasting(bool, find_processes()) == []
        process.communicate(b"\n")
    assert find_lasting(bool, before) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it is told by /proc")
@pytest.mark.parametrize(
    "detached", ["s.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)", "fork()"]
)
def test_a_process_that_was_detached_is_one_of_the_run(detached: str) -> None:
    """In a process of its own, since what is adopted stays so."""
    script = (
        "import os, subprocess as s, sys, time\n"
        "from outpace.tune.guard.kernel import adopt_orphans\n"
        "from outpace.tune.same.lasting import find_lasting, find_processes\n"
        "def fork():\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "adopt_orphans()\n"
        "before = find_processes()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    {detached}\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(find_lasting(lambda file: False, before), flush=True)\n"
        "for each in find_processes() - before:\n"
        "    os.kill(each, 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['a process']"


def test_what_is_sent_over_a_network_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(sys, "addaudithook", heard.append)  # which nobody could take away again
    sending = Sending(lambda file: file == __file__)
    sending.begin()
    (hear,) = heard
    hear("socket.sendto", (None, ("127.0.0.1", 8125)))
    hear("socket.connect", (None, "/run/some.socket"))
    hear("open", ("file", "r", 0))
    assert sending.places == {"what it sends to 127.0.0.1"}
    hear("os.system", (b"notify 0.5",))
    hear("subprocess.Popen", ("notify", ["notify", "0.5"], None, None))
    assert sending.started == ["notify 0.5"] * 2
    Sending(lambda file: False)._heard("os.system", (b"lscpu",))
    assert sending.started == ["notify 0.5"] * 2, "a library's own"


def test_a_thread_and_an_objects_end(users: list[ModuleType]) -> None:
    users.append(sys.modules[__name__])
    left = threading.Event()
    thread = threading.Thread(target=left.wait)
    thread.start()
    assert find_lasting(bool, find_processes()) == ["a thread", "Last.__del__"]
    left.set()
    thread.join()
