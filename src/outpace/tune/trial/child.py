# SPDX-License-Identifier: Apache-2.0
"""A variant's process: `python -m outpace.tune.trial.child PLAN SCRIPT ARGS...` runs the script,
guarded, and pauses it between blocks. PLAN is a `Plan` as JSON.

Nothing but the standard library is imported before the script runs. A script with a function
`outpace_race()` is loaded without running its `if __name__ == "__main__"` part, and the step that
the function returns is raced. Any other script runs as `python SCRIPT` does, and its own steps are
raced: those of the first Keras `fit`, whose epochs are made endless, or of its own loop.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import runpy
import sys
import time
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NoReturn

from outpace.capture.imports import ImportHooks
from outpace.capture.messages import print_message
from outpace.capture.process_exit import end_process, exit_code
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.capture.steps_keras import KerasSteps, wrap_method
from outpace.capture.steps_tf import LoopSteps, hook_marks
from outpace.frameworks.tensorflow import BATCH_SIZE, inputs_of, op_of
from outpace.model.input_files import SCRIPT, read_file
from outpace.tune import guard
from outpace.tune.starts.imports import script_begins
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import Marking, substitute
from outpace.tune.texts.parsed import parsed
from outpace.tune.trial.passes import MODEL, RacedPasses, frameworks
from outpace.tune.trial.plan import Plan
from outpace.tune.trial.turns import WARMUP, RaceSession, run_hook

HOOK = "outpace_race"
ENDLESS = 1_000_000_000  # epochs


class Hooks:
    """Connects the frameworks' imports to the race's session, as the launcher of `outpace profile`
    does to a capture's.
    """

    def __init__(self, channel: Connection, first_epoch: float, fit: int = 0, limit: str = "") -> None:
        """first_epoch: seconds that a `fit` gets to end its first epoch before it is timed. fit:
        which one is raced, others train as they are, and so does all that the script repeats
        before; 0 for the first one or a loop, whatever comes first. limit: see `Edition`.
        """
        self._channel, self._fits, self._fit, self._limit = channel, 0, fit, limit
        self.session = RaceSession(channel, first_epoch)
        self.session.rests = fit > 0
        self._loops: LoopSteps | None = None
        self._batch: float | None = None
        self.session.examples = lambda: self._batch

    def install(self) -> None:
        """Hook what the script will import."""
        hooks: Any = {"tensorflow": self.on_tensorflow, "keras": self.on_keras, "tf_keras": self.on_keras, "jax": self.on_jax}
        ImportHooks(hooks, _not_hooked).install()

    def on_tensorflow(self, tf: ModuleType) -> None:
        """TensorFlow was imported."""
        self.session.add_framework("tensorflow", tf)
        self._loops = LoopSteps(self.session, tf)
        self._loops.install(tf)
        hook_marks(self.session, self._loops, tf.profiler.experimental, "Trace", "tensorflow")

    def on_keras(self, keras: ModuleType) -> None:
        """Keras was imported; Keras 2 marks its own steps, which `hook_marks` sees."""
        if not str(getattr(keras, "__version__", "")).startswith("2."):
            KerasSteps(self.session, lambda: self._loops, keras.backend.backend()).install(keras.callbacks.CallbackList)
        wrap_method(keras.callbacks.CallbackList, "on_epoch_end", None, self.session.epoch_ended)
        self._take_over(keras)

    def on_jax(self, jax: ModuleType) -> None:
        """JAX was imported."""
        self.session.add_framework("jax", jax)
        hook_marks(self.session, self._loops, jax.profiler, "StepTraceAnnotation", "jax")

    def ended(self) -> NoReturn:
        """Training is over, for instance by EarlyStopping, and so is the process."""
        self._channel.send({"ended": dict(self.session.steps_seen)})
        end_process(0)

    def _take_over(self, keras: Any) -> None:
        """Make `fit` endless, for a race needs as many steps as its budget has time for, and let
        none of Keras' callbacks write files.
        """
        original, hooks = keras.Model.fit, self
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            hooks._fits += 1
            if hooks._fits < hooks._fit:
                with hooks.session.resting():
                    return original(self, *args, **kwargs)
            hooks.session.rests = False
            call = signature.bind(self, *args, **kwargs)
            call.arguments["epochs"] = ENDLESS
            call.arguments["callbacks"], off = without_writers(call.arguments.get("callbacks"), keras)
            hooks.session.writers += off
            hooks._batch = batch_size(call.arguments.get("x"), call.arguments.get("batch_size"))
            try:
                if hooks._limit:
                    hooks._alone(call.arguments)
                original(*call.args, **call.kwargs)
            except BaseException as error:  # none of the script's code is to run: it would save what was only raced
                sys.excepthook(type(error), error, error.__traceback__)
                end_process(1)
            hooks.ended()

        keras.Model.fit = fit

    def _alone(self, given: dict[str, Any]) -> None:
        """Let a `fit` train on one batch that is held in memory; or read what it would read, and
        never come back.
        """
        import tensorflow as tf

        from outpace.tune.program.source import Source

        dataset = Source(given.get("x"), given).dataset.repeat()
        if self._limit == MODEL:
            for name in _OF_DATA & given.keys():
                del given[name]
            given["x"] = tf.data.Dataset.from_tensors(next(iter(dataset))).repeat()
            given["steps_per_epoch"] = ENDLESS
            return
        batches = iter(dataset)
        with self.session.resting():  # else reads would be steps of a loop of the script's
            for _ in range(WARMUP):
                next(batches)
            self.session.turns.ready("one batch read", self._batch, WARMUP)
            while True:
                began = time.perf_counter()
                next(batches)
                self.session.turns.step(time.perf_counter() - began, 1)


# Arguments of `fit` that say what it reads.
_OF_DATA = {
    "y", "batch_size", "validation_split", "validation_data", "validation_steps", "validation_freq", "shuffle", "class_weight", "sample_weight",
    "steps_per_epoch",
}  # fmt: skip


def _not_hooked(name: str, error: BaseException) -> None:
    print_message(f"{name} could not be hooked: {error!r}")


def batch_size(data: Any, given: Any) -> float | None:
    """Examples of a batch of `fit`'s data, None where that cannot be seen without
    reading the data.
    """
    if hasattr(data, "element_spec"):
        return _of_dataset(data)
    if isinstance(given, int):
        return float(given)
    if hasattr(data, "shape") or isinstance(data, (list, dict)):
        return 32.0  # what Keras cuts arrays into by itself
    size = getattr(data, "batch_size", None)
    return float(size) if isinstance(size, int) else None


def _of_dataset(dataset: Any) -> float | None:
    """The leading dimension where it is static, else the size of the nearest batch stage (its last
    batch may be smaller).
    """
    import tensorflow as tf

    specs = tf.nest.flatten(dataset.element_spec)
    sizes = {spec.shape[0] for spec in specs if getattr(spec, "shape", None) is not None and spec.shape.rank}
    if len(sizes) == 1 and None not in sizes:
        return float(sizes.pop())
    node: Any = dataset
    for _ in range(64):
        size = BATCH_SIZE.of(node)
        if size is not None:
            value = tf.get_static_value(size)
            return None if value is None else float(value)
        inputs = inputs_of(node)
        if len(inputs) != 1 or op_of(node) in ("unbatch", "flat_map", "interleave"):
            return None
        node = inputs[0]
    return None


def has_hook(script: str) -> bool:
    """Whether a script defines `outpace_race()` at its top level; it is only read."""
    try:
        tree = parsed(read_file(script, SCRIPT))
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == HOOK for node in tree.body)


def main(arguments: list[str]) -> None:
    """Entry of the process."""
    plan, script, *argv = Plan.from_json(arguments[0]), *arguments[1:]
    guarded = guard.begin([plan.keep])
    os.set_inheritable(plan.channel, False)
    channel = Connection(plan.channel)
    hide_own_frames()
    script_begins()
    code = 1
    try:
        _run(plan, script, argv, channel, guarded)
    except SystemExit as end:
        code = exit_code(end.code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    end_process(code)  # at once: pipelines fed by a Python generator can hang at the interpreter's own end


def _run(plan: Plan, script: str, argv: list[str], channel: Connection, guarded: guard.Guard) -> None:
    module, first_epoch = plan.module, plan.first_epoch
    loaded = Edition.read(plan.edition) if plan.edition else None
    if loaded is not None:
        substitute(loaded.texts, guarded.place)
    elif not module and has_hook(script):
        sys.argv = [script, *argv]
        sys.path[0] = os.path.dirname(os.path.realpath(script))
        run_hook(runpy.run_path(script, run_name="__outpace_race__")[HOOK], channel)
    hooks = Hooks(channel, first_epoch, *((loaded.fit, loaded.limit) if loaded is not None else ()))
    if loaded is not None and loaded.place.file:
        passes, marking = RacedPasses(hooks.session, loaded, first_epoch), Marking(loaded.place, loaded.header, endless=True)
        marking.install()
        passes.install()
        ImportHooks(frameworks(hooks.session), _not_hooked).install()
        run_as_main(script, argv, module, marking.compiled)
        channel.send({"ended": passes.seen})
        end_process(0)
    hooks.install()
    os.register_at_fork(after_in_child=hooks.session.window.disable)
    run_as_main(script, argv, module)
    hooks.ended()


# The guard keeps the user's files; these are off because their writing would be timed, and
# BackupAndRestore would begin with an earlier training's backup.
WRITERS = ("ModelCheckpoint", "BackupAndRestore", "CSVLogger", "TensorBoard", "RemoteMonitor")


def without_writers(callbacks: Any, keras: Any) -> tuple[Any, list[str]]:
    """The callbacks of a `fit` that write no files, and the names of those that do (also of classes
    derived from Keras').
    """
    kinds = tuple(kind for name in WRITERS if (kind := getattr(keras.callbacks, name, None)) is not None)
    held = getattr(callbacks, "callbacks", None)  # a CallbackList
    given = list(
        held if held is not None else callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    )
    names = [type(each).__name__ for each in given if isinstance(each, kinds)]
    if not names:
        return callbacks, []
    kept = [each for each in given if not isinstance(each, kinds)]
    if held is None:
        return kept, names
    callbacks.callbacks = kept
    return callbacks, names


if __name__ == "__main__":
    main(sys.argv[1:])
