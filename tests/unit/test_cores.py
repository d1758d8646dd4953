"""The cores that a process may use: affinity, and the quotas of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace import _cpus, _native
from outpace._cpus import available_cpus, half_precision_flags


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/", {"cpu.max": "400000 100000"}, 4),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 64),
        ("0::/", {"cpu.max": "what"}, 64),
        ("0::/", {}, 64),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),  # of a group around it
        ("0::/docker/1234", {"cpu.max": "200000 100000"}, 2),  # a path of the machine's, seen from inside
        ("3:cpu,cpuacct:/\n0::/", {"cpu,cpuacct/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 2),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("4:memory:/", {"memory/cpu.cfs_quota_us": "100000", "memory/cpu.cfs_period_us": "100000"}, 64),
    ],
)
def test_quotas_of_both_kinds_of_control_groups(
    own: str, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cpus, "affinity_cpus", lambda: 64)
    (tmp_path / "own").write_text(own + "\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_cpus(str(tmp_path / "groups"), str(tmp_path / "own")) == cores


def test_the_core_starts_no_more_threads_than_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "available_cpus", lambda: 2)
    assert _native.thread_count() == 2


def test_instructions_for_16_bits_are_whole_words(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags\t\t: fpu avx512_bf16_not amx_bf16 avx2\n")
    assert half_precision_flags(str(info)) == ("amx_bf16",)
    assert half_precision_flags(str(tmp_path / "none")) == ()
