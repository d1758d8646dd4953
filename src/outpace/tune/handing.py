"""Files that a guarded process hands over: it writes them into the command's folder, and the command puts them where the user wants them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.capture.recording import tell
from outpace.model.errors import OutputError
from outpace.model.files import whole

_NAME = "handed.json"


@dataclass(frozen=True)
class Handed:
    """One file. private: where it stands; place: where it goes; what: its name in messages; said: told once it is there (of several, with the
    last one); new: nothing may stand there."""

    private: str
    place: str
    what: str
    said: str
    new: bool = False


def hand_over(folder: str, files: Sequence[Handed], last: str) -> None:
    """In the guarded process: leave a list of files for the command, and the last line that it tells."""
    rows = [[each.private, each.place, each.what, each.said, each.new] for each in files]
    with whole(os.path.join(folder, _NAME), "The list of files") as file:
        file.write(json.dumps({"files": rows, "last": last}).encode())


def delivered(folder: str) -> bool:
    """In the command: put what a process left to its places, and say where. Whether all could be written: one that cannot keeps no other from
    being written."""
    try:
        with open(os.path.join(folder, _NAME), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return True
    told = [_put(Handed(*row)) for row in found["files"]]
    if found["last"]:
        tell(found["last"])
    return all(told)


def _put(handed: Handed) -> bool:
    from outpace.tune.patch.make import require_new

    try:
        if handed.new:
            require_new(Path(handed.place))
        with open(handed.private, "rb") as file, whole(handed.place, handed.what) as target:
            shutil.copyfileobj(file, target)
    except OutputError as error:
        tell(str(error))
        return False
    if handed.said:
        tell(handed.said)
    return True
