"""The process that a patch is checked in: `python -m outpace.tune.patch.child PLAN` runs a script up to a `fit`, or a
few steps into its loop.

The plan names files and the text that shall stand in them; Python reads that text instead, and no file is touched. What `fit` was asked to
train with is run for a few elements, and written down.
"""

from __future__ import annotations

import functools
import inspect
import io
import itertools
import json
import linecache
import os
import pickle
import random
import sys
import tokenize
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from itertools import islice
from pathlib import Path
from typing import Any

from outpace.capture.ending import end_here
from outpace.capture.imports import ImportHooks
from outpace.capture.script import run_as_main
from outpace.tune import guard
from outpace.tune.loop.found import Found, Loops
from outpace.tune.program.source import Source

COMPILED = ("jit_compile", "steps_per_execution", "run_eagerly")
SEED = 20_011
FEW = 8  # batches


def substitute(texts: Mapping[str, bytes]) -> None:
    """Let the import system read these texts instead of the files, and none of their compiled copies."""
    plain_data, plain_stats = SourceFileLoader.get_data, SourceFileLoader.path_stats

    def get_data(self: Any, path: Any) -> bytes:
        found = texts.get(os.path.realpath(path))
        return found if found is not None else plain_data(self, path)

    def path_stats(self: Any, path: Any) -> Any:
        if os.path.realpath(path) in texts:
            raise OSError  # no times: the loader then neither reads nor writes a compiled copy
        return plain_stats(self, path)

    read = linecache.updatecache  # AutoGraph reads a function by its lines, and asks for them to be read again

    def updatecache(filename: str, module_globals: Any = None) -> list[str]:
        content = texts.get(os.path.realpath(filename))
        if content is None:
            return read(filename, module_globals)
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        lines = io.TextIOWrapper(io.BytesIO(content), encoding).readlines()
        linecache.cache[filename] = (len(content), None, lines, filename)
        return lines

    linecache.updatecache = updatecache
    SourceFileLoader.get_data = get_data  # type: ignore[method-assign]  # this process does nothing else
    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]  # likewise


def observed(model: Any, source: Source, elements: int) -> dict[str, Any]:
    """What can be compared: the stages, the structure, two epochs with every missing seed set, and again with other seeds.

    Of an input that is no pipeline of the user's, and cannot be built again, the first batches stand for its epochs.
    """
    from outpace.model.errors import RebuildError
    from outpace.tune.data.comparable import Pinning, variables_kept
    from outpace.tune.data.isolated import chance_kept
    from outpace.tune.data.tree import describe
    from outpace.tune.data.verify import EPOCHS, MOST
    from outpace.tune.program.stepper import quiesce
    from outpace.tune.purity.evidence import rows

    dataset = source.dataset
    if dataset is None:  # a loop that reads something else
        return {"stages": [], "spec": "", "epochs": [], "other": [], "compiled": {}}

    quiesce()  # the program's own iterator reads ahead, and a generator in it draws from the same random numbers

    def runs(seed: int, every: bool) -> list[Any]:
        try:
            copy = Pinning(seed, elements, every=every, serial=True).copy(dataset)
        except RebuildError:
            if source.own:
                raise
            return [[rows(element) for element in islice(iter(source.feed(dataset).dataset), FEW)]]
        with variables_kept(dataset), chance_kept(seed):
            return [[rows(element) for element in islice(iter(copy), MOST)] for _ in range(EPOCHS)]

    pipeline = describe(dataset)
    return {
        "stages": [stage.op for stage in reversed(pipeline.spine())],
        "spec": str(dataset.element_spec),
        "epochs": runs(SEED, False),
        "other": runs(2 * SEED, True),
        "compiled": {name: _plain(getattr(model, name, None)) for name in COMPILED},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, str, type(None))) else int(value)


def main() -> None:
    """Run the script, guarded; what it did is in the plan's `result`, or the reason why there is nothing."""
    plan = json.loads(sys.argv[1])
    texts = {os.path.realpath(path): Path(text).read_bytes() for path, text in plan["texts"].items()}
    guard.begin([os.path.dirname(plan["result"])])
    substitute(texts)
    random.seed(SEED)

    def on_numpy(numpy: Any) -> None:
        numpy.random.seed(SEED)

    def write(model: Any, source: Source, loop: Found | None = None) -> None:
        numbers = [list(row) for row in loop.numbers] if loop is not None else []
        eager = loop is not None and loop.jax is not None and loop.step is None
        try:
            found = pickle.dumps({**observed(model, source, plan["elements"]), "numbers": numbers, "eager": eager})
        except Exception as error:
            sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
            end_here(1)
        Path(plan["result"]).write_bytes(found)
        end_here(0)

    def on_keras(keras: Any) -> None:
        original, signature, fits = keras.Model.fit, inspect.signature(keras.Model.fit), itertools.count(1)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if next(fits) != plan["fit"]:
                return original(self, *args, **kwargs)
            given = dict(signature.bind(self, *args, **kwargs).arguments)
            write(self, Source(given.pop("x", None), given))

        keras.Model.fit = fit

    hooks: Any = {"numpy": on_numpy, "keras": on_keras, "tf_keras": on_keras}
    if plan["loop"]:
        loops = Loops(lambda found: write(None, Source(found.dataset, {}), found), lambda: None, numbers=True)
        hooks = {"numpy": on_numpy, "tensorflow": loops.add_tensorflow, "jax": loops.add_jax}
    ImportHooks(hooks, lambda name, error: sys.exit(f"{name} could not be hooked: {error!r}")).install()
    code = 0
    try:
        run_as_main(plan["script"], plan["argv"], plan["module"])
    except BaseException as error:
        sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
        code = 1
    end_here(code)  # threads of a pipeline that never ends would keep the interpreter


if __name__ == "__main__":
    main()
