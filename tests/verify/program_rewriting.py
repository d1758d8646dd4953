"""Every rewrite on one program of the bench: run as `python program_rewriting.py SCRIPT FOLDER`, it prints as JSON what came of each.

The script runs up to its `fit`, anew for each accepted rewrite: seeded as it is, it builds the same pipeline each time. What the rewritten
pipeline gives is compared with what the original gives element by element over two whole epochs, without the help of the product's own check.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
EPOCHS = 2  # a cache answers from the second on
Rows = list[list[str]]  # of one epoch: per element the digests of its rows


class FitReached(BaseException):
    """The script called `fit`: with which model, and with what. No error, so that no script catches it."""

    def __init__(self, model: Any, x: Any, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.x, self.arguments = model, x, arguments


def reached(script: str, folder: str) -> FitReached:
    """Run the script up to its `fit`, which does not begin."""
    import keras

    def fit(model: Any, x: Any = None, **arguments: Any) -> None:
        raise FitReached(model, x, arguments)

    original, argv = keras.Model.fit, sys.argv
    keras.Model.fit, sys.argv = fit, [script, folder]
    try:
        runpy.run_path(script, run_name="__main__")
    except FitReached as stopped:
        return stopped
    finally:
        keras.Model.fit, sys.argv = original, argv
    raise SystemExit(f"{script} called no fit.")


def digest(arrays: list[Any]) -> str:
    """Types, shapes and bytes of a row, short enough to keep a whole epoch."""
    made = hashlib.sha256()
    for array in arrays:
        made.update(f"{array.dtype}{array.shape}".encode())
        made.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return made.hexdigest()


def row_digests(element: Any) -> list[str]:
    """One digest per example of a batch, over all components (dense tensors with one leading dimension, as all twelve programs have)."""
    import numpy as np
    import tensorflow as tf

    parts = [np.asarray(part) for part in tf.nest.flatten(element)]
    return [digest([part[row] for part in parts]) for row in range(len(parts[0]))]


def epochs(dataset: Any) -> list[Rows]:
    return [list(map(row_digests, dataset)) for _ in range(EPOCHS)]


def flat(epoch: Rows) -> Iterator[str]:
    return (row for element in epoch for row in element)


def agree(risk: str, before: list[Rows], after: list[Rows]) -> bool:
    """Whether two data sets give the same in the sense of the risk.

    exact: the same batches in the same order. reordered: in each epoch the same rows in any order, and as many batches of the same sizes.
    statistical: as many batches of the same sizes (what they hold depends on chance).
    """
    if risk == "exact":
        return before == after
    sizes = [[[len(element) for element in epoch] for epoch in side] for side in (before, after)]
    if sizes[0] != sizes[1]:
        return False
    same_rows = all(sorted(flat(a)) == sorted(flat(b)) for a, b in zip(before, after, strict=True))
    return same_rows if risk == "reordered" else risk == "statistical"


def outcomes(script: str, folder: str) -> dict[str, Any]:
    """What came of each rewrite, by its id, and whether the program by itself gives the same twice."""
    import tensorflow as tf

    from outpace.capture.pipeline import PipelineRecorder
    from outpace.tune.data import size
    from outpace.tune.data.tree import describe
    from outpace.tune.optimisations import all_rewrites
    from outpace.tune.optimisations.optimisation import Rewritten, attempt
    from outpace.tune.program.program import Program

    size.SECONDS = 600.0  # how far elements are counted must not depend on how busy this machine is
    recorder = PipelineRecorder(False)
    recorder.install(tf)
    fit = reached(script, folder)
    program = Program.of(fit.model, fit.x, **fit.arguments)
    expected = epochs(reached(script, folder).x)
    found: dict[str, Any] = {"repeats itself": epochs(reached(script, folder).x) == expected, "steps": len(expected[0])}
    for rewrite in all_rewrites():
        outcome = attempt(rewrite, describe(program.dataset, recorder))
        if not isinstance(outcome, Rewritten):
            found[rewrite.id] = {"refused": outcome.sentence}
            continue
        made = rewrite.apply(describe(reached(script, folder).x, recorder))
        risk = outcome.reason.risk.value
        alike = made.element_spec == fit.x.element_spec and int(made.cardinality()) == int(fit.x.cardinality())
        given = epochs(made)
        equal, sized = (alike and agree(sense, expected, given) for sense in (risk, "statistical"))
        found[rewrite.id] = {
            "risk": risk,
            "equal": equal,
            "sized": sized,
            "reason": outcome.reason.sentence,
            "how": outcome.verified.how,
        }
    return found


if __name__ == "__main__":
    print(json.dumps(outcomes(*sys.argv[1:3])), flush=True)
    os._exit(0)  # a generator's pipeline would hang at the end of the interpreter
