"""Do the Python samples of a capture agree with py-spy, what do they leave unnamed, and what do they cost?
    python bench/sampling.py [SCRIPT ...] [--seconds S] [--unnamed] [--cost]

Every script is captured by `outpace profile --seconds S`; while the capture runs, py-spy (`pip install py-spy`) samples the same process for
the same seconds. Compared is, for every line of the script, the share of the training thread's time in which it was the innermost line of the
script. Needs the right to trace processes (root, or `sysctl kernel.yama.ptrace_scope=0`), and scripts that train at least S + 5 seconds.

`--unnamed`: the share of the step that is "all others" and has no function, of all programs in bench/programs.

`--cost`: blocks of a fixed piece of Python, 40 frames deep, with and without the sampler in turn; the median of the ratios of each block to
its neighbours, with a 95 % bootstrap interval, at the rate of the first five seconds and at that of later ones.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from compare import interval

import outpace
from outpace.capture import ticks
from outpace.capture.sampler import FrameSampler
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.facts.python_lines import python_lines
from outpace.model import Category

PROGRAMS = Path(__file__).parent / "programs"
BLOCKS = 40
SHOWN = 0.01  # share from which a line is printed
_PLACE = re.compile(r" \((.*):(\d+)\)$")
Shares = dict[int, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--unnamed", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--seconds", type=float, default=35.0, help="of the capture; py-spy looks for three seconds less")
    options = parser.parse_args()
    if options.cost:
        cost()
    if options.unnamed:
        unnamed()
    if not options.scripts:
        return
    worst = [compare(script.resolve(), options.seconds) for script in options.scripts]
    close = sum(difference <= 0.05 for difference in worst)
    print(f"{close} of {len(worst)} programs agree within 5 points; the largest difference is {max(worst):.1%}")


def unnamed() -> None:
    """Print, for every program, "all others" as a share of the step, and what of it no sample gives a function to."""
    with tempfile.TemporaryDirectory() as folder:
        for program in sorted(PROGRAMS.glob("*.py")):
            logdir = f"{folder}/profiles/{program.stem}"
            command = [sys.executable, "-m", "outpace.cli", "profile", "--logdir", logdir, str(program), folder]
            subprocess.run(command, capture_output=True, check=True)
            run = outpace.open(logdir).run
            breakdown = step_breakdown(run)
            spent = {category: int(breakdown.category(category, breakdown.whole).sum()) for category in Category}
            others = spent[Category.ALL_OTHERS] / sum(spent.values())
            named = sum(row["untraced_share"] for row in python_lines(run).records() if row["function"] or row["below"])
            print(
                f"{program.stem:16} all others {others:5.1%} of the step, unnamed {max(0.0, others - named):5.1%}", flush=True
            )


def compare(script: Path, seconds: float) -> float:
    """Print one program's lines; returns the largest difference of two shares."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, looked, took = sampled(script, seconds, Path(folder))
    apart = {line: abs(ours.get(line, 0.0) - theirs.get(line, 0.0)) for line in {*ours, *theirs}}
    largest = max(apart.values(), default=1.0)
    print(f"{script.name}: {looked} looks in {took:.0f} s, largest difference {largest:.1%}")
    for line in sorted(apart, key=lambda at: -max(ours.get(at, 0.0), theirs.get(at, 0.0))):
        if max(ours.get(line, 0.0), theirs.get(line, 0.0)) >= SHOWN:
            print(f"    line {line:4}  Outpace {ours.get(line, 0.0):6.1%}  py-spy {theirs.get(line, 0.0):6.1%}")
    return largest


def sampled(script: Path, seconds: float, folder: Path) -> tuple[Shares, Shares, int, float]:
    """Shares by line, of Outpace and of py-spy; how often Outpace looked, and for how many seconds."""
    command = [
        sys.executable,
        "-m",
        "outpace.cli",
        "profile",
        "--seconds",
        str(seconds),
        "--json",
        "--logdir",
        str(folder / "log"),
    ]
    with open(folder / "out", "w") as out:
        capture = subprocess.Popen([*command, str(script)], stdout=out, stderr=subprocess.PIPE, text=True)
        assert capture.stderr is not None
        for text in capture.stderr:
            if "capturing" in text:
                break
        else:
            raise SystemExit(f"{script.name}: no capture began")
        time.sleep(1)
        began = time.time_ns()
        spy = [
            "py-spy",
            "record",
            "-p",
            str(trainer(capture.pid)),
            "-d",
            str(int(seconds - 3)),
            "-r",
            "100",
            "-f",
            "raw",
            "-i",
            "-t",
        ]
        subprocess.run([*spy, "-o", str(folder / "spy")], capture_output=True, check=True)
        ended = time.time_ns()
        capture.stderr.read()
        capture.wait()
    record = json.loads(next((folder / "log").rglob("*.outpace.json")).read_text())["python_samples"]
    ours, looked = of_record(record, script, began, ended)
    return ours, of_spy((folder / "spy").read_text(), script), looked, (ended - began) / 1e9


def cost() -> None:
    """Print what the sampler adds to a step, at both of its rates."""
    for said, slower in (("first five seconds, 101 looks a second", 10**15), ("later, 50 looks a second", 0)):
        ticks.SLOWER_AFTER_NS = slower
        work(40)
        ratios = []
        before = work(40)
        for _ in range(BLOCKS):
            sampler = FrameSampler()
            sampler.start()
            during = work(40)
            sampler.stop()
            after = work(40)
            ratios.append(2 * during / (before + after))
            before = after
        middle, low, high = interval(ratios)
        print(f"{said}: {middle - 1:+.2%} [{low - 1:+.2%}, {high - 1:+.2%}]")


def work(depth: int) -> float:
    """Seconds that a fixed piece of Python takes at the end of a deep stack."""
    if depth:
        return work(depth - 1)
    time.sleep(0.05)  # alike before each block; the slower rate begins with the second look
    began = time.perf_counter()
    for _ in range(12):
        sum(number * number for number in range(1_000_000))
    return time.perf_counter() - began


def trainer(pid: int) -> int:
    """The process that trains: the last of the chain of first children that Python started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return trainer(int(children[0])) if children else pid


def of_record(record: dict[str, list[list[int]]], script: Path, began: int, ended: int) -> tuple[Shares, int]:
    """Shares by line from the capture's record, of the samples between two moments (Unix ns), and how many these are."""
    time_of: Counter[int] = Counter()
    base, looked = int(str(record["base_unix_ns"])), 0
    for moment, weight, stack in record["samples"]:
        if began <= base + moment < ended:
            looked += 1
            frames = ((record["frames"][frame][0], line) for frame, line in reversed(record["stacks"][stack]))  # type: ignore[misc]
            time_of[next((line for file, line in frames if Path(str(file)).name == script.name), 0)] += weight
    return shares(time_of), looked


def of_spy(text: str, script: Path) -> Shares:
    """Shares by line from py-spy's folded stacks of the main thread."""
    count: Counter[int] = Counter()
    for row in text.splitlines():
        stack, _, number = row.rpartition(" ")
        frames = stack.split(";")
        if "MainThread" not in frames[0]:
            continue
        places = (found for frame in reversed(frames) if (found := _PLACE.search(frame)))
        count[next((int(place[2]) for place in places if Path(place[1]).name == script.name), 0)] += int(number)
    return shares(count)


def shares(counted: Counter[int]) -> Shares:
    """Each of the whole."""
    whole = sum(counted.values())
    return {line: number / whole for line, number in counted.items()} if whole else {}


if __name__ == "__main__":
    main()
