"""Which folders are read as one run: layouts of hosts, and runs that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace import api
from outpace.model import NotFoundError
from tests.support import profile_bytes
from tests.unit.hosts.made import host, put, session


def hosts(path: Path) -> list[str]:
    return [t.host for t in api.open(path).run.hosts]


def told(path: Path) -> str:
    return " ".join(api.open(path).warnings)


def test_session_folders_seconds_apart_are_one_run(tmp_path: Path) -> None:
    for at, name in enumerate(("node-a", "node-b", "node-c")):
        put(host(name, later_ns=at * 1_000_000), session(tmp_path, 1 + 2 * at))
    profile = api.open(tmp_path)
    assert [t.host for t in profile.run.hosts] == ["node-a", "node-b", "node-c"]
    assert profile.run.source == str(tmp_path)
    assert profile.older == 0
    assert "3 folders are read as one run of 3 hosts" in profile.warnings[0]
    assert "2026_01_01_00_00_01, 2026_01_01_00_00_03, 2026_01_01_00_00_05" in profile.warnings[0]


@pytest.mark.parametrize(
    "layout", ["host{}", "rank_{}", "dp_rank_{}", "trainer-worker-{}", "job/node0{}", "Process{}", "10.0.0.{}"]
)
def test_a_folder_for_each_rank_tells_hosts_apart_whose_files_are_called_alike(layout: str, tmp_path: Path) -> None:
    for at in range(3):
        put(host("localhost", later_ns=at * 1_000_000), session(tmp_path / layout.format(at), 1 + at))
    folder = Path(layout).name
    assert hosts(tmp_path) == [f"{folder.format(at)}/localhost" for at in range(3)]


def test_a_folder_for_each_pod_or_node_keeps_the_names_of_files(tmp_path: Path) -> None:
    for at, name in enumerate(("train-0-xk2lp", "train-1-9wqvz")):
        put(host(name), session(tmp_path / name, 1 + at))
    assert hosts(tmp_path) == ["train-0-xk2lp", "train-1-9wqvz"]


def test_records_are_read_from_where_each_host_lies(tmp_path: Path) -> None:
    for at in range(2):
        folder = session(tmp_path / f"rank_{at}", 1)
        put(host("vm"), folder)
        (folder / "vm.outpace.json").write_text("no record")
    assert told(tmp_path).count("is ignored") == 2


def test_a_folder_that_is_given_is_read_alone(tmp_path: Path) -> None:
    put(host("a"), session(tmp_path, 1))
    put(host("b"), session(tmp_path, 3))
    assert hosts(session(tmp_path, 1)) == ["a"]
    assert told(session(tmp_path, 1)) == ""


def test_a_host_that_is_in_both_makes_them_two_runs(tmp_path: Path) -> None:
    for second, names in ((1, "ab"), (2, "bc")):
        for name in names:
            put(host(name), session(tmp_path, second))
    profile = api.open(tmp_path)
    assert [t.host for t in profile.run.hosts] == ["b", "c"]
    assert (profile.older, profile.warnings) == (1, ())


@pytest.mark.parametrize("folders", [("train", "validation"), ("run1", "run2"), ("exp_a", "exp_b"), ("trial_0", "trial_1")])
def test_experiments_of_one_machine_that_overlap_are_two_runs(folders: tuple[str, str], tmp_path: Path) -> None:
    for at, folder in enumerate(folders):
        put(host("vm", later_ns=at * 1_000_000), session(tmp_path / folder, 1 + at))
    assert hosts(tmp_path) == ["vm"]


@pytest.mark.parametrize("folders", [("lr_0.1", "lr_0.01"), ("expA", "expB"), ("run1/rank_0", "run2/rank_1")])
def test_a_sweep_on_hosts_of_its_own_is_not_one_run(folders: tuple[str, str], tmp_path: Path) -> None:
    for at, (folder, name) in enumerate(zip(folders, ("node1", "node2"), strict=True)):
        put(host(name), session(tmp_path / folder, 1 + at))
    assert hosts(tmp_path) == ["node2"]


@pytest.mark.parametrize("collectives", [True, False])
@pytest.mark.parametrize(
    "folders",
    [
        ("a-worker-0", "b-worker-0"),
        ("trial1_rank_0", "trial2_rank_1"),
        ("lr0.1-rank0", "lr0.01-rank1"),
        ("task_1", "task_2"),
        ("shard1", "shard2"),
        ("seed0", "seed1"),
    ],
)
def test_ranks_of_two_jobs_are_not_of_one(folders: tuple[str, str], collectives: bool, tmp_path: Path) -> None:
    for at, folder in enumerate(folders):
        put(host(f"h-{at}", collectives=collectives), session(tmp_path / folder, 1 + at))
    assert hosts(tmp_path) == ["h-1"]


def test_folders_called_after_hosts_are_one_run_where_these_wait_for_each_other(tmp_path: Path) -> None:
    for collectives in (False, True):  # each trial of a sweep may have a container of its name, and steps of its own
        for at in range(2):
            put(host(f"seed{at}", collectives=collectives), session(tmp_path / str(collectives) / f"seed{at}", 1 + at))
        assert len(hosts(tmp_path / str(collectives))) == 1 + collectives


def test_collectives_that_drift_apart_are_those_of_two_runs(tmp_path: Path) -> None:
    put(host("a", steps=40), session(tmp_path, 1))
    put(host("b", steps=40, length=10.2), session(tmp_path, 2))
    assert hosts(tmp_path) == ["b"]


@pytest.mark.parametrize("layout", ["nid00123{}", "ip-10-0-0-{}", "ip-10-0-0-{}.ec2.internal", "chief-{}"])
def test_names_of_schedulers_and_clouds_are_ranks(layout: str, tmp_path: Path) -> None:
    for at in range(3):
        put(host("localhost", later_ns=at * 1_000_000), session(tmp_path / layout.format(at), 1 + at))
    assert hosts(tmp_path) == [f"{layout.format(at)}/localhost" for at in range(3)]


def test_the_chief_is_of_the_job_of_its_workers(tmp_path: Path) -> None:
    for at, folder in enumerate(("chief-0", "worker-0", "worker-1")):
        put(host("vm"), session(tmp_path / folder, 1 + at))
    assert hosts(tmp_path) == ["chief-0/vm", "worker-0/vm", "worker-1/vm"]


def test_what_did_not_record_at_the_same_time_is_another_run(tmp_path: Path) -> None:
    put(host("a", collectives=False), session(tmp_path, 1))
    put(host("b", collectives=False, later_ns=200_000_000), session(tmp_path, 3))
    assert hosts(tmp_path) == ["b"]
    assert api.open(tmp_path).older == 1 and told(tmp_path) == ""  # an older run is no news


def test_two_trainings_at_once_on_hosts_of_their_own_count_differently(tmp_path: Path) -> None:
    put(host("a", collectives=False, first=100), session(tmp_path, 1))
    put(host("b", collectives=False, first=5000), session(tmp_path, 1).with_name("2026_01_01_00_00_02"))
    assert hosts(tmp_path) == ["b"]
    assert (
        "was captured at the same time as 2026_01_01_00_00_02 and is not read with it: they have no collective in common"
        in told(tmp_path)
    )


def test_steps_that_no_program_counts_leave_the_time_to_say(tmp_path: Path) -> None:
    put(host("a", marked=False), session(tmp_path, 1))
    put(host("b", marked=False, later_ns=5_000_000), session(tmp_path, 2))
    assert hosts(tmp_path) == ["a", "b"]


def test_a_wrong_clock_is_seen_by_the_collectives(tmp_path: Path) -> None:
    put(host("a"), session(tmp_path, 1))
    put(host("b", ahead_ns=3 * 10**9), session(tmp_path, 4))
    assert hosts(tmp_path) == ["a", "b"]


def test_folders_of_another_hour_are_not_looked_at(tmp_path: Path) -> None:
    put(host("b"), session(tmp_path, 1))
    put(host("a"), tmp_path / "plugins/profile/2026_01_01_02_00_00")
    assert hosts(tmp_path) == ["a"]


def test_of_two_runs_before_each_other_the_hosts_that_recorded_together_are_joined(tmp_path: Path) -> None:
    for second, name, later in ((1, "b", 0), (2, "a", 0), (30, "b", 30 * 10**9), (31, "a", 30 * 10**9)):
        put(host(name, later_ns=later), session(tmp_path, second))
    profile = api.open(tmp_path)
    assert [t.host for t in profile.run.hosts] == ["a", "b"]
    assert profile.older == 2
    assert "2026_01_01_00_00_30, 2026_01_01_00_00_31" in profile.warnings[0]


def test_a_damaged_file_does_not_speak_for_its_folder(tmp_path: Path) -> None:
    put(host("a"), session(tmp_path, 1))
    whole = put(host("b"), session(tmp_path, 3)).read_bytes()
    (session(tmp_path, 3) / "c.xplane.pb").write_bytes(whole[: len(whole) // 2])
    assert hosts(tmp_path) == ["a", "b", "c"]


def test_a_folder_without_a_readable_profile_joins_nothing(tmp_path: Path) -> None:
    put(host("a"), session(tmp_path, 3))
    (folder := session(tmp_path, 1)).mkdir()
    (folder / "b.xplane.pb").write_bytes(b"no profile")
    assert hosts(tmp_path) == ["a"]


def test_real_workers_in_folders_of_their_own_are_one_run(tmp_path: Path) -> None:
    for at in range(2):
        folder = session(tmp_path / f"rank_{at}", at)
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(profile_bytes("multi_worker_strategy", f"worker{at}"))
    assert hosts(tmp_path) == ["rank_0/vm", "rank_1/vm"]
    page = api.open(tmp_path).pod()
    assert [row["worker"] for row in page.table("summary").records()] == ["rank_0/vm", "rank_1/vm"]


def test_real_runs_of_programs_that_have_nothing_to_do_with_each_other_stay_apart(tmp_path: Path) -> None:
    for at, name in enumerate(("localhost_7010", "localhost_7012")):
        (folder := session(tmp_path, at)).mkdir(parents=True)
        (folder / f"{name}.xplane.pb").write_bytes(profile_bytes("multi_host", name))
    assert hosts(tmp_path) == ["localhost_7012"]
    assert "they have no collective in common" in told(tmp_path)


def test_nothing_at_all_is_still_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        api.open(tmp_path)
