"""Folders of caches on disk: removed with the process that made them, and only by it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from outpace.tune.data.isolated import is_temporary

PROGRAM = """
import os, sys
from outpace.tune.data.isolated import new_folder
folder = new_folder(sys.argv[1])
open(os.path.join(folder, "elements.index"), "w").close()
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
print(folder, os.path.exists(os.path.join(folder, "elements.index")))
"""


def test_a_folder_goes_with_its_process_and_not_with_a_child(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    folder, kept = done.stdout.split()
    assert kept == "True" and is_temporary(f"{folder}/elements")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_when_its_process_is_told_to_end(tmp_path: Path) -> None:
    program = "import sys, time\nfrom outpace.tune.data.isolated import new_folder\nprint(new_folder(sys.argv[1]), flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert is_temporary(process.stdout.readline().strip())
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_users_is_none() -> None:
    assert not is_temporary("/data/cache/elements")
