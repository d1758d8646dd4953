"""Ray: workers of a real cluster of three nodes captured together. The last tests end it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import outpace
from outpace.capture.remote import capture_remote
from outpace.hosts.open import MAX_FULL_HOSTS
from outpace.model import UsageError
from outpace.store.logdir import find_profiles
from tests.unit.hosts.made import host, put, session

MISSING = [name for name in ("ray", "jax", "grpc") if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} are not installed"), pytest.mark.slow]
HERE = Path(__file__).parent
HOSTS = MAX_FULL_HOSTS + 8  # of more than those, digests are made


def refusing(folder: Path, package: str) -> str:
    """A folder for PYTHONPATH where importing a package fails."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(f"raise ImportError('no {package} here')\n")
    return str(folder)


@dataclass
class Job:
    """A cluster with a training on it; `run` is the training's name."""

    process: subprocess.Popen[str]
    environ: dict[str, str]
    client: str
    run: str = "demo"

    def order(self, text: str) -> None:
        """Tell the job something, and wait until it is done."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        while self.process.stdout.readline().strip() != f"done {text}":  # Ray prints between
            assert self.process.poll() is None

    def python(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        """Run Python where `ray://auto` is this cluster."""
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env={**self.environ, **more}, capture_output=True, text=True, timeout=120)

    def capture(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "outpace", "capture", *arguments, "--duration", "500ms", "--no-report", **more)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    folder = tmp_path_factory.mktemp("job")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sockets = tempfile.mkdtemp(prefix="ray-")  # paths of sockets must be short
    packages = os.pathsep.join((refusing(folder / "without", "tensorflow"), str(Path(outpace.__file__).parents[1])))
    ray = {"JAX_PLATFORMS": "cpu", "RAY_TMPDIR": sockets, "RAY_USAGE_STATS_ENABLED": "0"}
    environ = {**os.environ, "PYTHONPATH": packages, **ray}
    command = [sys.executable, str(HERE / "ray_job.py"), str(port), Job.run]
    with open(folder / "err", "w") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True
        )
    assert process.stdin and process.stdout
    try:
        address = process.stdout.readline().strip()
        assert address, (folder / "err").read_text()
        yield Job(process, {**environ, "RAY_ADDRESS": address}, f"ray://127.0.0.1:{port}")
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait(60)
        process.stdout.close()
        shutil.rmtree(sockets, ignore_errors=True)


def test_one_command_captures_all_workers_without_tensorflow(job: Job, tmp_path: Path) -> None:
    done = job.python("-m", "outpace", "capture", "ray://auto", "--logdir", tmp_path, "--duration", "1s", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [host["saved"] for host in found["hosts"]] == [True] * 3
    with outpace.open(tmp_path) as profile:
        assert len(profile.run.hosts) == 3
        assert all(host.steps.source.value == "marked" and len(host.steps) > 10 for host in profile.run.hosts)


def test_rays_client_finds_the_same_workers(job: Job, tmp_path: Path) -> None:
    done = job.capture(job.client, "--run", job.run, "--logdir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(find_profiles(tmp_path).files) == 3


def test_a_run_that_is_not_there_is_said_with_those_that_are(job: Job) -> None:
    done = job.capture("ray://auto", "--run", "other")
    assert done.returncode == 4
    assert done.stderr.strip() == "outpace: Workers of demo are registered in that Ray cluster, none of other."


SECOND = """
import subprocess, sys
import outpace, ray

@ray.remote(num_cpus=0)
def train():
    with outpace.ray.worker():
        command = [sys.executable, "-m", "outpace", "capture", "ray://auto"]
        return ray.get_runtime_context().get_job_id(), subprocess.run(command, capture_output=True, text=True).stderr.strip()

ray.init(log_to_driver=False)
job, said = ray.get(train.remote())
assert said == f"outpace: Workers of {job}, demo are registered in that Ray cluster. Choose one: --run demo", said
with outpace.ray.worker():  # no worker, but who asks for some
    pass
"""


def test_of_several_runs_one_is_chosen_and_a_driver_is_no_worker(job: Job) -> None:
    done = job.python("-c", SECOND)
    assert done.stderr.strip().endswith(
        "This process is no worker of Ray. Call outpace.ray.worker() in the function that Ray trains with."
    )


def test_a_run_is_chosen_of_a_cluster_only() -> None:
    with pytest.raises(UsageError, match="Give ray://auto as the address, or leave --run out"):
        capture_remote("127.0.0.1:6009", run="demo")


def test_many_hosts_are_bit_equal_in_processes_and_in_tasks(job: Job, tmp_path: Path) -> None:
    for at in range(HOSTS):
        put(host(f"node{at:02}", work=5 + at / 20, later_ns=at * 1000), session(tmp_path, 1))
    broken = tmp_path / "broken.xplane.pb"
    broken.write_bytes(b"none")
    done = job.python(HERE / "ray_hosts.py", session(tmp_path, 1), broken)
    assert done.returncode == 0, done.stderr
    right = ["digests", "failure", "lost", "fault", "report"]
    assert [line for line in done.stdout.splitlines() if line in right] == right  # Ray prints between


def test_a_worker_that_does_not_answer_is_said(job: Job, tmp_path: Path) -> None:
    job.order("stop")
    done = job.capture("ray://auto", "--logdir", tmp_path, "--timeout", "10s", "--retries", "0", "--width", "200")
    job.order("go on")
    assert done.returncode == 7, done.stderr
    assert "missing: the connection is accepted, but within 10 s no profiler server answers on it" in done.stdout
    assert len(find_profiles(tmp_path).files) == 2


def test_a_node_that_is_killed_in_the_capture_loses_no_other(job: Job, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "outpace", "capture", "ray://auto", "--logdir", str(tmp_path), "--duration", "4s"]
    asked = subprocess.Popen(
        [*command, "--no-report", "--width", "200"], env=job.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert asked.stderr and asked.stderr.readline() == "outpace: capturing 4 s on 3 workers\n"
    job.order("kill")
    out, err = asked.communicate(timeout=60)
    assert asked.returncode == 7
    assert "missing: the connection broke during the capture: the worker ended" in out
    assert "1 of 3 workers is missing from" in err
    with outpace.open(tmp_path) as profile:
        assert len(profile.run.hosts) == 2


def test_workers_that_have_ended_are_not_asked(job: Job) -> None:
    job.order("end")
    done = job.capture("ray://auto", "--retries", "0")
    assert "2 workers" not in done.stderr and "3 workers" not in done.stderr
    assert done.returncode in (4, 5), done.stderr  # the cluster notices the killed node late


def test_where_no_cluster_runs_a_sentence_says_so(job: Job) -> None:
    assert job.process.stdin
    job.process.stdin.close()
    job.process.wait(60)
    done = job.capture("ray://auto", RAY_ADDRESS="")
    assert done.returncode == 5
    assert done.stderr.startswith("outpace: No Ray cluster is to be reached: Could not find any running Ray instance.")
    for address in ("ray://auto", job.client):
        done = job.capture(address)
        assert done.returncode == 5
        assert "Connection refused. Give ray://auto on a node of the cluster, or ray://HOST:PORT of its" in done.stderr


def test_without_ray_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    packages = os.pathsep.join((refusing(tmp_path, "ray"), str(Path(outpace.__file__).parents[1])))
    command = [sys.executable, "-m", "outpace", "capture", "ray://auto"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": packages}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5
    assert done.stderr.strip() == "outpace: Ray cannot be imported here (no ray here). Install it: pip install 'outpace[ray]'"
