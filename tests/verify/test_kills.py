"""Commands that are killed at a drawn moment leave nothing: no file beside the user's profile, none
in TMPDIR, no process.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import profile_bytes

pytestmark = pytest.mark.verify
KILLS = 60
OUTPACE = (sys.executable, "-m", "outpace")
TRAINING = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((64, 64))
for _ in range(3000):
    x = step(x).block_until_ready()
"""
ARM = "import time\ndef outpace_race():\n    return lambda: time.sleep({})\n"
BOTH, ALL = (signal.SIGTERM, signal.SIGHUP), (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
COMMANDS: dict[str, tuple[float, tuple[signal.Signals, ...], tuple[str, ...]]] = {
    "report": (1.3, BOTH, ("report", "in/vm.xplane.pb.gz", "--html", "out/r.html", "--csv", "out", "--details")),
    "report of a copy": (1.5, BOTH, ("report", "file://{here}/in/vm.xplane.pb.gz", "--json")),
    "report of a report": (1.0, ALL, ("report", "in/report.json", "--details")),
    "explain": (0.6, ALL, ("explain", "in/vm.xplane.pb.gz")),
    "trace": (0.8, BOTH, ("trace", "in/vm.xplane.pb.gz", "--out", "out/t.json.gz")),
    "viewer": (2.0, ALL, ("trace", "in/vm.xplane.pb.gz", "--no-browser")),
    "lint": (0.5, ALL, ("lint", "in")),
    "tools": (0.4, ALL, ("tools",)),
    "doctor": (25.0, ALL, ("doctor",)),
    "profile": (
        12.0,
        ALL,
        ("profile", "--logdir", "out/logs", "--seconds", "1", "--delay", "0", "--html", "out/p.html", "in/training.py"),
    ),
    "serve": (5.0, BOTH, ("serve", "--port", "0", "in/training.py")),
    "capture": (2.0, BOTH, ("capture", "{worker}", "--logdir", "out/logs", "--duration", "1", "--no-report")),
    "race": (9.0, ALL, ("race", "--budget", "6s", "--out", "out/race.jsonl", "in/a.py", "in/b.py")),
    "replay": (5.0, ALL, ("replay", "in/race.jsonl", "--out", "out/again.jsonl")),
}
"""For how long a command lasts at most (s), by which signals it may be told to end without leaving
anything, and its arguments. A command that is killed cannot remove what it is writing for the user:
it stands beside its place, under a hidden name.
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("inputs") / "in"
    folder.mkdir()
    with gzip.open(folder / "vm.xplane.pb.gz", "wb") as file:
        file.write(profile_bytes("custom_loop", "vm"))
    told = subprocess.run([*OUTPACE, "report", "vm.xplane.pb.gz", "--json"], cwd=folder, check=True, capture_output=True)
    (folder / "report.json").write_bytes(told.stdout)
    (folder / "training.py").write_text(TRAINING)
    for name, seconds in (("a", 0.01), ("b", 0.02)):
        (folder / f"{name}.py").write_text(ARM.format(seconds))
    race = [*OUTPACE, "race", "--budget", "4s", "--out", "in/race.jsonl", "in/a.py", "in/b.py"]
    subprocess.run(race, cwd=folder.parent, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def worker() -> Iterator[str]:
    """A worker that takes its time, and has a profile."""
    grpc = pytest.importorskip("grpc")
    from outpace.capture.remote.wire import PROFILE_METHOD, ProfileResponse

    def answer(data: bytes, context: Any) -> bytes:
        time.sleep(1)
        return ProfileResponse(profile_bytes("custom_loop", "vm")).encode(emit=True)

    service, method = PROFILE_METHOD.strip("/").split("/")
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    handlers = {method: grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def living(mark: str) -> list[str]:
    """Command lines of the processes that were started with this TMPDIR."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if f"\0TMPDIR={mark}\0".encode() in b"\0" + Path("/proc", name, "environ").read_bytes():
                found.append(Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").replace("\0", " "))
    return found


def left(here: Path) -> list[str]:
    """What stands there that no user asked for: unfinished files, and runs without a profile."""
    names = [str(path.relative_to(here)) for top in ("tmp", "in", "out") for path in sorted((here / top).rglob("*"))]
    known = {f"in/{name}" for name in os.listdir(here / "in") if not name.startswith(".")}
    asked = [n for n in names if n.startswith("out") and not any(part.startswith(".") for part in Path(n).parts)]
    empty = [n for n in asked if (here / n).is_dir() and n.count("/") > 3 and not any((here / n).iterdir())]
    return [n for n in names if n not in known and n not in asked] + empty


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_command_leaves_nothing(number: int, inputs: Path, worker: str, tmp_path: Path) -> None:
    chance = random.Random(number)
    name = list(COMMANDS)[number % len(COMMANDS)]
    lasts, signals, command = COMMANDS[name]
    how = chance.choice(signals)
    for folder in ("tmp", "out"):
        (tmp_path / folder).mkdir()
    subprocess.run(["cp", "-r", str(inputs), str(tmp_path / "in")], check=True)
    arguments = [part.format(here=tmp_path, worker=worker) for part in command]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*OUTPACE, *arguments],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(chance.uniform(0.03, lasts))
    ended = process.poll()
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said, said.decode(errors="replace")[-2000:]
    deadline = time.monotonic() + 30
    while (still := living(str(tmp_path / "tmp"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not still, (name, how, still)
    assert left(tmp_path) == [], (name, how, process.returncode)
    if ended is None and name not in ("serve", "race", "replay", "profile"):  # whose end is that of the script, or of the race
        assert process.returncode in (-how, 0), said
