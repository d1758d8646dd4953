"""What of a script goes on behind its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import ModuleType

import pytest

from outpace.tune.same import lasting
from outpace.tune.same.lasting import find_lasting, find_processes


class Last:
    """An object that does something at its end."""

    def __del__(self) -> None:
        pass


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """The user's modules."""
    modules: list[ModuleType] = []
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


def test_a_thread_and_an_objects_end(users: list[ModuleType]) -> None:
    users.append(sys.modules[__name__])
    left = threading.Event()
    thread = threading.Thread(target=left.wait)
    thread.start()
    assert find_lasting(bool, find_processes()) == ["a thread", "Last.__del__"]
    left.set()
    thread.join()
