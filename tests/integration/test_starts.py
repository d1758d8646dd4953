"""A script sees no difference in a fork of a process that has imported the frameworks."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from outpace.capture.process_tree import ProcessTree
from outpace.tune.same import Original
from outpace.tune.session import tuning
from outpace.tune.starts import Forks, Imports
from tests.integration.programs import needs_jax

pytestmark = needs_jax

LOOP = """
import os, random, sys, threading
import numpy as np
{before}
known = "jax" in sys.modules
import jax, jax.numpy as jnp
print("jax was there:", known, "and is:", sys.modules["jax"] is jax, jax.__spec__.name, jax.numpy.__name__)
print("threads:", threading.active_count(), "arguments:", sys.argv[1:], "folder:", os.path.basename(os.getcwd()))
print("as main:", __name__, sys.modules["__main__"].__dict__ is globals(), os.environ.get("MINE"), os.environ.get("THEIRS"))
w = jnp.zeros(3)
for i in range(20):
    w = w - 0.1 * jax.grad(lambda w: ((w - i) ** 2).sum())(w)
print(w)
"""


def printed(folder: Path, text: str, forks: Forks) -> tuple[str, ...]:
    """What the script prints where it is compared."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    with Original(str(path), ["--rate", "2"], folder=str(folder), forks=forks) as original:
        return original._run({}).printed


def test_a_fork_is_as_a_process_that_has_just_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIRS", "the user's")
    text = LOOP.format(before="os.environ['MINE'] = 'set'")
    plain = printed(tmp_path, text, Forks())
    with Forks(Imports(("jax",), {"MINE": "set"})) as forks:
        forked = printed(tmp_path, text, forks)
        server = next(iter(forks._servers.values()))
        assert server is not None and server.process.poll() is None
        assert plain == forked and "jax was there: False and is: True jax jax.numpy" in plain
    assert server.process.poll() is not None


def test_in_another_environment_it_begins_anew(tmp_path: Path) -> None:
    """A variable that is set before an import makes what was imported another module."""
    text = LOOP.format(before="print('begins'); os.environ['JAX_ENABLE_X64'] = '1'").replace("print(w)", "print(w.dtype)")
    with Forks(Imports(("jax",))) as forks:
        found = printed(tmp_path, text, forks)
    assert found[-1] == "float64" and found.count("begins") == 1


@pytest.mark.parametrize(("guard", "names"), [("overlay", ("jax",)), ("redirect", ())])
def test_what_a_script_imports_is_noted(
    guard: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that were imported before would have functions that are no guard."""
    monkeypatch.setenv("OUTPACE_GUARD", guard)
    path = tmp_path / "train.py"
    path.write_text(LOOP.format(before="os.environ['MINE'] = 'set'"), encoding="utf-8")
    plan = {
        "script": str(path), "argv": [], "module": False, "fit": 1, "budget": 60.0, "asked_budget": None, "then": "stop",
        "allow": [], "only_limits": False, "dry_run": True,
    }  # fmt: skip
    with ProcessTree() as family:
        seen = tuning(plan, family.folder).seen
    assert seen is not None
    assert seen.imports.names[:1] == names and seen.imports.changed.get("MINE") == ("set" if names else None)


def test_a_module_that_starts_a_thread_is_not_imported_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would be without it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"), prepend=":")
    text = "import threaded\n" + LOOP.format(before="")
    with Forks(Imports(("threaded", "jax"))) as forks:
        assert "threads: 3" in " ".join(printed(tmp_path, text, forks))


def test_how_it_ends_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan")  # it waits for what nobody writes
    with Forks(Imports(("jax",))) as forks, open(tmp_path / "out", "w+b") as out:
        failed = forks.start("outpace.tune.same.child", ["no such plan"], out, out, dict(os.environ))
        waiting = forks.start("outpace.tune.same.child", [str(tmp_path / "plan")], out, out, dict(os.environ))
        assert failed.wait(60) == failed.poll() == 1
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.1)
        assert waiting.poll() is None
        waiting.kill()
        assert waiting.wait(60) == -signal.SIGKILL
        assert len(forks._servers) == 1 and None not in forks._servers.values()
        out.seek(0)
        assert b"FileNotFoundError" in out.read()
