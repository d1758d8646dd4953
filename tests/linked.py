"""A log directory, and links that somebody has put into it, which lead to a run elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support import profile_path

RUNS = Path("plugins/profile")


class Logs:
    """A log directory with one good run, what somebody has put beside it, and a run elsewhere that
    nobody named.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inside, self.outside = folder / "in", folder / "out"
        for root, name in ((self.inside, "custom_loop"), (self.outside, "jax_loop")):
            shutil.copytree(profile_path(name), root / RUNS / name)
        self.run, self.secret = self.inside / RUNS / "custom_loop", self.outside / RUNS / "jax_loop"
        self.profile = next(self.secret.glob("*.xplane.pb*"))

    def new(self, name: str) -> Path:
        made = self.inside / RUNS / name
        made.mkdir()
        return made


def by_folder(logs: Logs) -> None:
    (logs.inside / RUNS / "linked").symlink_to(logs.secret)


def by_relative_folder(logs: Logs) -> None:
    (logs.inside / RUNS / "linked").symlink_to("../../../out/plugins/profile/jax_loop")


def by_file(logs: Logs) -> None:
    (logs.new("linked") / logs.profile.name).symlink_to(logs.profile)


def by_two_links(logs: Logs) -> None:
    (logs.inside / "step").symlink_to(logs.profile)
    (logs.new("linked") / logs.profile.name).symlink_to(logs.inside / "step")


def by_links_of_folders(logs: Logs) -> None:
    (logs.inside / "a").symlink_to(logs.folder)
    (logs.inside / RUNS / "linked").symlink_to(logs.inside / "a" / "out" / RUNS / "jax_loop")


def by_the_folder_of_runs(logs: Logs) -> None:
    (logs.inside / "other" / "plugins").mkdir(parents=True)
    (logs.inside / "other" / RUNS).symlink_to(logs.outside / RUNS)


def by_a_log_directory(logs: Logs) -> None:
    (logs.inside / "other").symlink_to(logs.outside)


def by_the_root_of_the_process(logs: Logs) -> None:
    (logs.inside / RUNS / "linked").symlink_to(f"/proc/self/root{logs.secret}")


def by_a_good_profile_with_a_foreign_record(logs: Logs) -> None:
    made = logs.new("linked")
    shutil.copy(logs.profile, made)
    (logs.outside / "record").write_text('{"schema": 1, "script": "/home/somebody/secret.py"}')
    (made / f"{logs.profile.name.partition('.')[0]}.outpace.json").symlink_to(logs.outside / "record")


def by_a_second_host(logs: Logs) -> None:
    (logs.run / f"other-{logs.profile.name}").symlink_to(logs.profile)


WAYS = (by_folder, by_relative_folder, by_file, by_two_links, by_links_of_folders, by_the_folder_of_runs, by_a_log_directory)
MORE = (by_the_root_of_the_process, by_a_good_profile_with_a_foreign_record, by_a_second_host)
