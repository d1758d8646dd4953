# SPDX-License-Identifier: Apache-2.0
"""Actions on a function of the user's Python that takes time in the training thread.

What the function calls decides what kind of work it is: the innermost call of a library that was
sampled below it. Its own name decides nothing: `save_gradient` may compute, and `draw_batch` read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from outpace.metrics.actions.table import Action
from outpace.metrics.facts.workload import Workload


class CallKind(Enum):
    """What a function mostly does, by what it calls."""

    PREDICTING = "predictions by Keras' own loop"
    EVALUATING = "an evaluation by Keras' own loop"
    FITTING = "Keras' own training loop"
    SAVING = "saving"
    LOGGING = "logging"
    DRAWING = "drawing pictures"
    READING = "reading"
    EAGER = "running a framework's ops one by one"
    CONVERTING = "converting and copying arrays"
    SHUFFLING = "drawing without replacement"
    COMPUTING = "Python itself"
    CALLING = "calls of another library"


class Precondition(Enum):
    """What must hold for an action, with the evidence."""

    CALLS_STEP = "the step's own function runs below the line, by the sampled stacks"
    CALLS_NO_STEP = "it does not: what may be done less often is not the training itself"
    SELDOM = "its time lies in few, long steps"
    READS_WEIGHTS = "a variable of the model was met being copied to NumPy"
    KEEPS_ARRAYS = "none was: the arrays may be the same in every step"
    FEW_STEPS = "each call of Keras' own loop makes one step or two: as many iterators are made"
    IN_DATA_SET = "it makes elements: it is, or is called by, what a data set hands them out by (`__getitem__`, collate)"
    FEEDS_STEP = "it runs in a thread that prepares batches: it is ahead of the step already"
    IN_BATCH_HOOK = "it is a hook of a Keras callback that runs for each batch"
    WAITS = "it waits for another thread, by the function of the standard library that it is in"
    MOST_OF_STEP = "it takes more than half of the step: the rest cannot hide it"


_VOCABULARY: Mapping[CallKind, frozenset[str]] = {
    CallKind.READING: frozenset(
        (
            "read",
            "load",
            "loads",
            "restore",
            "open",
            "imread",
            "unpickle",
            "fromfile",
            "genfromtxt",
            "recv",
            "fetchone",
            "fetchall",
        )
    ),
    CallKind.SAVING: frozenset(("save", "savez", "dump", "checkpoint", "write")),
    CallKind.LOGGING: frozenset(("log", "print", "emit", "flush", "format", "iterencode")),
    CallKind.DRAWING: frozenset(("savefig", "imshow", "render")),
    CallKind.EAGER: frozenset(("eager", "execute")),
    CallKind.CONVERTING: frozenset(("asarray", "array", "device", "convert", "constant", "copy")),
}
# words of functions that convert nothing, in spite of their names: array_equal, array_split, ...
_COMPARES = frozenset(("equal", "sort", "split", "repr", "str", "string", "count"))
_EAGER_LIBRARIES = ("tensorflow", "keras", "tf_keras")
_LIBRARIES = {
    **dict.fromkeys(("matplotlib", "seaborn", "plotly", "bokeh"), CallKind.DRAWING),
    **dict.fromkeys(("wandb", "mlflow", "tqdm", "rich", "logging"), CallKind.LOGGING),
}
"""Libraries whose every call is of one kind."""
_SHUFFLES = re.compile(r"\b(?:choice|permutation)\s*\(")
"""Functions written in C, which leave no frame below the line that calls them, by its text."""
_COMPUTES_LOGARITHMS = (*_EAGER_LIBRARIES, "jax", "numpy", "scipy", "torch", "python")
# functions of TensorFlow and Keras that run one op, by their plain names: mul, read_variable_op
_OP = re.compile(r"[a-z][a-z0-9_]*")
_NO_OPS = frozenset(
    ("iterator", "file", "image", "save", "load", "restore", "print", "write", "summary", "constant", "convert")
)
_INTERPRETED = ("", "python")  # owner of the time below a line: nobody, or the standard library
_KERAS = ("keras", "tf_keras")
_LOOPS = {"predict": CallKind.PREDICTING, "evaluate": CallKind.EVALUATING, "fit": CallKind.FITTING}
"""Methods of Keras' models that loop over a data set."""
LOOP_KINDS = frozenset((CallKind.PREDICTING, CallKind.EVALUATING))  # beside the training
_TASKS = LOOP_KINDS | {CallKind.SAVING, CallKind.LOGGING, CallKind.DRAWING, CallKind.READING}
_BATCH_HOOK = re.compile(r"(?:^|\.)on_(?:train_|test_|predict_)?batch_(?:begin|end)$")


def classify_call(library: str, below: str) -> CallKind:
    """Return what a function of the user's mostly does.

    library: owner of the time below it (`numpy`, `python`); "" for nobody.
    below: the innermost call, `numpy: asarray`; "" where the line itself ran.
    """
    if library in _LIBRARIES:
        return _LIBRARIES[library]
    call = below.rpartition(": ")[2]
    words = _words(call) - ({"log"} if library in _COMPUTES_LOGARITHMS else set())
    if library in _EAGER_LIBRARIES and _OP.fullmatch(call) and not words & _NO_OPS:
        return CallKind.EAGER
    for kind, known in _VOCABULARY.items():
        if words & known and (kind is not CallKind.EAGER or library in _EAGER_LIBRARIES):
            return kind
    return CallKind.COMPUTING if library in _INTERPRETED else CallKind.CALLING


def classify_calls(calls: Sequence[str]) -> CallKind:
    """Return what a line of the user's mostly does, by the functions of libraries that it spends
    its time in, outermost first (`keras: Trainer.predict`). A task that an outer one's own name
    says (`Checkpoint._save`; not that of its class) tells more than the functions that do it.
    """
    kinds = []
    for library, _, function in (call.partition(": ") for call in calls):
        name = function.rpartition(".")[2]
        loop = _LOOPS.get(name) if library in _KERAS else None
        kinds.append(loop or classify_call(library, f"{library}: {name}"))
    innermost = classify_call(calls[-1].partition(": ")[0], calls[-1]) if calls else CallKind.COMPUTING
    if CallKind.FITTING in kinds and innermost is CallKind.CALLING:
        innermost = CallKind.FITTING
    return next((kind for kind in kinds if kind in _TASKS), innermost)


def classify_text(text: str) -> CallKind:
    """Return what a line of the user's that ran itself does, by its text: functions written in C
    leave no frames.
    """
    return CallKind.SHUFFLING if _SHUFFLES.search(text) else CallKind.COMPUTING


def is_batch_hook(function: str) -> bool:
    """Whether a function is a hook of a Keras callback that runs for each batch."""
    return _BATCH_HOOK.search(function) is not None


def _words(name: str) -> frozenset[str]:
    """Return the words of a name: `_ZipWriteFile.write_all` has zip, write, file, write, all. In a
    name such as `array_equal`, which converts nothing, `array` and `device` do not count.
    """
    words = frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))
    return words - {"array", "device"} if words & _COMPARES else words


def _says(text: str) -> Callable[[str, Workload], str]:
    """Return a renderer of one text for all programs."""
    return lambda where, program: text.format(where=where)


def _by_program(*, keras: str, tensorflow: str, jax: str, keras_jax: str = "") -> Callable[[str, Workload], str]:
    """Return a renderer of a text for each kind of program."""
    return lambda where, program: program.select_text(keras=keras, tensorflow=tensorflow, jax=jax, keras_jax=keras_jax).format(
        where=where
    )


_LESS = frozenset((Precondition.CALLS_NO_STEP,))
PYTHON_ACTIONS: tuple[Action[CallKind, Precondition, [str, Workload]], ...] = (
    Action(
        "slim_call",
        _by_program(
            keras="Do less around the step's call (at {where}): it is the training itself. Run several batches per call "
            "(steps_per_execution=16).",
            tensorflow="Do less around the step's call (at {where}): it is the training itself. Pass tensors instead of NumPy arrays, and "
            "few of them, or run several steps per call.",
            jax="Do less around the step's call (at {where}): it is the training itself. Pass fewer and flatter arguments, or run several "
            "steps per call with jax.lax.scan.",
        ),
        preconditions=frozenset((Precondition.CALLS_STEP,)),
    ),
    Action(
        "predict_at_once",
        _says(
            "Predict for many rows in one call (at {where}), or call model(x) where they come one by one: each predict() sets up a data "
            "pipeline of its own."
        ),
        frozenset((CallKind.PREDICTING,)),
        _LESS,
    ),
    Action(
        "fit_at_once",
        _says(
            "Give all batches to one fit() (at {where}), or call train_on_batch(x, y): each fit() sets up a data pipeline and callbacks of "
            "its own, for a step or two."
        ),
        frozenset((CallKind.FITTING,)),
        frozenset((Precondition.FEW_STEPS,)),
    ),
    Action(
        "evaluate_less_often",
        _by_program(
            keras="Evaluate less often or in larger batches (at {where}): validation_freq, validation_batch_size.",
            tensorflow="Evaluate less often, or in larger batches (at {where}).",
            jax="Evaluate less often, or in larger batches (at {where}).",
        ),
        frozenset((CallKind.EVALUATING,)),
        _LESS,
    ),
    Action(
        "save_less_often",
        _says("Save less often (at {where}), or hand the data to a background thread and write it there."),
        frozenset((CallKind.SAVING,)),
        _LESS,
    ),
    Action(
        "log_less_often",
        _says("Log and format less often (at {where}): every hundredth step, or once per epoch."),
        frozenset((CallKind.LOGGING,)),
        _LESS,
    ),
    Action(
        "draw_less_often",
        _says("Draw less often (at {where}), every few hundred steps, or in another process from a copy of the data."),
        frozenset((CallKind.DRAWING,)),
        _LESS,
    ),
    Action(
        "do_it_seldom",
        _says(
            "Do this work less often (at {where}), or in its own thread on a copy: it runs in few steps, but delays the whole training."
        ),
        preconditions=_LESS | {Precondition.SELDOM},
    ),
    Action(
        "read_once",
        _says(
            "Read each file once (at {where}), before the training, and keep it in memory, or in a file that is mapped (np.load(..., "
            "mmap_mode='r')): it is read anew for each batch."
        ),
        frozenset((CallKind.READING,)),
        _LESS | {Precondition.FEEDS_STEP},
    ),
    Action(
        "keep_what_is_read",
        _says(
            "Read each file once (at {where}), before the training, and keep it in memory, or in a file that is mapped (np.load(..., "
            "mmap_mode='r')): the rest of the step is too short to hide it."
        ),
        frozenset((CallKind.READING,)),
        _LESS | {Precondition.MOST_OF_STEP},
    ),
    Action(
        "read_ahead",
        _says(
            "Read ahead (at {where}): in a thread that fills a queue, worker processes, or tf.data with prefetch. Or keep in memory what "
            "is read again."
        ),
        frozenset((CallKind.READING,)),
        _LESS,
    ),
    Action(
        "numpy_in_data_set",
        _says(
            "Make the elements with NumPy (at {where}), ahead of the step (worker processes or a thread), and hand a whole batch to the "
            "framework at once."
        ),
        frozenset((CallKind.EAGER, CallKind.CONVERTING, CallKind.CALLING)),
        _LESS | {Precondition.IN_DATA_SET},
    ),
    Action(
        "once_per_element",
        _by_program(
            keras="Do the work once per element (at {where}), before the training, and hand out what was made, as far as nothing random is "
            "drawn in it. Or make elements ahead, in other processes (PyDataset: workers=2, use_multiprocessing=True).",
            tensorflow="Do the work once per element (at {where}), before the training, and hand out what was made, as far as nothing random "
            "is drawn in it. Or make elements ahead, in other processes.",
            jax="Do the work once per element (at {where}), before the training, and hand out what was made, as far as nothing random is drawn "
            "in it. Or make elements ahead, in other processes.",
        ),
        frozenset((CallKind.COMPUTING,)),
        _LESS | {Precondition.IN_DATA_SET},
    ),
    Action(
        "weights_in_graph",
        _by_program(
            keras="Do less work on the weights (at {where}): less often, for fewer of them, or with keras.ops in the model's train_step.",
            tensorflow="Do less work on the weights (at {where}): less often, for fewer of them, or with TensorFlow's ops in the tf.function "
            "(assign there): then nothing, or only its result, is copied to NumPy.",
            jax="Do less work on the weights (at {where}): less often, for fewer of them, or with jax.numpy under jax.jit.",
        ),
        preconditions=_LESS | {Precondition.READS_WEIGHTS},
    ),
    Action(
        "one_graph",
        _by_program(
            keras="Call the function as one tf.function (at {where}), or in the model's train_step, for the whole batch: today each op, and "
            "each conversion from NumPy, is a call of its own.",
            tensorflow="Call the function as one tf.function (at {where}), for the whole batch: today each op, and each conversion from "
            "NumPy, is a call of its own.",
            jax="Put the function under one jax.jit (at {where}), for the whole batch.",
        ),
        frozenset((CallKind.EAGER,)),
        _LESS,
    ),
    Action(
        "convert_once",
        _says(
            "Convert and copy once (at {where}), before the loop, what stays the same, and what changes for a whole batch in one call."
        ),
        frozenset((CallKind.CONVERTING,)),
        _LESS | {Precondition.KEEPS_ARRAYS},
    ),
    Action(
        "draw_with_replacement",
        _says(
            "Draw with replacement (at {where}): rng.integers(n, size=k), or rng.choice of np.random.default_rng(), which permutes nothing for "
            "few of many. Or permute once an epoch, and take slices."
        ),
        frozenset((CallKind.SHUFFLING,)),
        _LESS,
    ),
    Action(
        "leave_batch_hook",
        _says("Do the work in on_epoch_end ({where}), not in the batch hook, or every N batches only."),
        preconditions=_LESS | {Precondition.IN_BATCH_HOOK},
    ),
    Action(
        "prepare_ahead",
        _says("Prepare more ahead: the training waits for another thread (at {where}), and what that does takes the time."),
        preconditions=frozenset((Precondition.WAITS,)),
    ),
    Action(
        "make_cheaper",
        _by_program(
            keras="Make this work cheaper (at {where}): do it less often, for the whole batch at once, or with keras.ops, in the model or its "
            "input pipeline. A thread beside the step hides no more of it than the rest of the step takes.",
            tensorflow="Make this work cheaper (at {where}): do it less often, for the whole batch at once, or with TensorFlow's ops, in the "
            "tf.function or the input pipeline. A thread beside the step hides no more of it than the rest of the step takes.",
            jax="Make this work cheaper (at {where}): do it less often, for the whole batch at once, or with jax.numpy, in the jitted step. A "
            "thread beside the step hides no more of it than the rest of the step takes.",
        ),
        preconditions=_LESS | {Precondition.MOST_OF_STEP},
    ),
    Action(
        "vectorise",
        _by_program(
            keras="Vectorise the work in NumPy (at {where}), or do it every N batches only. It is Python: a thread would compete for the GIL.",
            tensorflow="Vectorise the work in NumPy (at {where}) or in the tf.function, or do it every N steps only. It is Python: a thread "
            "would compete for the GIL.",
            jax="Vectorise the work in NumPy (at {where}), or put it under jax.jit, or do it every N steps only. It is Python: a thread would "
            "compete for the GIL.",
        ),
        frozenset((CallKind.COMPUTING,)),
    ),
    Action(
        "leave_training_thread",
        _by_program(
            keras="Take this work out of the training loop (at {where}): do it every N batches, in the input pipeline (map, prefetch), or in "
            "NumPy at once.",
            tensorflow="Take this work off the training thread (at {where}): prepare it in the input pipeline (map with prefetch) or in its "
            "own thread, do it every N steps only, or vectorise it.",
            jax="Take this work off the training thread (at {where}): prepare the next batch in a thread while the step runs, do it every N "
            "steps only, or put it under jax.jit.",
        ),
    ),
)
"""Actions on a function in order: what names a cause comes before what fits anything."""
