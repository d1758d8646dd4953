"""What a training script computes, written to a file, and two such files compared.

python alike.py STATE SCRIPT [ARGUMENT ...]    runs the script under fixed seeds, `fit` for two
epochs, and writes what it leaves and prints python alike.py --compare STATE STATE          prints
the largest relative difference and where it is

Chance is fixed as far as an honest edit leaves it: the seeds of Python, NumPy and TensorFlow, and a
`shuffle` without a seed gets one that does not depend on how many operations stand before it.
Random operations inside of a map or a step may still draw other numbers.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any

EPOCHS, DEPTH = 2, 6
FLOAT = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)


def main() -> None:
    if sys.argv[1] == "--compare":
        print(compared(*(pickle.loads(Path(path).read_bytes()) for path in sys.argv[2:])))
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    state, script, *arguments = sys.argv[1:]
    Path(state).write_bytes(pickle.dumps(run(script, arguments)))
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    os._exit(0)


def run(script: str, arguments: list[str]) -> dict[str, Any]:
    """Run a script to its end: the arrays and numbers in its globals, what each `fit` left, and
    what was printed.
    """
    text = Path(script).read_text(encoding="utf-8")
    fits: list[Any] = []
    if "keras" in text or "tensorflow" in text:
        fix(fits, text)
    module = types.ModuleType("__main__")
    module.__file__ = os.path.abspath(script)
    sys.modules["__main__"], sys.argv = module, [script, *arguments]
    sys.path.insert(0, os.getcwd())
    printed = io.StringIO()
    failed = ""
    inside: dict[str, Any] = {}

    def noted(frame: types.FrameType, event: str, _: Any) -> None:
        """The locals of a function that the script's own top level calls, when it returns."""
        back = frame.f_back
        if (
            event == "return"
            and frame.f_code.co_filename == module.__file__
            and back is not None
            and back.f_code.co_name == "<module>"
        ):
            inside[frame.f_code.co_name] = dict(frame.f_locals)

    with contextlib.redirect_stdout(printed):
        try:
            if "def main" in text:
                sys.setprofile(noted)
            exec(compile(text, module.__file__, "exec"), module.__dict__)
        except SystemExit:
            pass
        except BaseException as error:
            failed = f"{type(error).__name__}: {error}"
        finally:
            sys.setprofile(None)
    found: dict[str, Any] = {}
    for name, value in list(vars(module).items()):
        if not name.startswith("__"):
            leaves(name, value, found, set(), 0)
    leaves("of", inside, found, set(), 0)
    for number, fit in enumerate(fits):
        leaves(f"fit {number}", fit, found, set(), 0)
    files = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in Path().glob("*.[ct][sx][vt]")}
    return {"values": found, "printed": printed.getvalue(), "failed": failed, "files": files}


def fix(fits: list[Any], text: str) -> None:
    """Seeds, and a `fit` of few epochs that tells what it left."""
    if 'KERAS_BACKEND"] = "jax"' in text:
        os.environ["KERAS_BACKEND"] = "jax"
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    shuffle, fit = tf.data.Dataset.shuffle, keras.Model.fit

    def seeded(self: Any, buffer_size: Any, seed: Any = None, *args: Any, **options: Any) -> Any:
        return shuffle(self, buffer_size, 11 if seed is None else seed, *args, **options)

    def short(self: Any, *args: Any, **options: Any) -> Any:
        options["epochs"] = options.get("initial_epoch", 0) + EPOCHS
        keras.utils.set_random_seed(2)
        if os.environ.get("NUDGED"):  # how far rounding alone leads apart
            self.set_weights([weight * (1 + 1e-7) if weight.dtype.kind == "f" else weight for weight in self.get_weights()])
        history = fit(self, *args, **options)
        fits.append({"history": history.history, "weights": self.get_weights()})
        return history

    tf.data.Dataset.shuffle, keras.Model.fit = seeded, short


def leaves(path: str, value: Any, found: dict[str, Any], seen: set[int], depth: int) -> None:
    """Numbers and arrays below a value, by their path."""
    import numpy as np

    if depth > DEPTH or id(value) in seen or isinstance(value, type | types.ModuleType | types.FunctionType | str | bytes):
        return
    if isinstance(value, bool | int | float | np.ndarray | np.generic):
        found[path] = np.asarray(value)
        return
    seen = seen | {id(value)}
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        with contextlib.suppress(Exception):
            found[path] = np.asarray(value)
        return
    children: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        children = [(f"{path}[{key!r}]", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        children = [(f"{path}[{number}]", each) for number, each in enumerate(value[:200])]
    elif hasattr(value, "get_weights") or (hasattr(value, "variables") and hasattr(value, "learning_rate")):
        with contextlib.suppress(Exception):
            children = [(f"{path}.variables[{number}]", each) for number, each in enumerate(value.variables)]
    elif hasattr(value, "__dict__") and type(value).__module__ in ("__main__", "types"):
        children = [(f"{path}.{key}", each) for key, each in vars(value).items()]
    for name, each in children:
        leaves(name, each, found, seen, depth + 1)


def compared(one: dict[str, Any], other: dict[str, Any]) -> str:
    """One line: the largest relative differences of what both hold, what only one holds, and of
    what was printed.
    """
    import numpy as np

    apart = []
    for path, value in one["values"].items():
        if path not in other["values"]:
            continue
        second = other["values"][path]
        if value.shape != second.shape:
            apart.append((float("inf"), f"{path} {value.shape} and {second.shape}"))
        elif value.dtype.kind in "fiub" and value.size:
            left, right = np.asarray(value, "float64"), np.asarray(second, "float64")
            difference = float(np.max(np.abs(left - right))) / (float(np.max(np.abs(left))) + 1e-12)
            apart.append((difference, f"{path} {short(left)} and {short(right)}"))
        elif value.size and not np.array_equal(value, second):
            apart.append((float("inf"), f"{path} differs"))
    worst = sorted(apart, key=lambda each: -each[0])
    parts = [f"{len(apart)} values, largest relative difference {worst[0][0]:.2g}" if apart else "no values in common"]
    parts += [f"{difference:.2g} at {path}" for difference, path in worst[:4] if difference > 1e-5]
    parts += [f"loss {difference:.2g} ({path})" for difference, path in apart if "['history']['loss']" in path]
    gone = [path for path in one["values"] if path not in other["values"]]
    if gone:
        parts.append(f"only the original leaves {', '.join(gone[:6])}")
    parts.append(printing(one["printed"], other["printed"]))
    parts += [f"file {name} differs" for name, text in one["files"].items() if other["files"].get(name) != text]
    parts += [f"{side} FAILED: {run['failed'][:300]}" for side, run in (("original", one), ("patched", other)) if run["failed"]]
    return "; ".join(parts)


def short(values: Any) -> str:
    return " ".join(f"{value:.6g}" for value in values.ravel()[:3])


def printing(one: str, other: str) -> str:
    """How the printed texts differ: in the number of lines, or in their numbers."""
    first, second = one.splitlines(), other.splitlines()
    if len(first) != len(second):
        return f"prints {len(second)} lines for {len(first)}: {second[-1:]} for {first[-1:]}"
    if one == other:
        return f"prints the same {len(first)} lines"
    largest, where = 0.0, ""
    for left, right in zip(first, second, strict=True):
        pairs = zip(FLOAT.findall(left), FLOAT.findall(right), strict=False)
        for a, b in ((float(a), float(b)) for a, b in pairs):
            difference = abs(a - b) / (abs(a) + 1e-12)
            if difference > largest:
                largest, where = difference, f"{right[:80]!r} for {left[:80]!r}"
    return f"prints {len(first)} lines, numbers differ by {largest:.2g} at most: {where}"


if __name__ == "__main__":
    main()
