# SPDX-License-Identifier: Apache-2.0
"""Records the script's tf.data pipeline while it is built, and gives every stage a name with its
source line.

The public construction methods of `tf.data.Dataset` are wrapped. A stage's name becomes the stat
`name` of its `Iterator::` events in the profile, which joins the measured times to the line that
the user can change. A wrapper never changes what is built: when anything about the recording fails,
the original call is made as the user wrote it.
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
UNNAMED_METHODS = {"with_options"}  # methods that take a name, but run no stage that could show it
MAX_TEXT = 200


class PipelineRecorder:
    """Records all stages that are built in this process, in order.

    stages: recorded stages.
    """

    def __init__(self, label: bool = True) -> None:
        """Create an empty recorder; `label=False` records stages without naming them."""
        self.stages: list[PipelineStage] = []
        self._names_stages = label
        self._is_stopped = False
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
        """Record nothing from now on. Used before data sets are built a second time."""
        self._is_stopped = True

    def stage_of(self, dataset: Any) -> PipelineStage | None:
        """Return the stage that made this data set; None for one that was not recorded."""
        number = self._ids.get(dataset)
        return self.stages[number] if number is not None else None

    def _wrap(self, owner: Any, name: str, static: bool) -> None:
        """Wrap a construction method of the class `owner`; does nothing where it has none of that
        name.
        """
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
            stage = recorder._begin_stage(name, signature, args, kwargs, frames.find_call_site())
            if stage is None:
                return original(*args, **kwargs)
            result = original(*args, **kwargs, **stage.extra)
            recorder._end_stage(stage, result)
            return result

        setattr(owner, name, staticmethod(method) if static else method)

    def _wrap_reader(self, owner: Any, name: str) -> None:
        """Wrap the constructor of a class that reads files."""
        original = owner.__init__
        try:
            signature = inspect.signature(original)
        except (TypeError, ValueError):
            return
        recorder = self

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            # None stands for self, which is no input
            stage = recorder._begin_stage(name, signature, (None, *args), kwargs, frames.find_call_site())
            original(self, *args, **kwargs, **(stage.extra if stage else {}))
            if stage is not None:
                recorder._end_stage(stage, self)

        owner.__init__ = __init__

    def _begin_stage(
        self,
        op: str,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: frames.CallSite | None,
    ) -> _Draft | None:
        """Return what is known before the stage exists.

        Returns None for a stage that the user did not build, and where reading the call fails: a
        failure must not reach the script.
        """
        if place is None or self._is_stopped:
            return None
        with suppress_faults():
            return self._build_draft(op, signature, args, kwargs, place)
        return None

    def _build_draft(
        self, op: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], place: frames.CallSite
    ) -> _Draft | None:
        """Return the draft of a stage from its call; None for a call with wrong arguments."""
        try:
            arguments = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:  # wrong arguments: TensorFlow's own message is the right one
            return None
        inputs = tuple(dict.fromkeys(self._input_ids(arguments.values())))
        own_name = arguments.get("name")
        draft = _Draft(op, place, _record_arguments(arguments), inputs, own_name if isinstance(own_name, str) else None)
        draft.first = len(self.stages)
        accepts_name = ("name" in signature.parameters or op == "range") and op not in UNNAMED_METHODS
        if self._names_stages and accepts_name and own_name is None and place.line > 0 and "name" not in kwargs:
            draft.label = self._unused_label(_build_label(place, op), inputs)
            draft.extra = {"name": draft.label} if "name" not in arguments else {}
        return draft

    def _end_stage(self, draft: _Draft, result: Any) -> None:
        """Record the stage of the data set `result`."""
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

    def _input_ids(self, values: Any) -> Iterator[int]:
        """Yield the ids of the recorded data sets among a call's arguments, nested ones too."""
        for value in values:
            # a zip of data sets is short; a list of file names is long
            if isinstance(value, (list, tuple)) and len(value) <= 64:
                yield from self._input_ids(value)
            elif isinstance(value, dict) and len(value) <= 64:
                yield from self._input_ids(value.values())
            # a class is a function here, as in flat_map(TextLineDataset)
            elif not isinstance(value, type) and VARIANT.of(value) is not None:
                yield from self._nearest_ids(value)

    def _nearest_ids(self, dataset: Any, depth: int = 0) -> Iterator[int]:
        """Yield the data set's id, or those of the nearest recorded data sets that feed it, where a
        library added a stage in between.
        """
        number = self._ids.get(dataset)
        if number is not None:
            yield number
        elif depth < 32:
            for source in inputs_of(dataset):
                yield from self._nearest_ids(source, depth + 1)

    def _unused_label(self, label: str, inputs: tuple[int, ...]) -> str:
        """Return the label, with a number appended where a stage further up the same pipeline has
        it (two maps on one line).
        """
        labels, pending, visited = set(), list(inputs), set()
        while pending:
            stage = self.stages[pending.pop()]
            if stage.id not in visited:
                visited.add(stage.id)
                labels.add(stage.label)
                pending += stage.inputs
        names = (label if number == 1 else f"{label}_{number}" for number in range(1, len(labels) + 2))
        return next(name for name in names if name not in labels)


class _Draft:
    """A stage whose data set does not exist yet.

    op, place, kwargs, inputs, label: as in `PipelineStage`; `place` is the user's line.
    extra: arguments to add to the call: the name.
    first: number of stages that were recorded before it.
    """

    def __init__(
        self, op: str, place: frames.CallSite, kwargs: Mapping[str, Any], inputs: tuple[int, ...], label: str | None
    ) -> None:
        self.op, self.place, self.kwargs, self.inputs, self.label = op, place, kwargs, inputs, label
        self.extra: dict[str, Any] = {}
        self.first = 0


def _build_label(place: frames.CallSite, op: str) -> str:
    """Return a stage's label, such as `train_py_L12_map`; TensorFlow accepts only identifiers as
    names.
    """
    base = re.sub(r"[^A-Za-z0-9_]", "_", os.path.basename(place.file)) or "script"
    return f"{'_' if base[0].isdigit() else ''}{base}_L{place.line}_{op}"


def _record_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that fit into a record: numbers, truth values and short texts; of a
    function its name.
    """
    recorded: dict[str, Any] = {}
    for key, value in arguments.items():
        value = _unwrap_scalar(value)
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= MAX_TEXT):
            recorded[key] = value
        elif callable(value) and hasattr(value, "__name__"):
            recorded[key] = value.__name__
    for hidden in ("self", "name", "kwargs", "args"):
        recorded.pop(hidden, None)
    return recorded


def _unwrap_scalar(value: Any) -> Any:
    """Return a scalar tensor or NumPy number as a Python number; anything else unchanged."""
    if getattr(value, "shape", None) == () and not callable(value):
        with suppress_faults():
            number = getattr(value, "numpy", lambda: value)()
            return number.item()
    return value
