"""`python ray_hosts.py FOLDER BROKEN_FILE` reads many hosts in processes and in Ray tasks."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path

import outpace
from outpace.hosts.host_reader import HostRequest, read_host_summary
from outpace.hosts.map import map_hosts, map_in_processes
from outpace.model import OutpaceError, ProfileError
from outpace.report import json_
from outpace.store.logdir import find_profiles


def dies(item: int) -> int:
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def faulty(item: int) -> int:
    raise KeyError(item)


def main(folder: Path, broken: Path) -> None:
    asked = [HostRequest(file) for file in find_profiles(folder).files]
    if [pickle.dumps(each) for each in map_hosts(read_host_summary, asked, outpace.ray.tasks)] == [
        pickle.dumps(each) for each in map_hosts(read_host_summary, asked, map_in_processes)
    ]:
        print("digests")

    failed = map_hosts(read_host_summary, [HostRequest(find_profiles(broken).files[0])], outpace.ray.tasks)
    if isinstance(failed[0], ProfileError):
        print("failure")
    lost = map_hosts(dies, [0, 1, 2], outpace.ray.tasks)
    if isinstance(lost[1], OutpaceError) and [lost[0], lost[2]] == [0, 2]:
        print("lost")
    try:
        map_hosts(faulty, [0], outpace.ray.tasks)
    except KeyError:
        print("fault")

    there, here = (json_.encode_report(outpace.open(folder, on=on).report()) for on in (outpace.ray.tasks, map_in_processes))
    if json.dumps(there) == json.dumps(here):
        print("report")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
