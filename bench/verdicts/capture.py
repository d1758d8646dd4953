"""Captures for bench/verdicts: python bench/verdicts/capture.py OUT [--programs NAME ...] [--part aa changes shifts core]

Each program of `programs/` is captured by `outpace profile` as a user would, one capture at a time:
  aa       12 times as it is, four of them beside a neighbour (`neighbours.py`), the three in turn
  changes  in eight rounds, each the program as it is and with every one of its changes, in drawn order
  shifts   likewise with its cost shifts, which move work and add none
  core     once on one core
What is there is kept, so that a campaign can go on where it was cut off; a failure is a row too, until its folder is removed. Each capture is a
folder OUT/PART/PROGRAM/VARIANT-ROUND with the log directory and `row.json`, which says how many cores others kept busy meanwhile (`others`).
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from neighbours import NEIGHBOURS, beside

PROGRAMS = Path(__file__).parent / "programs"
PARTS = ("aa", "changes", "shifts", "core")
BASE = ""  # what CHANGE says of the program as it is
CAPTURES, EVERY = 12, 3  # of each program as it is; every third has a neighbour
ROUNDS = 8
SECONDS = 240  # after which a capture has failed
USUAL = 12.0  # seconds of a capture, before any was made


@dataclass(frozen=True)
class Shot:
    """One capture to make. change: what the program is told to do beside its own work."""

    part: str
    program: str
    change: str
    round: int
    neighbour: str = ""

    def folder(self, out: Path) -> Path:
        """Where it is kept."""
        return out / self.part / self.program / f"{self.change or 'base'}-{self.round}"


def truth(program: str, folder: Path = PROGRAMS) -> dict[str, Any]:
    """What the changes and shifts of a program are: written before any comparison was read."""
    found: dict[str, Any] = json.loads((folder / f"{program}.json").read_text(encoding="utf-8"))
    return found


def planned(programs: list[str], part: str, folder: Path = PROGRAMS) -> Iterator[Shot]:
    """The captures of a part, in the order in which they are made: rounds over all programs, each in an order of its own."""
    for number in range({"aa": CAPTURES, "core": 1}.get(part, ROUNDS)):
        draw = random.Random(f"{part} {number}")
        for program in draw.sample(programs, len(programs)):
            variants = [BASE]
            if part in ("changes", "shifts"):
                changes = list(truth(program, folder).get(part, {}))
                variants = draw.sample([BASE, *changes], len(changes) + 1) if changes else []
            for change in variants:
                yield Shot(part, program, change, number, _neighbour(programs.index(program), number) if part == "aa" else "")


def _neighbour(program: int, number: int) -> str:
    """The neighbour of a capture, "" for two thirds of them: in turn within a program and from program to program."""
    names = list(NEIGHBOURS)
    return names[(number // EVERY + program) % len(names)] if number % EVERY == EVERY - 1 else ""


def captured(shot: Shot, out: Path, programs: Path) -> dict[str, Any]:
    """Make one capture, and its row."""
    folder = shot.folder(out)
    shutil.rmtree(folder, ignore_errors=True)  # of a campaign that was cut off
    folder.mkdir(parents=True)
    script = (programs / f"{shot.program}.py").resolve()
    command = [sys.executable, "-m", "outpace.cli", "profile", "--logdir", str(folder.resolve()), str(script)]
    if shot.part == "core":
        command = ["taskset", "-c", "0", *command]
    load, began, busy = os.getloadavg()[0], time.time(), _others()
    with tempfile.TemporaryDirectory() as scratch, beside(shot.neighbour, folder):
        failed = _run(command, {**os.environ, "CHANGE": shot.change}, scratch)
    if not failed and not any(folder.rglob("*.xplane.pb")):
        failed = "no profile"
    seconds = time.time() - began
    told = {"began": began, "seconds": seconds, "load": load, "others": (_others() - busy) / seconds, "failed": failed}
    row = {**asdict(shot), **told}
    (folder / "row.json").write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return row


def _others() -> float:
    """Processor seconds of this machine since it began that were no capture's or neighbour's, those that its host took included."""
    user, nice, system, _, _, interrupts, soft, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")
    return busy - ours.ru_utime - ours.ru_stime


def _run(command: list[str], environment: dict[str, str], folder: str) -> str:
    """Run a command, and say why it failed; "" where it did not."""
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    said = done.stderr.strip().splitlines() or [""]
    return f"exit code {done.returncode}: {said[-1]}" if done.returncode else ""


def rows(out: Path) -> list[dict[str, Any]]:
    """The rows of all captures that were made, by part, program, change and round."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in out.glob("*/*/*/row.json")]
    return sorted(found, key=lambda row: (row["part"], row["program"], row["change"], row["round"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--programs", nargs="*", metavar="NAME", help="of these alone; all by default")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--folder", type=Path, default=PROGRAMS, help="where the programs are")
    options = parser.parse_args()
    every = sorted(file.stem for file in options.folder.glob("*.json"))
    wanted = set(options.programs or every)
    shots = [shot for part in options.part for shot in planned(every, part, options.folder) if shot.program in wanted]
    left = [shot for shot in shots if not (shot.folder(options.out) / "row.json").exists()]
    taken = [row["seconds"] for row in rows(options.out)] if options.out.exists() else []
    print(f"{len(left)} of {len(shots)} captures to make, about {len(left) * (fmean(taken) if taken else USUAL) / 3600:.1f} h")
    for number, shot in enumerate(left, 1):
        row = captured(shot, options.out, options.folder)
        taken.append(row["seconds"])
        beside_whom = f" beside {shot.neighbour}" if shot.neighbour else ""
        told = f"{shot.part} {shot.program} {shot.change or 'base'} round {shot.round}{beside_whom}"
        rest = (len(left) - number) * fmean(taken[-50:]) / 60
        print(f"{number}/{len(left)} {told}: {row['seconds']:.1f} s {row['failed']}; {rest:.0f} min left", flush=True)


if __name__ == "__main__":
    main()
