"""Does `outpace tune` serve every fit? python bench/tune.py [SCRIPT ...] [--race] [--pairs N] [--runs N] [--data FOLDER]

Each script (by default those of bench/programs/any_fit) is tuned once, as a user would: default budget, with a patch. Printed are the exit
code, how long the command took, what was kept with its interval, and whether files of the script's changed. `--race`: the patched script is
then raced against the original, each in a process of its own, and the interval of that is printed beside the stated one. `--pairs`: both
are run plainly, without Outpace, in turn (plain_fit.py), and the interval of these pairs is printed. `--runs`: each is tuned so often.
Takes two to four minutes per script, and one more with `--race`. Run it with PYTHONPATH=src, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import outpace as installed
from outpace.tune.trial.statistics import student

PROGRAMS = Path(__file__).parent / "programs" / "any_fit"
LONGEST = 600.0  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, help="they get the folder of their data as their only argument")
    parser.add_argument("--race", action="store_true", help="race the patched scripts against the originals")
    parser.add_argument("--pairs", type=int, default=0, help="plain runs of the original and of the patched script, in turn")
    parser.add_argument("--runs", type=int, default=1, help="how often each script is tuned; the last patch is raced")
    parser.add_argument("--data", type=Path, help="where the data are, or are made; a folder per script")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for script in options.scripts or sorted(PROGRAMS.glob("*.py")):
            folder = Path(scratch) / script.stem
            folder.mkdir()
            data = (options.data or Path(scratch) / "data") / script.stem
            (folder / "train.py").write_bytes(script.read_bytes())
            for _ in range(options.runs):
                (folder / "tuned.diff").unlink(missing_ok=True)
                print(f"{script.stem:24} {tuned(folder, data)}", flush=True)
            if not (folder / "tuned.diff").exists():
                continue
            subprocess.run(["patch", "-s", "-o", "patched.py", "train.py", "tuned.diff"], cwd=folder, check=True)
            if options.race:
                print(f"{'':24} raced plainly: {raced(folder, data)}", flush=True)
            if options.pairs:
                print(f"{'':24} {options.pairs} plain pairs: {paired(folder, data, options.pairs)}", flush=True)


def tuned(folder: Path, data: Path) -> str:
    """Tune the script of a folder; what came of it, in a line."""
    before, began = hashes(data), time.monotonic()
    done = outpace("tune", "--json", "--patch", "tuned.diff", "train.py", str(data), folder=folder)
    took, after = time.monotonic() - began, hashes(data)
    changed = [name for name, value in before.items() if after.get(name) != value]
    left = sorted({path.name for path in folder.iterdir()} - {"train.py", "tuned.diff"})
    files = f"; CHANGED {changed}" if changed else f"; LEFT {left}" if left else ""
    if done.returncode:
        return f"exit code {done.returncode} in {took:.0f} s: {' '.join(done.stderr.splitlines()[-1:])}{files}"
    report = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]
    patched = "patched" if (folder / "tuned.diff").exists() else "no patch"
    return f"{took:4.0f} s, {patched}: {report['headline']}{files}"


def raced(folder: Path, data: Path) -> str:
    """The race of the patched script against the original."""
    done = outpace("race", f"train.py {data}", f"patched.py {data}", "--budget", "45s", "--json", folder=folder)
    if done.returncode:
        return f"exit code {done.returncode}: {' '.join(done.stderr.splitlines()[-1:])}"
    return str(json.loads(done.stdout)["headline"])


def paired(folder: Path, data: Path, pairs: int) -> str:
    """The ratio of the original's step to the patched script's, of pairs that run one after the other, with its 95 % interval."""
    logs = []
    for number in range(pairs):
        order = ("train.py", "patched.py") if number % 2 else ("patched.py", "train.py")
        seconds = {script: plain(script, folder, data) for script in order}
        logs.append(math.log(seconds["train.py"] / seconds["patched.py"]))
    middle, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(pairs)
    low, high = (math.exp(middle + side * student(0.95, pairs - 1) * error) for side in (-1, 1))
    return f"{math.exp(middle):.2f} [{low:.2f}, {high:.2f}]: {', '.join(f'{math.exp(each):.2f}' for each in logs)}"


def plain(script: str, folder: Path, data: Path) -> float:
    """Seconds of a step of a script."""
    command = [sys.executable, str(Path(__file__).with_name("plain_fit.py").resolve()), script, str(data)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("seconds of a step: ")]
    if not found:
        raise SystemExit(f"{script} was not timed: {done.stderr[-1000:]}")
    return float(found[-1].rpartition(" ")[2])


def outpace(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(installed.__file__).resolve().parents[1])}
    command = [sys.executable, "-m", "outpace", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False, env=environment)


def hashes(folder: Path) -> dict[str, str]:
    """Of all files below a folder."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
