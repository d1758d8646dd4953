# SPDX-License-Identifier: Apache-2.0
"""Detection of the calls that train: those of functions that compute gradients.

Between two steps a loop may call another function more often, and longer, than the step's own: an
evaluation, a sampler. Gradients distinguish them: TensorFlow names the ops of a tape's backward
pass `gradient_tape/...`, and JAX has `transpose(jvp(...))` in the names of ops of a program that it
differentiated. A function without gradients may also say by its name that it predicts.
"""

from __future__ import annotations

import re

import numpy as np

from outpace.model.arrays import Indices, Mask
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.trace import Trace, dialect

_TRANSPOSED = b"transpose(jvp("
_EXPORTED = "__inference_"  # prefix that TensorFlow adds to the name of every traced function
_KERAS_INFERENCE = "one_step_on_data"  # part of the name of the function in Keras' predict
_INFERENCE = frozenset(("predict", "prediction", "predictions", "serving", "serve", "infer", "inference"))
_TRAINING = frozenset(("train", "training", "fit", "grad", "grads", "gradient", "update"))


def training_mask(trace: Trace, calls: Indices) -> Mask:
    """Return a boolean per call (event row): whether it computes gradients. All False where the
    profile does not show it.
    """
    return _gradient_call_mask(trace)[trace.name[calls]] | _tape_call_mask(trace, calls)


def find_training_functions(trace: Trace) -> set[str]:
    """Return the jitted functions whose compiled program has a backward pass, in XLA's spelling
    (`_lambda` for a call of `<lambda>`); empty where the profile has no programs.
    """
    programs = ((trace.names[row], stats.get(dialect.HLO_PROTO)) for row, stats in trace.name_stats.items())
    training = (name for name, proto in programs if isinstance(proto, bytes) and _TRANSPOSED in proto)
    return {normalize_function_name(parse_jitted_function(name)) for name in training}


def _gradient_call_mask(trace: Trace) -> Mask:
    """Return a boolean over `trace.names`: whether it is a call of a function whose compiled
    program has a backward pass.
    """
    functions = find_training_functions(trace)
    called = event_names(trace).mask(EventFlag.JIT_CALL)
    names = (parse_jitted_function(trace.names[code]) for code in np.flatnonzero(called).tolist())
    called[called] = [normalize_function_name(name) in functions for name in names]
    return called


def _tape_call_mask(trace: Trace, calls: Indices) -> Mask:
    """Return a boolean per call: whether an op of a tape's backward pass starts in its time, on any
    thread.
    """
    rows = event_names(trace).rows(EventFlag.GRADIENT_TAPE)
    began = np.sort(trace.start[rows])
    mask: Mask = np.searchsorted(began, trace.start[calls]) < np.searchsorted(began, trace.end[calls])
    return mask


def is_prediction(function: str) -> bool:
    """Whether a function's name says that it predicts or serves. Whole words are compared, so that
    the name `observe_batch` does not match `serve`.
    """
    words = set(re.split(r"[^a-z]+", function.removeprefix(_EXPORTED).lower()))
    return bool(words & _INFERENCE and not words & _TRAINING) or _KERAS_INFERENCE in function
