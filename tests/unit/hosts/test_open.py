"""A run of more hosts than are kept whole: a few of them, and a digest of each."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from outpace import api
from outpace.hosts import open as opening
from outpace.hosts.map import map_in_processes, map_serially
from outpace.hosts.missing import missing_device_warnings
from outpace.hosts.open import MAX_FULL_HOSTS, open_run
from outpace.metrics.cluster.host_summary import host_summaries
from outpace.model import OutputError, ProfileError
from outpace.store.logdir import find_profiles
from outpace.timeline import Run
from tests.support import opened
from tests.unit.hosts.made import host, put, session

HOSTS = MAX_FULL_HOSTS + 8


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three folders; a host is slow, one has slow input, the clock of one is wrong, one file is
    cut, one is garbage, one is missing.
    """
    root = tmp_path_factory.mktemp("many")
    odd: dict[int, dict[str, Any]] = {3: {"work": 8.5}, 9: {"wait": 3}, 12: {"ahead_ns": 3 * 10**9}}
    for at in (number for number in range(HOSTS) if number != 17):
        put(host(f"node{at:02d}", **odd.get(at, {})), session(root, 1 + at % 3))
    cut, garbage = session(root, 1 + 20 % 3) / "node20.xplane.pb", session(root, 1 + 5 % 3) / "node05.xplane.pb"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    garbage.write_bytes(b"no profile at all")
    return root


def test_each_odd_host_is_named(logdir: Path) -> None:
    profile = api.open(logdir)
    page = profile.pod()
    assert {f.host for f in page.findings} == {"node03", "node09"}
    assert page.headline.startswith("node03 is the straggler")
    assert len(page.table("clocks")["host"]) == HOSTS - 2
    said = " ".join(profile.warnings)
    for sentence in (
        f"3 folders are read as one run of {HOSTS - 1} hosts",
        "node17 is missing",
        "node05 is left out",
        "node20: ",
        f"Of {HOSTS - 2} hosts the events of 8 are in this report: of node09, node03, the slowest",
    ):
        assert sentence in said, sentence
    assert "The clock of node12 is 3.00 s ahead" in str(page.sections)
    assert {"node03", "node09"} <= {t.host for t in profile.run.hosts}
    assert profile.report().page("pod").findings


def test_processes_say_what_one_process_says(logdir: Path) -> None:
    one, other = (api.Profile(open_run(find_profiles(logdir), mapper=on)[0]) for on in (map_serially, map_in_processes))
    assert one.warnings == other.warnings
    for name in ("workers", "summary", "collectives", "clocks"):
        assert list(one.pod().table(name).records()) == list(other.pod().table(name).records())


def test_a_digest_says_what_the_whole_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(6):
        put(host(f"node{at}", work=6 + at / 10), tmp_path)
    whole = api.open(tmp_path).pod()
    monkeypatch.setattr(opening, "MAX_FULL_HOSTS", 4)
    digested = api.open(tmp_path).pod()
    assert [list(t.records()) for t in whole.tables()] == [list(t.records()) for t in digested.tables()]
    assert whole.findings == digested.findings


def test_marks_can_be_hidden_of_many_hosts_too(logdir: Path) -> None:
    run, _ = open_run(find_profiles(logdir), use_marks=False, mapper=map_serially)
    assert not any(d.has_step_numbers for d in host_summaries(run))


def test_where_none_can_be_read_the_last_says_why(tmp_path: Path) -> None:
    for at in range(MAX_FULL_HOSTS + 1):
        (tmp_path / f"h{at}.xplane.pb").write_bytes(b"nothing")
    with pytest.raises(ProfileError, match="not a TensorFlow or JAX profile"):
        api.open(tmp_path)


def test_a_full_disk_is_no_fault_of_a_host(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(function: object, items: object) -> list[Any]:
        return [OutputError("There is no room in /tmp.")] * (HOSTS - 1)

    with pytest.raises(OutputError):
        open_run(find_profiles(logdir), mapper=full)


def test_many_warnings_are_counted(tmp_path: Path) -> None:
    for at in range(MAX_FULL_HOSTS + 4):
        path = put(host(f"h{at}"), tmp_path)
        if at > 3:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes())[:-40])
            path.unlink()
    said = api.open(tmp_path).warnings
    assert any("more warnings about single hosts" in warning for warning in said)
    assert len(said) < 40


def test_a_program_of_more_devices_than_were_recorded_says_so() -> None:
    assert missing_device_warnings(opened("tpu_v6e_inference").run) == (
        "A program runs on 8 devices, of which 1 host of this run recorded 4: the profiles of other hosts are missing, "
        "or the profiler was told to leave devices out.",
    )
    assert missing_device_warnings(opened("jax_rocm_conv_8gpu").run) == ()
    assert missing_device_warnings(Run("", ())) == ()
