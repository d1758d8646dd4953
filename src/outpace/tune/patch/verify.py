"""Runs the patched program beside the one as it is, each in a process of its own up to its first `fit`, and compares what `fit` got."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outpace.model.units import counted
from outpace.tune.data.verify import EPOCHS, Difference, Risk, Verified
from outpace.tune.patch.calls import collapsed
from outpace.tune.patch.make import SourcePatch
from outpace.tune.purity.evidence import same

STEP_ONLY = (
    "It changes the training step alone, which was checked; the batches were not compared, for two runs of the program as it is read "
    "different ones."
)
STEP_OF_LOOP = "It changes the function of the step alone, whose results were compared; the loop reads no data set of tf.data."
SAME_NUMBERS = "The numbers that its first {steps} steps return are the same but for rounding, under the same seeds."
ROUNDING = 1e-3  # of a number
ELEMENTS = 64  # of every source of the pipeline
TIMEOUT = 600.0  # seconds, for everything that a script does before it trains


def verify_patch(
    patch: SourcePatch,
    script: str,
    argv: Sequence[str] = (),
    *,
    module: bool = False,
    risk: Risk = Risk.EXACT,
    elements: int = ELEMENTS,
    timeout: float = TIMEOUT,
    fit: int = 1,
    loop: bool = False,
    step_only: bool = False,
    folder: str | None = None,
) -> Verified | Difference:
    """Whether the patched program trains on the same elements. Runs the script twice up to a fit (by number), with its effects.

    Python's and NumPy's random numbers start from the same seed in both, and what has no seed in the pipeline gets one. `risk` is the
    largest of the patch's changes: EXACT demands equality bit by bit, REORDERED the same rows in each epoch, STATISTICAL that every
    component is equal which does not depend on random numbers; what was not compared is said in `how`. `folder`: where the script runs.
    `loop`: it trains in a loop of its own, of whose data set the elements are compared.
    `step_only`: the patch leaves the input as it is, so that batches need not be equal where two runs of the program itself read different
    ones.
    """
    texts = {change.path: change.new.encode(change.encoding) for change in patch.files}
    plan = {"script": script, "argv": list(argv), "module": module, "elements": elements, "fit": fit, "loop": loop}
    where = "loop" if loop else "fit"
    before = _observed({}, plan, timeout, folder)
    if isinstance(before, str):
        return Difference(f"The program as it is does not reach its {where}, so nothing can be compared: {before}")
    after = _observed(texts, plan, timeout, folder)
    if isinstance(after, str):
        return Difference(f"The patched program does not reach its {where}: {after}")
    missing = _missing(patch, after)
    if missing is not None:
        return Difference(missing)
    outcome = compare(before, after, risk)
    if isinstance(outcome, Difference):
        again = _observed({}, plan, timeout, folder)
        if isinstance(again, str) or isinstance(compare(before, again, Risk.EXACT), Difference):
            if step_only and before["spec"] == after["spec"]:
                return Verified(0, 0, False, (STEP_ONLY,))
            return Difference(f"Two runs of the program as it is differ as well, so equality cannot be shown. {outcome.what}")
    return outcome


def _missing(patch: SourcePatch, after: dict[str, Any]) -> str | None:
    """What the patched program does not do although the patch says it."""
    if collapsed(after["stages"]) != collapsed(patch.stages):
        return (
            f"The patched pipeline is {' > '.join(map(str, after['stages']))} instead of {' > '.join(map(str, patch.stages))}."
        )
    for name, wanted in patch.compiled.items():
        if name in after["compiled"] and str(after["compiled"][name]) != wanted:
            return f"The patched program compiles with {name}={after['compiled'][name]} instead of {wanted}."
    return None


def compare(before: dict[str, Any], after: dict[str, Any], risk: Risk) -> Verified | Difference:
    """Compare what two processes observed (see `child.observed`)."""
    if before["spec"] != after["spec"]:
        return Difference(f"The elements' structure was {before['spec']} and became {after['spec']}.")
    lengths = [len(epoch) for epoch in before["epochs"]], [len(epoch) for epoch in after["epochs"]]
    if lengths[0] != lengths[1]:
        return Difference(f"The epochs had {lengths[0]} elements and have {lengths[1]}.")
    steps = _steps(before.get("numbers", ()), after.get("numbers", ()), before.get("eager", False))
    if isinstance(steps, Difference):
        return steps
    if not lengths[0]:
        return Verified(0, 0, False, (SAME_NUMBERS.format(steps=steps) if steps else STEP_OF_LOOP,))
    number = lengths[0][0]
    first = _first(before["epochs"], after["epochs"])
    if first is None:
        return Verified(
            number,
            EPOCHS,
            True,
            (f"{counted(number, 'element')} of {len(lengths[0])} epochs equal bit by bit, under the same seeds.",),
        )
    if all(_bag(a) == _bag(b) for a, b in zip(before["epochs"], after["epochs"], strict=True)):
        said = f"The same rows in {EPOCHS} whole epochs, in another order."
        return (
            Verified(number, EPOCHS, False, (said,)) if risk is not Risk.EXACT else Difference(f"{said} It begins at {first}.")
        )
    if risk is not Risk.STATISTICAL:
        return Difference(f"The elements differ: {first}.")
    chance = _chance(before)
    differing = _components(before["epochs"], after["epochs"])
    if not differing <= chance:
        return Difference(f"Components {_listed(differing - chance)} do not depend on random numbers, and differ: {first}.")
    shown = "Components that do not depend on random numbers are equal bit by bit"
    random = (
        f"components {_listed(differing)} draw from other seeds than before and were compared by type and static shape only"
    )
    return Verified(number, EPOCHS, False, (f"{shown}; {random}.",))


def _steps(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], eager: bool = False) -> int | Difference:
    """In how many steps each number that those of the patched program return is one of the program's own; 0 where there is none. `eager`: the
    program's own are those of its gradients, which are a part of a step: then one in common is enough, and none tells nothing."""
    steps = min(len(before), len(after))
    own = list(zip(*before[:steps], strict=True))
    for column, said in enumerate(zip(*after[:steps], strict=True)):
        same = any(_close(said, each) for each in own)
        if same and eager:
            return steps
        if not same and not eager:
            return Difference(
                f"The numbers that its steps return differ: number {column + 1} is {said[0]:.6g} in the first, {said[-1]:.6g} in step {steps}."
            )
    return steps if steps and after[0] and not eager else 0


def _close(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=ROUNDING, abs_tol=1e-6) or (a != a and b != b) for a, b in zip(one, other, strict=True)
    )


def _first(old: list[Any], new: list[Any]) -> str | None:
    """Where epochs first differ, in words."""
    for before, after in zip(old, new, strict=True):
        for number, (a, b) in enumerate(zip(before, after, strict=True)):
            part = next((part for part, (x, y) in enumerate(zip(a, b, strict=True)) if not same(x, y)), None)
            if part is not None:
                return f"component {part} of element {number}"
    return None


def _components(old: list[Any], new: list[Any]) -> set[int]:
    """Components that differ somewhere."""
    pairs = [pair for before, after in zip(old, new, strict=True) for pair in zip(before, after, strict=False)]
    return {part for a, b in pairs for part, (x, y) in enumerate(zip(a, b, strict=True)) if not same(x, y)}


def _bag(epoch: list[Any]) -> list[str]:
    """The rows of an epoch without their order; batches are taken apart, since another order fills them differently."""
    rows: list[Any] = []
    for element in epoch:
        lengths = {len(part) if getattr(part, "ndim", 0) > 0 else -1 for part in element}
        rows += zip(*element, strict=True) if len(lengths) == 1 and -1 not in lengths else [element]
    return sorted(
        repr([part.tobytes() if hasattr(part, "tobytes") and part.dtype != object else part for part in row]) for row in rows
    )


def _chance(observed: dict[str, Any]) -> set[int]:
    """Components that change with the seeds."""
    return _components(observed["epochs"], observed["other"])


def _listed(parts: set[int]) -> str:
    return ", ".join(map(str, sorted(parts)))


def _observed(texts: dict[str, bytes], what: dict[str, Any], timeout: float, cwd: str | None) -> dict[str, Any] | str:
    """What the script's fit was asked for; a sentence where it never came to that. `what`: the plan, without its files."""
    with tempfile.TemporaryDirectory(prefix="outpace_patch_") as folder, tempfile.TemporaryFile() as errors:
        named = {path: os.path.join(folder, str(at)) for at, path in enumerate(texts)}
        for path, content in texts.items():
            Path(named[path]).write_bytes(content)
        result = Path(folder) / "result"
        plan = {**what, "texts": named, "result": str(result)}
        command = [sys.executable, "-m", "outpace.tune.patch.child", json.dumps(plan)]
        try:
            # Into a file: processes that the script started would keep a pipe open after the script's own has ended.
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, timeout=timeout, check=False, cwd=cwd)
        except subprocess.TimeoutExpired:
            return f"it takes longer than {timeout:.0f} s."
        if not result.exists():
            errors.seek(0)
            return _last_line(errors.read().decode(errors="replace")) if done.returncode else "it ends before"
        with result.open("rb") as file:
            observed: dict[str, Any] = pickle.load(file)  # our own process wrote it
            return observed


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it failed without a word"])[-1][:300]
