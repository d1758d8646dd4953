"""Many workers at once, against real gRPC servers in this process that answer what real ones were
seen to answer, and against none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outpace.capture.remote import RemoteResult, capture_remote
from outpace.capture.remote import fleet as fleet_module
from outpace.capture.remote import shared_folder as collect_module
from outpace.capture.remote.wire import NOTE_KEY, ProfileRequest, ProfileResponse
from outpace.model import CaptureError, UsageError
from outpace.model.protobuf_wire import encode_bytes, encode_integer

EVENTS = encode_bytes(
    1, encode_bytes(2, "/host:CPU") + encode_bytes(3, encode_bytes(2, "main") + encode_bytes(4, encode_integer(1, 3)))
)
NO_EVENTS = encode_bytes(4, "machine")
Answer = Callable[[ProfileRequest, Any], bytes]

pytestmark = [pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(fleet_module, "POLL_S", 0.02)
    monkeypatch.setattr(collect_module, "APPEAR_TIMEOUT_S", 0.2)


@pytest.fixture
def worker() -> Iterator[Callable[[Answer], str]]:
    """Start a profiler server that answers with a function; its address."""
    import grpc

    servers = []
    pools = []

    def start(answer: Answer, service: str = "tensorflow.ProfilerService") -> str:
        pool = ThreadPoolExecutor(2)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        handler = grpc.unary_unary_rpc_method_handler(lambda data, context: answer(ProfileRequest.decode(data), context))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Profile": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        pools.append(pool)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None).wait()
    for pool in pools:
        pool.shutdown()


@pytest.fixture
def listener() -> Iterator[str]:
    """A plain TCP listener, which accepts and says nothing."""
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))
        plain.listen()
        yield f"127.0.0.1:{plain.getsockname()[1]}"


def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def good(request: ProfileRequest, context: Any) -> bytes:
    return ProfileResponse(EVENTS).encode(emit=True)


def refusing(code: str, text: str) -> Answer:
    def answer(request: ProfileRequest, context: Any) -> bytes:
        import grpc

        context.abort(getattr(grpc.StatusCode, code), text)
        return b""

    return answer


def capture(addresses: list[str], logdir: Path, **options: Any) -> RemoteResult:
    return capture_remote(addresses, logdir, **{"duration": 0.01, "timeout": 5.0, "retries": 0, **options})


def nothing_left(logdir: Path) -> bool:
    """No run, and nothing half-written."""
    return not [path for path in logdir.rglob("*") if path.is_file() or path.name.startswith(".")]


def test_profiles_of_all_workers_are_one_run(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    seen: list[ProfileRequest] = []

    def answer(request: ProfileRequest, context: Any) -> bytes:
        seen.append(request)
        return good(request, context)

    addresses = [worker(answer), worker(answer)]
    result = capture(addresses, tmp_path, host_level=3, python_level=1, device_level=0, duration=0.25)
    assert result.error() is None
    assert [(h.address, h.bytes, h.attempts) for h in result.hosts] == [(a, len(EVENTS), 1) for a in addresses]
    assert result.run is not None
    files = sorted(os.listdir(result.run))
    assert files == sorted(f"{a.replace(':', '_')}.xplane.pb" for a in addresses)
    assert all(Path(result.run, name).read_bytes() == EVENTS for name in files)
    assert Path(result.run).parent == tmp_path / "plugins" / "profile"
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]
    assert {(r.duration_ms, r.host_level, r.python_level, r.device_level, r.emit, r.start_ns) for r in seen} == {
        (250, 3, 1, 0, True, 0)
    }


def test_workers_are_asked_at_the_same_time(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    """Each waits for the other: one after the other, none would ever answer."""
    both = threading.Barrier(3)

    def answer(request: ProfileRequest, context: Any) -> bytes:
        both.wait(4)
        return good(request, context)

    assert capture([worker(answer) for _ in range(3)], tmp_path).error() is None


def test_the_dead_the_deaf_and_the_unknown_lose_nobody_else(
    worker: Callable[[Answer], str], listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.monotonic()
    result = capture([nobody(), worker(good), listener, "host.invalid:1"], tmp_path, timeout=2.0)
    assert time.monotonic() - begin < 30
    dead, alive, deaf, unknown = result.hosts
    assert alive.saved
    assert (
        dead.reason
        == "no connection (Connection refused): no profiler server runs on that port (outpace serve SCRIPT starts one)"
    )
    assert deaf.reason == "the connection is accepted, but within 2 s no profiler server answers on it"
    assert unknown.reason == "the name of the host is unknown here"
    error = result.error()
    assert error is not None
    assert error.exit_code == 7
    assert all(host.reason in str(error) for host in (dead, deaf, unknown))
    assert result.run is not None
    assert os.listdir(result.run) == [f"{alive.host}.xplane.pb"]


def test_none_of_them_leaves_no_run(tmp_path: Path) -> None:
    result = capture([nobody(), nobody()], tmp_path)
    assert result.run is None
    error = result.error()
    assert type(error) is CaptureError
    assert nothing_left(tmp_path)


def test_a_worker_that_never_answers_ends_at_the_timeout(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    ended = threading.Event()

    def hang(request: ProfileRequest, context: Any) -> bytes:
        context.add_callback(ended.set)
        ended.wait(10)
        return b""

    result = capture([worker(hang), worker(good)], tmp_path, timeout=2.0)
    assert result.hosts[0].reason.startswith("the worker did not answer in time")
    assert 1.9 < result.hosts[0].seconds < 9
    assert result.hosts[1].saved
    assert ended.wait(5), "the request must not stay alive at the worker"


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        ("INTERNAL", "Another profiling session active.", "another profiler is running in that process"),  # TensorFlow, JAX
        (
            "ALREADY_EXISTS",
            "Another capture of this process is running.",
            "another profiler is running in that process",
        ),  # ours
        ("FAILED_PRECONDITION", "Nothing is imported yet.", "not ready: Nothing is imported yet"),
    ],
)
def test_a_busy_worker_is_asked_again(
    worker: Callable[[Answer], str], tmp_path: Path, code: str, text: str, reason: str
) -> None:
    times: list[float] = []

    def answer(request: ProfileRequest, context: Any) -> bytes:
        times.append(time.monotonic())
        return good(request, context) if len(times) == 3 else refusing(code, text)(request, context)

    address = worker(answer)
    assert capture([address], tmp_path, retries=1).hosts[0].reason == reason
    times.clear()
    result = capture([address], tmp_path, retries=2)
    assert result.error() is None
    assert result.hosts[0].attempts == len(times) == 3


@pytest.mark.parametrize("flagged", [True, False])
def test_a_profile_without_an_event_is_asked_for_again_and_never_saved(
    worker: Callable[[Answer], str], tmp_path: Path, flagged: bool
) -> None:
    count = 0

    def answer(request: ProfileRequest, context: Any) -> bytes:
        nonlocal count
        count += 1
        return ProfileResponse(NO_EVENTS, empty=flagged).encode(emit=True)

    result = capture([worker(answer)], tmp_path, retries=2)
    assert count == 3
    assert result.hosts[0].reason == "no event was recorded: the process did nothing that is traced"
    assert nothing_left(tmp_path)


def test_workers_that_answered_are_not_asked_again(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    count = 0

    def answer(request: ProfileRequest, context: Any) -> bytes:
        nonlocal count
        count += 1
        return good(request, context)

    result = capture([worker(answer), nobody()], tmp_path, retries=2)
    assert count == 1
    assert result.hosts[1].attempts == 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            refusing("INTERNAL", "/nope; No such file or directory."),
            "the worker refuses, INTERNAL: /nope; No such file or directory",
        ),
        (
            refusing("UNAVAILABLE", "Socket closed"),
            "the connection broke during the capture: the worker ended, or the network did",
        ),
        (lambda request, context: b"\x42\x7f", "the answer cannot be read: a field of 127 bytes at byte 2 is cut off"),
    ],
)
def test_what_does_not_help_is_not_asked_again(
    worker: Callable[[Answer], str], tmp_path: Path, answer: Answer, reason: str
) -> None:
    host = capture([worker(answer)], tmp_path, retries=3).hosts[0]
    assert (host.reason, host.attempts) == (reason, 1)


def test_a_server_without_the_service_is_told_from_a_profiler(worker: Any, tmp_path: Path) -> None:
    reason = capture([worker(good, service="tensorflow.WorkerService")], tmp_path).hosts[0].reason
    assert reason.startswith("the server there has no profiler service: give the profiler's port")


def old_tensorflow(request: ProfileRequest, context: Any) -> bytes:
    """TensorFlow 2.16: it knows no `emit`, writes to its own disk, and answers with nothing
    (docs/remote.md).
    """
    folder = Path(request.root.removeprefix("file://"), request.session)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{request.host}.xplane.pb").write_bytes(EVENTS)
    return b""


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_profile_that_the_worker_wrote_where_we_see_it_is_collected(
    worker: Callable[[Answer], str], tmp_path: Path, scheme: str
) -> None:
    address = worker(old_tensorflow)
    result = capture_remote(address, f"{scheme}{tmp_path}", 0.01)
    assert result.error() is None
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [f"{address.replace(':', '_')}.xplane.pb"]
    assert files[0].read_bytes() == EVENTS
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]


def test_a_profile_that_the_worker_wrote_elsewhere_is_said_to_be_there(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    def elsewhere(request: ProfileRequest, context: Any) -> bytes:
        return b""

    host = capture([worker(elsewhere)], tmp_path).hosts[0]
    assert host.reason.startswith(f"the worker wrote its profile to its own disk ({tmp_path}/")
    assert f"/run/{host.host}.xplane.pb there)" in host.reason
    assert host.reason.endswith("give --logdir on a file system that both see, or a gs:// URL")
    assert nothing_left(tmp_path)


def test_a_remark_of_the_worker_is_kept(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    def answer(request: ProfileRequest, context: Any) -> bytes:
        context.set_trailing_metadata(((NOTE_KEY, "levels ignored"),))
        return good(request, context)

    assert capture([worker(answer)], tmp_path).hosts[0].note == "levels ignored"


def test_a_run_in_a_url(worker: Callable[[Answer], str]) -> None:
    import fsspec

    result = capture_remote(worker(good), "memory://remote-capture", 0.01)
    assert result.error() is None
    fs = fsspec.filesystem("memory")
    try:
        found = fs.find("/remote-capture")
        assert len(found) == 1
        assert found[0].startswith("/remote-capture/plugins/profile/")
        assert fs.cat_file(found[0]) == EVENTS
    finally:
        fs.rm("/remote-capture", recursive=True)


def test_a_log_directory_that_cannot_be_written_is_said_before_anybody_is_asked(
    worker: Callable[[Answer], str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="not writable"):
        capture([worker(lambda request, context: pytest.fail("asked"))], tmp_path / "file" / "logs")


def test_options_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 seconds"):
        capture_remote("a:1", tmp_path / "logs", 0)
    assert not (tmp_path / "logs").exists()


def test_grpc_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(CaptureError, match="pip install grpcio"):
        capture(["a:1"], tmp_path)
    assert nothing_left(tmp_path)


def test_ctrl_c_ends_the_request_and_leaves_nothing(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def hang(request: ProfileRequest, context: Any) -> bytes:
        context.add_callback(ended.set)
        begun.set()
        ended.wait(30)
        return b""

    command = [sys.executable, "-m", "outpace", "capture", f"{worker(hang)},{worker(good)}", "--logdir", str(tmp_path)]
    process = subprocess.Popen([*command, "--duration", "30s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert begun.wait(20)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 130
    assert ended.wait(5)
    assert nothing_left(tmp_path)
    assert "Traceback" not in err


def test_the_command_says_each_hosts_outcome(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    addresses = f"{worker(good)},{nobody()}"
    command = [
        sys.executable,
        "-m",
        "outpace",
        "capture",
        addresses,
        "--logdir",
        str(tmp_path),
        "--duration",
        "10ms",
        "--retries",
        "0",
    ]
    done = subprocess.run([*command, "--no-report", "--width", "80"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 7
    assert max(len(line) for line in done.stdout.splitlines() if not line.startswith("The run is")) <= 80
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["Worker", "Profile", "Size", "Took"]
    assert "saved" in rows[1]
    assert "missing: no connection" in rows[2]
    assert f"The run is {tmp_path}/plugins/profile/" in done.stdout
    assert "1 of 2 workers is missing" in done.stderr


def test_the_command_prints_json(worker: Callable[[Answer], str], tmp_path: Path) -> None:
    addresses = f"{worker(good)},{nobody()}"
    command = [
        sys.executable,
        "-m",
        "outpace",
        "capture",
        addresses,
        "--logdir",
        str(tmp_path),
        "--duration",
        "10ms",
        "--retries",
        "0",
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 7
    data = json.loads(done.stdout)
    assert [host["saved"] for host in data["hosts"]] == [True, False]
    assert data["hosts"][1]["reason"].startswith("no connection")
    assert data["run"].startswith(str(tmp_path))
    assert data["report"]["tools"]
