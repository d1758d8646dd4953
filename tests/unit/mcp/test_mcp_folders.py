"""What the folders of the protocol's server keep in: links, names, files that are no files, and
processes that read for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from outpace.hosts.host_reader import HostRequest, read_host_summary
from outpace.hosts.map import map_hosts
from outpace.mcp.folders import ServedFolders
from outpace.mcp.questions import Questions
from outpace.model import NotFoundError, OutpaceError
from outpace.store.profiles import ProfileFile
from outpace.ui.runs import path_id
from tests.linked import MORE, WAYS, Logs, by_a_second_host
from tests.strange import STRANGE


@pytest.mark.parametrize("way", [*WAYS, *MORE], ids=lambda way: way.__name__)
def test_no_link_leads_out_of_the_folders(tmp_path: Path, way: Callable[[Logs], None]) -> None:
    logs = Logs(tmp_path)
    way(logs)
    questions = Questions(ServedFolders([str(logs.inside)]))
    found = questions.runs()
    assert {run.name for run in found.runs} == (set() if way is by_a_second_host else {"custom_loop"})
    for name in ("linked", "jax_loop", str(logs.secret), "../out/plugins/profile/jax_loop", path_id(str(logs.secret))):
        with pytest.raises(NotFoundError):
            questions.verdict(name)
        with pytest.raises(NotFoundError):
            questions.compare(name, name)


@pytest.mark.parametrize("what", STRANGE)
def test_no_strange_file_stops_a_question(tmp_path: Path, what: str) -> None:
    """As a record, as a profile, as a script: the run beside it is answered, and a script that is
    none is a sentence.
    """
    logs = Logs(tmp_path)
    STRANGE[what](logs.new("strange") / "vm.xplane.pb")
    STRANGE[what](logs.run / "vm.outpace.json")
    STRANGE[what](logs.inside / "train.py")
    questions = Questions(ServedFolders([str(logs.inside)]))
    for run in questions.runs().runs:
        with contextlib.suppress(OutpaceError):  # a sentence: where the strange file is the run's own
            assert not questions.verdict(run.id).abstained
    with contextlib.suppress(OutpaceError):
        assert questions.lint("train.py").total == 0


NAMES = (
    *("train.py/..", "./../../etc/passwd", "/proc/self/environ", "\0", "a" * 5000, "~", "-", "file:///etc/passwd"),
    "plugins/profile/custom_loop/../../../../out",
)


@pytest.mark.parametrize("path", NAMES)
def test_no_name_of_a_script_leads_out(tmp_path: Path, path: str) -> None:
    logs = Logs(tmp_path)
    (logs.outside / "train.py").write_text("import keras\n")
    with pytest.raises(OutpaceError):
        Questions(ServedFolders([str(logs.inside)])).lint(path)


def test_what_a_question_reads_in_other_processes_lies_in_the_folders_too(tmp_path: Path) -> None:
    """Very many hosts are read in processes of their own: one of their profiles becomes a link
    after the run was looked at.
    """
    logs = Logs(tmp_path)
    folders = ServedFolders([str(logs.inside)])
    asked = [
        HostRequest(ProfileFile(f"h{at}", str(path))) for at, path in enumerate((next(logs.run.glob("*.pb*")), logs.profile))
    ]
    with folders.confined():
        inside, outside = map_hosts(read_host_summary, asked)
    assert inside.host == "h0" and isinstance(outside, NotFoundError) and "out of the folders" in str(outside)  # type: ignore[union-attr]
    assert [each.host for each in map_hosts(read_host_summary, asked)] == ["h0", "h1"], "where nobody is confined"  # type: ignore[union-attr]
