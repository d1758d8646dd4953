"""Processes of a command are ended with it, also where it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpace.capture.process_tree import FAMILY_VARIABLE, ProcessTree, register_folder

# A worker in a session of its own, of a child that has ended: nothing but the environment tells
# whose it is.
ORPHAN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(child.pid, flush=True)
"""
COMMAND = f"""
import subprocess, sys, time
from outpace.capture.process_tree import ProcessTree
with ProcessTree() as family:
    print(subprocess.run([sys.executable, "-c", {ORPHAN!r}], capture_output=True, text=True).stdout.strip(), family.folder, flush=True)
    time.sleep(600)
"""


def gone(process: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def orphan() -> int:
    return int(subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=True).stdout)


def test_what_was_started_and_noted_goes_with_the_family(tmp_path: Path) -> None:
    with ProcessTree() as family:
        process = orphan()
        made = register_folder(str(tmp_path / "made"))
        os.mkdir(made)
        folder = family.folder
    assert gone(process)
    assert not os.path.exists(made) and not os.path.exists(folder)
    assert FAMILY_VARIABLE not in os.environ


@pytest.mark.parametrize("released", [True, False])
def test_what_is_released_goes_on(released: bool, tmp_path: Path) -> None:
    with ProcessTree(detached=released) as family:
        process = orphan()
        register_folder(str(tmp_path))
        family.release()
    assert not gone(process, 0.3) and tmp_path.exists()
    os.kill(process, 9)


def test_an_inner_family_is_no_concern_of_the_outer_one() -> None:
    with ProcessTree() as outer:
        before = orphan()
        with ProcessTree():
            inside = orphan()
        assert gone(inside) and not gone(before, 0.2)
        assert os.environ[FAMILY_VARIABLE] == outer.folder
    assert gone(before)


def test_a_killed_command_takes_its_family_along() -> None:
    command = subprocess.Popen([sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    process, folder = command.stdout.readline().split()
    command.kill()
    command.wait()
    command.stdout.close()
    assert gone(int(process))
    end = time.monotonic() + 5
    while os.path.exists(folder) and time.monotonic() < end:
        time.sleep(0.02)
    assert not os.path.exists(folder)
