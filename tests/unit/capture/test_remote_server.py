"""`serve` where no framework is needed: its address, its port, and what it refuses."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from outpace.capture.remote import capture_remote, process_capture
from outpace.capture.remote.wire import ProfileRequest
from outpace.capture.server import is_loopback, require_port, serve
from outpace.model import CaptureError, UsageError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")


@pytest.fixture
def no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorflow", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("no_framework")
def test_a_process_without_a_framework_says_so(tmp_path: Path) -> None:
    with serve(0) as server:
        assert server.address.startswith("127.0.0.1:")
        host = capture_remote(server.address, tmp_path, 0.01, retries=0).hosts[0]
    assert host.reason == "not ready: The process has imported neither TensorFlow nor JAX yet"


def test_a_stopped_server_listens_no_more(tmp_path: Path) -> None:
    server = serve(0)
    server.stop()
    server.stop()
    assert "no connection" in capture_remote(server.address, tmp_path, 0.01, retries=0).hosts[0].reason


def test_a_request_for_too_long_a_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_capture, "MAX_DURATION_MS", 5)
    with serve(0) as server:
        host = capture_remote(server.address, tmp_path, 0.01, retries=0).hosts[0]
    assert host.reason.startswith("the worker refuses, INVALID_ARGUMENT: 10 ms cannot be captured")


def test_a_port_that_is_taken_is_said() -> None:
    with serve(0) as server:
        port = int(server.address.rpartition(":")[2])
        with pytest.raises(CaptureError, match=f"cannot listen on 127.0.0.1:{port}: the port is taken"):
            serve(port)
        with pytest.raises(CaptureError, match=f"cannot listen on 127.0.0.1:{port}: the port is taken"):
            require_port(port, "127.0.0.1")
    require_port(port, "127.0.0.1")


@pytest.mark.parametrize("port", [-1, 65536])
def test_an_impossible_port_is_said(port: int) -> None:
    with pytest.raises(UsageError, match="is no port"):
        serve(port)
    with pytest.raises(UsageError, match="is no port"):
        require_port(port, "127.0.0.1")


def test_a_server_on_all_interfaces_warns_once() -> None:
    code = "from outpace.capture.server import serve\nwith serve(0, host='0.0.0.0') as server: print(server.address)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.strip().rpartition(":")[0] == socket.gethostname()
    lines = [line for line in done.stderr.splitlines() if line.startswith("outpace:")]
    assert len(lines) == 1
    assert "is open to the network, and asks nobody for a password" in lines[0]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gpu1", False)],
)
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def serve_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    source = Path(sys.modules["outpace"].__file__ or "").parents[1]
    command = [sys.executable, "-m", "outpace", "serve", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": str(source)}
    )


def test_a_script_under_serve_is_as_it_would_be_alone(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys\nprint(sys.argv, __name__, 'grpc' in sys.modules)\nsys.exit(9)\n")
    done = serve_command("--port", "0", "job.py", "--port", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (9, "['job.py', '--port', 'x'] __main__ False", "")
    (tmp_path / "bad.py").write_text("def f():\n    raise ValueError('mine')\nf()\n")
    failed = serve_command("--port", "0", "-m", "bad", cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr.count("File ") == 2, failed.stderr


def test_serve_says_what_is_wrong_before_the_script_runs(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('ran')\n")
    with serve(0) as server:
        port = server.address.rpartition(":")[2]
        taken = serve_command("--port", port, "job.py", cwd=tmp_path)
    assert (taken.returncode, taken.stdout) == (5, "")
    assert "the port is taken" in taken.stderr
    missing = serve_command("none.py", cwd=tmp_path)
    assert missing.returncode == 4


def test_a_request_for_a_time_far_ahead_is_refused() -> None:
    server = process_capture.ProcessCapture(threading.current_thread())
    for start in (time.time_ns() + 366 * 86_400 * 10**9, 2**64 - 1):
        with pytest.raises(process_capture.CaptureRefused, match="within an hour") as refusal:
            server.capture(ProfileRequest(duration_ms=1, start_ns=start), threading.Event())
        assert refusal.value.code == "INVALID_ARGUMENT"


@pytest.mark.usefixtures("no_framework")
def test_who_waits_for_a_later_time_is_in_nobodys_way() -> None:
    server, cancel, refusals = process_capture.ProcessCapture(threading.current_thread()), threading.Event(), []

    def later() -> None:
        with pytest.raises(process_capture.CaptureRefused) as refusal:
            server.capture(ProfileRequest(duration_ms=1, start_ns=time.time_ns() + 1800 * 10**9), cancel)
        refusals.append(refusal.value.code)

    waiting = [threading.Thread(target=later) for _ in range(3)]
    for thread in waiting:
        thread.start()
    with pytest.raises(process_capture.CaptureRefused) as refusal:
        server.capture(ProfileRequest(duration_ms=1), threading.Event())
    assert refusal.value.code == "FAILED_PRECONDITION", "it was its turn: this process has no framework"
    cancel.set()
    server.notify()
    for thread in waiting:
        thread.join()
    assert len(refusals) == 3
