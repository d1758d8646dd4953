"""Records the script's tf.data pipeline while it is built, and gives every stage a name with its
source line.

The public construction methods of `tf.data.Dataset` are wrapped. A stage's name becomes the stat
`name` of its `Iterator::` events in the profile, which joins what was measured to the line that the
user can change. A wrapper never changes what is built: when anything about the recording fails, the
original call is made as the user wrote it.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from outpace.capture import frames, stateful
from outpace.capture.faults import suppress_faults
from outpace.frameworks.tensorflow import VARIANT, inputs_of
from outpace.store.record import PipelineStage

SOURCES = (
    "from_tensors", "from_tensor_slices", "from_generator", "range", "zip", "list_files", "load", "random",
    "sample_from_datasets", "choose_from_datasets", "counter",
)  # fmt: skip
METHODS = (
    "concatenate", "rebatch", "prefetch", "repeat", "enumerate", "shuffle", "cache", "take", "skip", "shard", "batch",
    "padded_batch", "ragged_batch", "sparse_batch", "map", "flat_map", "ignore_errors", "interleave", "filter", "window",
    "unbatch", "with_options", "group_by_window", "bucket_by_sequence_length", "snapshot", "scan", "take_while", "unique",
    "rejection_resample",
)  # fmt: skip
READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
UNNAMED_METHODS = {"with_options"}  # takes a name, but runs no stage that could show it
MAX_TEXT = 200


class PipelineRecorder:
    """All stages built in this process, in order; `label=False` records without naming."""

    def __init__(self, label: bool = True) -> None:
        """Start with no stage."""
        self.stages: list[PipelineStage] = []
        self._label = label
        self._rests = False
        self._ids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def install(self, tf: Any) -> None:
        """Wrap the construction methods that this TensorFlow has."""
        dataset = tf.data.Dataset
        for name in SOURCES:
            self._wrap(dataset, name, static=True)
        for name in METHODS:
            self._wrap(dataset, name, static=False)
        for name in READERS:
            reader = getattr(tf.data, name, None)
            if isinstance(reader, type):
                self._wrap_reader(reader, name)

    def stop(self) -> None:
        """Record nothing more: what is built from now on is built once more."""
        self._rests = True

    def stage_of(self, dataset: Any) -> PipelineStage | None:
        """The stage that made this very data set; None for one that was not recorded."""
        number = self._ids.get(dataset)
        return self.stages[number] if number is not None else None

    def _wrap(self, owner: Any, name: str, static: bool) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        try:
            signature = inspect.signature(original)
        except (TypeError, ValueError):
            return
        recorder = self

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            stage = recorder._start(name, signature, args, kwargs, frames.find_call_site())
            if stage is None:
                return original(*args, **kwargs)
            result = original(*args, **kwargs, **stage.extra)
            recorder._finish(stage, result)
            return result

        setattr(owner, name, staticmethod(method) if static else method)

    def _wrap_reader(self, owner: Any, name: str) -> None:
        original = owner.__init__
        try:
            signature = inspect.signature(original)
        except (TypeError, ValueError):
            return
        recorder = self

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            stage = recorder._start(name, signature, (None, *args), kwargs, frames.find_call_site())  # self is no input yet
            original(self, *args, **kwargs, **(stage.extra if stage else {}))
            if stage is not None:
                recorder._finish(stage, self)

        owner.__init__ = __init__

    def _start(
        self,
        op: str,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: frames.CallSite | None,
    ) -> _Draft | None:
        """What is known before the stage exists, or None when it is no business of the user's, or
        cannot be told: that is never the script's trouble.
        """
        if place is None or self._rests:
            return None
        with suppress_faults():
            return self._drafted(op, signature, args, kwargs, place)
        return None

    def _drafted(
        self, op: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], place: frames.CallSite
    ) -> _Draft | None:
        try:
            given = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:  # a wrong call: TensorFlow's own message is the right one
            return None
        inputs = tuple(dict.fromkeys(self._inputs_in(given.values())))
        own = given.get("name")
        draft = _Draft(op, place, _plain(given), inputs, own if isinstance(own, str) else None)
        draft.first = len(self.stages)
        accepts = ("name" in signature.parameters or op == "range") and op not in UNNAMED_METHODS
        if self._label and accepts and own is None and place.line > 0 and "name" not in kwargs:
            draft.label = self._unused(_label(place, op), inputs)
            draft.extra = {"name": draft.label} if "name" not in given else {}
        return draft

    def _finish(self, draft: _Draft, result: Any) -> None:
        with suppress_faults():
            function = stateful.find_function(result) if draft.op not in UNNAMED_METHODS else None
            stage = PipelineStage(
                id=len(self.stages),
                op=draft.op,
                label=draft.label,
                file=draft.place.file,
                line=draft.place.line,
                text=draft.place.text[:MAX_TEXT],
                kwargs=draft.kwargs,
                inputs=draft.inputs,
                inner=tuple(range(draft.first, len(self.stages))),
                stateful=stateful.stateful_ops(function) if function is not None else (),
                varying=stateful.varying_ops(function) if function is not None else (),
                function=stateful.find_function_name(function) if function is not None else None,
                library=draft.place.library,
                entry=draft.place.entry,
            )
            self._ids[result] = stage.id
            self.stages.append(stage)

    def _inputs_in(self, values: Any) -> Iterator[int]:
        """Ids of the recorded data sets among a call's arguments, nested ones too."""
        for value in values:
            if isinstance(value, (list, tuple)) and len(value) <= 64:  # a zip of data sets, not a list of file names
                yield from self._inputs_in(value)
            elif isinstance(value, dict) and len(value) <= 64:
                yield from self._inputs_in(value.values())
            # A class is a function here: flat_map(TextLineDataset).
            elif not isinstance(value, type) and VARIANT.of(value) is not None:
                yield from self._nearest(value)

    def _nearest(self, dataset: Any, depth: int = 0) -> Iterator[int]:
        """The data set's own id, or those of the recorded ones behind it (a stage that a library
        added in between).
        """
        known = self._ids.get(dataset)
        if known is not None:
            yield known
        elif depth < 32:
            for behind in inputs_of(dataset):
                yield from self._nearest(behind, depth + 1)

    def _unused(self, label: str, inputs: tuple[int, ...]) -> str:
        """The label, numbered when a stage further up the same pipeline has it (two maps on one
        line).
        """
        taken, todo, seen = set(), list(inputs), set()
        while todo:
            stage = self.stages[todo.pop()]
            if stage.id not in seen:
                seen.add(stage.id)
                taken.add(stage.label)
                todo += stage.inputs
        names = (label if number == 1 else f"{label}_{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)


class _Draft:
    """A stage under construction."""

    def __init__(
        self, op: str, place: frames.CallSite, kwargs: Mapping[str, Any], inputs: tuple[int, ...], label: str | None
    ) -> None:
        self.op, self.place, self.kwargs, self.inputs, self.label = op, place, kwargs, inputs, label
        self.extra: dict[str, Any] = {}
        self.first = 0


def _label(place: frames.CallSite, op: str) -> str:
    """`train_py_L12_map`: TensorFlow takes only identifiers as names."""
    base = re.sub(r"[^A-Za-z0-9_]", "_", os.path.basename(place.file)) or "script"
    return f"{'_' if base[0].isdigit() else ''}{base}_L{place.line}_{op}"


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that fit into a record: numbers, truth values, short texts; a function by its
    name.
    """
    plain: dict[str, Any] = {}
    for key, value in given.items():
        value = _unwrap(value)
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= MAX_TEXT):
            plain[key] = value
        elif callable(value) and hasattr(value, "__name__"):
            plain[key] = value.__name__
    for hidden in ("self", "name", "kwargs", "args"):
        plain.pop(hidden, None)
    return plain


def _unwrap(value: Any) -> Any:
    """A scalar tensor or NumPy number as a Python number; anything else as it is."""
    if getattr(value, "shape", None) == () and not callable(value):
        with suppress_faults():
            number = getattr(value, "numpy", lambda: value)()
            return number.item()
    return value
