"""Python again for a script: the same interpreter, the same flags, and a script that is missing is
told before.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.capture.interpreter import python_command, require_script
from outpace.model.errors import NotFoundError, UsageError
from tests.strange import STRANGE

pytestmark = pytest.mark.slow

BECOME = """
import sys
from outpace.capture.interpreter import exec_command, python_command
print("before")
exec_command(python_command("outpace.capture.remote.served_script", "127.0.0.1", "0", "script", "job.py", "a word"))
"""


def test_a_missing_script_is_told_and_a_module_is_not_looked_for(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    with pytest.raises(NotFoundError, match=r"no script .*job\.py.*-m"):
        require_script(str(script), module=False)
    require_script("no.such.module", module=True)
    script.touch()
    require_script(str(script), module=False)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("pipe", "it is a pipe, not a file"),
        ("link to a pipe", "it is a pipe, not a file"),
        ("endless device", "it is a device, not a file"),
        ("socket", "it is a socket, not a file"),
        ("four terabytes of nothing", "it has 4,398,046,511,104 bytes, more than the 16,777,216 that a script may have"),
    ],
)
@pytest.mark.parametrize("name", ["job.py", "job.ipynb", "folder/__main__.py"])
def test_a_script_that_python_would_not_come_to_the_end_of_is_told(tmp_path: Path, what: str, says: str, name: str) -> None:
    script = tmp_path / name
    script.parent.mkdir(exist_ok=True)
    STRANGE[what](script)
    given = script.parent if script.name == "__main__.py" else script
    with pytest.raises(UsageError, match=re.escape(f"{script} cannot be run: {says}.")):
        require_script(str(given), module=False)


def test_a_folder_is_run_by_what_stands_in_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"There is no script .*__main__\.py\."):
        require_script(str(tmp_path), module=False)
    (tmp_path / "__main__.py").touch()
    require_script(str(tmp_path), module=False)


def test_the_command_is_this_interpreter_on_a_module() -> None:
    command = python_command("some.module", "one", "two words")
    assert command[0] == sys.executable
    assert command[-4:] == ["-m", "some.module", "one", "two words"]


def test_the_process_that_follows_keeps_flags_output_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys\nprint(sys.argv, sys.flags.optimize, sys.flags.utf8_mode)\nsys.exit(7)\n")
    command = [sys.executable, "-O", "-X", "utf8", "-c", BECOME]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout) == (7, "before\n['job.py', 'a word'] 1 1\n"), done.stderr
