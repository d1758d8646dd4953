"""What `outpace tune` answers on many programs, stored and compared: python bench/net.py
record|compare|judge|show [NAME ...] [--corpus DIR]

The programs are those of the corpus whose truth has `tune`. Each is tuned by the real command in a
scratch copy, and its answer is one file of net/answers: exit code, time, what became of every
optimisation, the gain with its interval, the patch, and which files of the user's changed. `record`
writes the answers, `compare` runs anew and prints what differs, `judge` runs each original and its
stored patch plainly (net/alike.py) and prints what they compute differently, `show` prints the
stored answers as a table. Which patches are right stands in the truths. Run it with PYTHONPATH=src.
`compare` ends with code 1 where there is a patch where none was, a changed file, a traceback, or a
program that fails or no longer ends.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from truths import Program, add_corpus, select

HERE = Path(__file__).resolve().parent
NET = HERE / "net"
ANSWERS = NET / "answers"
EARLIER = "of an earlier training"
LONGEST, BUDGET = 300.0, 25.0  # seconds
SHORT = ("exit", "wall", "budget", "load", "headline", "gain", "traceback", "files")  # keys of an answer
ENDED = (-9, -15, 137, 143)  # exit codes of what a signal ended
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
IDS = {
    "batches kept in memory": "kept_batches",
    "workers of the PyDataset": "workers",
    "tf.function": "loop_graph",
    "jax.jit": "loop_jit",
    "graph instead of eager execution": "run_eagerly",
    "XLA": "xla",
    "no bias before batch normalisation": "conv_bias",
    "several steps per call": "steps_per_call",
    "models as graphs": "loop_models",
    "mixed bfloat16": "mixed_bfloat16",
    "mixed float16": "mixed_float16",
    "batches made ahead": "loop_ahead",
    "Hand elements over in any order": "any_order",
    "Batch before the map": "batch_before_map",
    "Cache in memory": "cache",
    "Cache before the shuffle": "cache_before_shuffle",
    "Cache in memory, shuffle behind": "cache_any_order",
    "Several elements per call of the generator": "generator_chunks",
    "Keep bytes until after spatial augmentation": "keep_uint8",
    "Keep the generator's items in memory": "kept_items",
    "Read several files at the same time": "parallel_interleave",
    "Run the map's function in parallel": "parallel_map",
    "Prepare the next batch while the model trains": "prefetch",
    "Replace Python by TensorFlow operations": "python_stages",
    "Shard before the map": "shard_early",
    "Shuffle before the map": "shuffle_before_map",
    "Cache the part of the map that is the same in every epoch": "split_map",
    "Give the pipeline threads of its own": "thread_pool",
    "Let TensorFlow vectorise the map's function": "vectorised_map",
}  # titles, as the report prints them; what has two forms (fit and loop) has one name here

Answer = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["record", "compare", "judge", "show"])
    parser.add_argument("names", nargs="*", help="programs; all of them by default")
    parser.add_argument(
        "--data", type=Path, default=Path(tempfile.gettempdir()) / "outpace-net-data", help="a folder per program"
    )
    parser.add_argument("--missing", action="store_true", help="record only what has no answer yet")
    parser.add_argument("--budget", type=float, help="seconds, instead of each program's own")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long `judge` lets a program run")
    add_corpus(parser)
    options = parser.parse_intermixed_args()
    works = {"record": record, "compare": compare, "judge": judge, "show": show}
    return works[options.work](select(options.names, options.corpus, "tune"), options)


def record(programs: list[Program], options: argparse.Namespace) -> int:
    """Tune each program and store its answer."""
    for program in programs:
        name = program.stem
        if options.missing and (ANSWERS / f"{name}.json").exists():
            continue
        answer = tuned(program, options)
        if answer["exit"] in ENDED:  # somebody else ended it
            answer = tuned(program, options)
        ANSWERS.mkdir(exist_ok=True)
        (ANSWERS / f"{name}.json").write_text(as_text(answer), encoding="utf-8")
        print(line_of(name, answer), flush=True)
    return 0


def as_text(answer: Answer) -> str:
    """An answer as JSON: what is short in one line, the rest in a line each."""
    rows = [", ".join(_entry(*item) for item in answer.items() if item[0] in SHORT)]
    rows += [_entry(*item) for item in answer.items() if item[0] not in SHORT]
    return "{\n " + ",\n ".join(rows) + "\n}\n"


def _entry(key: str, value: Any) -> str:
    return f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"


def compare(programs: list[Program], options: argparse.Namespace) -> int:
    """Tune each program anew and print what differs from its stored answer."""
    unsafe, served, wrong, same = 0, [], [], 0
    print(f"{'program':40} {'what':26} {'stored':42} now")
    for program in programs:
        name, before = program.stem, stored(program)
        if before is None:
            print(f"{name:40} has no stored answer", flush=True)
            continue
        now = tuned(program, options)
        rows = differences(before, now)
        for dangerous, what, old, new in rows:
            print(f"{name:40} {('! ' if dangerous else '') + what:26} {old:42} {new}", flush=True)
        same += not rows
        unsafe += any(row[0] for row in rows)
        mark = program.truth["tune"].get("patch")
        if mark == "right":
            served.append(bool(now["patch"]))
        elif mark == "wrong":
            wrong.append(bool(now["patch"]))
    print(
        f"\n{len(programs)} programs: {same} with the same answer, {unsafe} with a difference that endangers the user's program or files (!)"
    )
    print(
        f"right patches still served: {sum(served)} of {len(served)}; wrong patches still written: {sum(wrong)} of {len(wrong)}"
    )
    return 1 if unsafe else 0


def judge(programs: list[Program], options: argparse.Namespace) -> int:
    """Run each original and its patched script plainly, under fixed seeds and for a few epochs, and
    print what they compute differently.
    """
    for program in programs:
        answer = stored(program)
        if answer is None or not answer["patch"]:
            continue
        print(f"{program.stem:40} {difference(program, answer['patch'], options)}", flush=True)
    return 0


def show(programs: list[Program], options: argparse.Namespace) -> int:
    """The stored answers as a table."""
    print("| program | exit | wall | kept | gain | patch | files |\n|---|---|---|---|---|---|---|")
    for program in programs:
        name, answer = program.stem, stored(program)
        if answer is None:
            print(f"| `{name}` | not recorded | | | | | |")
            continue
        kept = ", ".join(key for key, said in answer["optimisations"].items() if said["word"] == "kept") or "–"
        mark = program.truth["tune"].get("patch", "not judged") if answer["patch"] else "none"
        files = "; ".join(f"{kind} {', '.join(names)}" for kind, names in answer["files"].items() if names) or "untouched"
        print(f"| `{name}` | {answer['exit']} | {answer['wall']:.0f} s | {kept} | {gain_of(answer)} | {mark} | {files} |")
    return 0


def tuned(program: Program, options: argparse.Namespace) -> Answer:
    """The answer of `outpace tune` for a program."""
    with tempfile.TemporaryDirectory(prefix="outpace-net-") as scratch:
        folder, data = Path(scratch) / "project", options.data / program.stem
        make(folder, program)
        new = not data.exists()
        before, began = hashes(folder, data), time.monotonic()
        budget = options.budget or program.truth["tune"].get("budget", BUDGET)
        command = ["tune", "--budget", f"{budget:g}s", "--patch", "net.patch", "--json", program.script.name]
        code, out, err = outpace([*command, *arguments(program, data)], folder)
        wall, after = time.monotonic() - began, hashes(folder, data)
        path = folder / "net.patch"
        patch = path.read_text(encoding="utf-8") if path.exists() else ""
        roots = {str(folder): ".", str(data): "DATA"}
    changed = sorted(key for key, value in before.items() if after.get(key) != value)
    made = sorted(
        key for key in after if key not in before and Path(key).name != "net.patch" and not (new and key.startswith(str(data)))
    )
    report = document(out)
    return {
        "exit": code,
        "wall": round(wall, 1),
        "budget": budget,
        "load": round(os.getloadavg()[0], 1),
        "headline": plain(report.get("headline", ""), roots),
        "gain": gain(report.get("headline", "")),
        "optimisations": optimisations(report, roots),
        "said": said(err, roots),
        "traceback": traceback(err, roots),
        "patch": patch,
        "files": {"changed": [short(key, roots) for key in changed], "new": sorted({plain(key, roots) for key in made})},
    }


def make(folder: Path, program: Program) -> None:
    """The scratch copy: the script, and files of an earlier training under the names that it
    writes.
    """
    folder.mkdir()
    (folder / program.script.name).write_bytes(program.script.read_bytes())
    for name in program.truth["tune"].get("files", []):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(EARLIER, encoding="utf-8")


def arguments(program: Program, data: Path) -> list[str]:
    return [each.replace("{data}", str(data)) for each in program.truth["tune"].get("args", [])]


def outpace(command: list[str], folder: Path) -> tuple[int | str, str, str]:
    """Exit code, stdout and stderr; what it started ends with it."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "outpace", *command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=environment, start_new_session=True)
        code: int | str
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = "timeout"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def hashes(*folders: Path) -> dict[str, str]:
    """Of all files below folders."""
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def document(out: str) -> dict[str, Any]:
    """The JSON report, which stands behind what the script itself printed; an empty one where there
    is none.
    """
    for start in (found.start() for found in re.finditer(r"^\{", out, re.MULTILINE)):
        with contextlib.suppress(ValueError):
            report = json.JSONDecoder().raw_decode(out[start:])[0]
            if "headline" in report:
                return dict(report)
    return {}


def optimisations(report: dict[str, Any], roots: dict[str, str]) -> dict[str, Any]:
    """By id: the word, the sentence with its numbers replaced, and the ratio with its interval."""
    table = report.get("tools", {}).get("tune", {}).get("tables", {}).get("tried")
    if not table:
        return {}
    names, found = [column["name"] for column in table["columns"]], {}
    for values in table["rows"]:
        row = dict(zip(names, values, strict=True))
        sentence = " ".join(plain(part, roots) for part in (row["why"], row["verdict"]) if part)
        ratio = [round(row[key], 3) for key in ("ratio", "low", "high")] if row["ratio"] is not None else None
        found[IDS.get(row["practice"], row["practice"])] = {"word": row["outcome"], "sentence": sentence, "ratio": ratio}
    return found


def gain(headline: str) -> list[float] | None:
    """The stated speed-up, with its interval."""
    found = re.search(r"([\d.,]+)x\b.{0,80}?95% CI ([\d.,]+?) to ([\d.,]+\d)", headline)
    return [float(each.replace(",", "")) for each in found.groups()] if found else None


def plain(text: str, roots: dict[str, str]) -> str:
    """A sentence with N for its numbers, and no folder of this run."""
    return NUMBER.sub("N", short(text, roots))


def short(text: str, roots: dict[str, str]) -> str:
    """A text without folders of this run or of this machine."""
    for root, name in {
        **roots,
        str(HERE.parent): ".",
        sys.prefix: "VENV",
        sys.base_prefix: "PYTHON",
        str(Path.home()): "~",
    }.items():
        text = text.replace(f"{root}/", f"{name}/" if name != "." else "")
    return text


def said(err: str, roots: dict[str, str]) -> list[str]:
    """The last things that Outpace said beside its report."""
    lines = [line.removeprefix("outpace: ") for line in err.splitlines() if line.startswith("outpace: ")]
    return [plain(line, roots) for line in lines[-8:]]


def traceback(err: str, roots: dict[str, str]) -> str:
    """The last traceback, if there is one."""
    at = err.rfind("Traceback (most recent call last)")
    return short(err[at : at + 3000], roots) if at >= 0 else ""


def stored(program: Program) -> Answer | None:
    path = ANSWERS / f"{program.stem}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def differences(before: Answer, now: Answer) -> list[tuple[bool, str, str, str]]:
    """Rows of: whether it endangers the user, what differs, how it was, how it is."""
    rows = []
    if before["exit"] != now["exit"]:
        rows.append((now["exit"] in (1, "timeout"), "exit code", str(before["exit"]), str(now["exit"])))
    if bool(before["traceback"]) != bool(now["traceback"]):
        rows.append((bool(now["traceback"]), "traceback", last_line(before["traceback"]), last_line(now["traceback"])))
    for kind in ("changed", "new"):
        old, new = before["files"][kind], now["files"][kind]
        if old != new:
            rows.append((bool(set(new) - set(old)), f"{kind} files", ", ".join(old) or "none", ", ".join(new) or "none"))
    if before["patch"] != now["patch"]:
        dangerous = not before["patch"]
        kind = "patch" if NUMBER.sub("N", before["patch"]) != NUMBER.sub("N", now["patch"]) else "patch, in numbers"
        rows.append((dangerous, kind, patch_line(before["patch"]), patch_line(now["patch"])))
    for key in [*before["optimisations"], *(key for key in now["optimisations"] if key not in before["optimisations"])]:
        old, new = (answer["optimisations"].get(key, {}).get("word", "not offered") for answer in (before, now))
        if old != new:
            rows.append((False, key, old, new))
    if bool(before["gain"]) != bool(now["gain"]) or (before["gain"] and apart(before["gain"], now["gain"])):
        rows.append((False, "gain", gain_of(before), gain_of(now)))
    return rows


def apart(one: list[float], other: list[float]) -> bool:
    """Whether each ratio lies outside of the other's interval."""
    return not one[1] <= other[0] <= one[2] and not other[1] <= one[0] <= other[2]


def gain_of(answer: Answer) -> str:
    found = answer["gain"]
    return f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]" if found else "–"


def patch_line(patch: str) -> str:
    added = sum(line.startswith("+") for line in patch.splitlines()) - patch.count("\n+++ ")
    return f"{added} lines added ({digest(patch)})" if patch else "none"


def digest(patch: str) -> str:
    """What the marks know a patch by."""
    return hashlib.sha256(patch.encode()).hexdigest()[:8]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1][:100] if text.strip() else "none"


def line_of(name: str, answer: Answer) -> str:
    kept = ", ".join(key for key, found in answer["optimisations"].items() if found["word"] == "kept") or "nothing"
    files = "; ".join(f"{kind} {names}" for kind, names in answer["files"].items() if names)
    parts = [
        f"exit {answer['exit']}",
        f"{answer['wall']:.0f} s",
        f"kept {kept}",
        gain_of(answer),
        f"patch: {patch_line(answer['patch'])}",
    ]
    return f"{name:40} {'; '.join([*parts, *([files] if files else []), *(['TRACEBACK'] if answer['traceback'] else [])])}"


def difference(program: Program, patch: str, options: argparse.Namespace) -> str:
    """What the patched script computes otherwise, in a line; of a `fit` also what the original does
    if its weights are nudged by 1e-7.
    """
    with tempfile.TemporaryDirectory(prefix="outpace-net-") as scratch:
        sides = {"original": "", "patched": patch}
        if ".fit(" in program.script.read_text(encoding="utf-8"):
            sides["nudged"] = ""
        for side, diff in sides.items():
            fault = ran(
                Path(scratch) / side,
                program,
                diff,
                arguments(program, options.data / program.stem),
                options.seconds,
                side == "nudged",
            )
            if fault:
                return f"the {side} script {fault}"
        states = [str(Path(scratch) / f"{side}.pickle") for side in sides]
        lines = []
        for other in states[1:]:
            command = [sys.executable, str(NET / "alike.py"), "--compare", states[0], other]
            lines.append(subprocess.run(command, text=True, capture_output=True, check=False).stdout.strip())
    return f"\n{'':40} nudged: ".join(lines)


def ran(folder: Path, program: Program, patch: str, args: list[str], seconds: float, nudged: bool) -> str:
    """Run one side in a folder of its own, its state beside that; what went wrong."""
    make(folder, program)
    script = folder / program.script.name
    if patch:
        done = subprocess.run(["patch", "-s", "-p0"], cwd=folder, input=patch, text=True, capture_output=True, check=False)
        if done.returncode:
            return f"takes no patch: {done.stdout} {done.stderr}"
    text = script.read_text(encoding="utf-8")
    for old, new in program.truth["tune"].get("short", []):
        text = text.replace(old, new)
    script.write_text(text, encoding="utf-8")
    state = folder.with_suffix(".pickle")
    command = [sys.executable, str(NET / "alike.py"), str(state), script.name, *args]
    environment = {**os.environ, **({"NUDGED": "1"} if nudged else {})}
    try:
        done = subprocess.run(
            command, cwd=folder, text=True, capture_output=True, timeout=seconds, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"did not end in {seconds:g} s"
    return "" if state.exists() else f"failed: {done.stderr[-500:]}"


if __name__ == "__main__":
    sys.exit(main())
