# SPDX-License-Identifier: Apache-2.0
"""The part of a model to which an op belongs: a Keras layer, a line of the user's, or the scope in
the op's name.

A capture by Outpace records the user's line of each op and the owner of each name scope
(`OpSources`, `LayerSource`); profiles of other origin have op names alone. An event's name has the
call before the op of an inlined function (`StatefulPartitionedCall/functional_1/dense_1/MatMul`),
so that the record's names are compared with the end of the name. A gradient op belongs to the part
of its forward op, which is in its name (`gradient_tape/functional_1/dense_1/MatMul/MatMul_1`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.source_line import format_source_line, shorten_source_path
from outpace.timeline.event_names import EventFlag, classify_non_model_op

LAYER, LINE, OP = "layer", "line", "op"
OPTIMIZER, METRICS, LOSS, COLLECTIVES = "optimizer", "metrics", "loss", "collectives"
ROLES = {"metrics": METRICS, "losses": LOSS, "optimizers": OPTIMIZER}
"""Parts of the step that are no layer, by the folder of Keras that computes them."""
_ROLE = compile_lazily(r"-packages/keras/(?:\w+/)?(metrics|losses|optimizers)/")
LOGS, TRANSFER_OPS = "logs", "transfers"  # ops that belong to no part of a model
_BACK = compile_lazily(r"^(?:gradient_tape|gradients(?:_\d+)?)$")
_BACK_JAX = compile_lazily(r"transpose\(")
_WRAPPED_JAX = compile_lazily(r"^(?:jit|jvp|vmap|transpose|remat|checkpoint|custom_[a-z_]+)\((.*)\)$")
# Prefixes that inlining adds to the names of a function's ops.
_INLINED = compile_lazily(r"^(?:_\d+|(?:Stateful)?PartitionedCall(?:_\d+)?)$")
_REPLICA = compile_lazily(r"^replica_\d+$")
_COLLECTIVES = compile_lazily(r"^(?:Collective|Nccl|all-(?:reduce|gather|to-all)|reduce-scatter|collective-)")
_OPTIMIZERS = compile_lazily(
    r"^(?:adam|adamw|adamax|nadam|sgd|rmsprop|adagrad|adadelta|ftrl|lion|lamb|muon|adafactor|optimizer)(?:_\d+)?$",
    re.IGNORECASE,
)
_UPDATES = compile_lazily(r"^(?:Resource)?(?:Sparse)?Apply[A-Z]|^ResourceApply|^Assign(?:Add|Sub)?VariableOp$|^ResourceScatter")
_KERAS_ROOT = compile_lazily(r"^(?:functional|sequential|model)(?:_\d+)?$")
_NUMBERED = compile_lazily(r"_\d+$")
_LOOP = compile_lazily(r"^while(?:_\d+)?$")  # last part of the name of a loop; the ops of its body lie in `while/body`
_PACKAGES = ("/site-packages/", "/dist-packages/")


def count_replicas(names: Iterable[str]) -> int:
    """Return the number of copies of a model, from the scopes of a distribution strategy.

    Ops of the first replica have no such scope, or `replica`.
    """
    return 1 + len({scope for name in names for scope in name.split("/")[:-1] if _REPLICA.match(scope)})


@dataclass(frozen=True)
class OpLocation:
    """The part of a model to which an op belongs.

    part: layer path, line or scope
    kind: `LAYER`, `LINE` or `OP`: what the part is named after
    source: source line (`train.py:41`); "" where unknown
    text: text of that line; "" where unknown
    layer_type: class of the layer; "" for other parts
    is_backward: whether the op computes gradients, or updates a variable of the layer with them
    is_update: whether the op updates a variable of the layer
    is_frozen: whether the layer has weights, none of which train
    is_in_call: whether `source` is a line of the layer's own call, not the line that made the layer
    """

    part: str
    kind: str
    source: str = ""
    text: str = ""
    layer_type: str = ""
    is_backward: bool = False
    is_update: bool = False
    is_in_call: bool = False
    is_frozen: bool = False


class OpLocator:
    """Find the location of ops by name, from the record of one host.

    record: the record that the capture wrote beside the profile
    functions: names of the functions that the host's steps call
    """

    def __init__(self, record: Mapping[str, Any], functions: Iterable[str] = ()) -> None:
        sources = record.get("op_sources") or {}
        self._layers: dict[str, Mapping[str, Any]] = dict(record.get("layers") or {})
        self._roots = {path.partition("/")[0] for path in self._layers}
        self._models = {path for path, layer in self._layers.items() if layer["kind"] == "model" and not self._parent(path)}
        self._lines = sources.get("lines") or []
        self._ops = _merge_lines(sources.get("by_function") or {}, set(functions))
        self._scopes = _scopes(self._ops)
        self._metric_lines = {(m["file"], m["line"]) for m in self._layers.values() if m["kind"] == "metric" and m["file"]}
        self._known: dict[tuple[str, str], OpLocation] = {}

    def locate(self, name: str, op_type: str = "", source: str = "") -> OpLocation:
        """Return the location of an op.

        name: name of the op
        op_type: type of the op
        source: source line of the op in a compiled program
        """
        key = (name, source)
        if key not in self._known:
            self._known[key] = self._place(name, op_type, source)
        return self._known[key]

    def find_owner(self, scope: str) -> tuple[str, str]:
        """Return the owner of a scope in Keras and the line that created it: (`conv1d (Conv1D)`,
        `train.py:41`).

        Return ("", "") where the owner is unknown.
        """
        path = next((tail for tail in iter_tails(scope) if tail in self._layers), "")
        if not path:
            return "", ""
        layer = self._layers[path]
        return f"{self._layer_names(path) or layer['name']} ({layer['type']})", self._layer_text(layer)[0]

    def locate_line(self, name: str) -> str:
        """Return the program's own line that ran an op, of a layer's op the line that calls the
        model; "" where it is unknown.
        """
        segments, back = _split_name(name)
        return self._line_text(self._line(segments, segments[back:] if back else []))[0]

    def locate_loop(self, name: str) -> tuple[str, str]:
        """Return (source line, its text) of the innermost loop of a graph whose body holds an op;
        ("", "") where there is none, or its line is unknown.
        """
        segments, _ = _split_name(name)
        loops = (
            at + 1
            for at, (part, inner) in enumerate(pairwise(segments))
            if inner in ("body", "cond") and _LOOP.match(part.removesuffix("_grad"))
        )
        end = max(loops, default=0)
        path = "/".join(segments[:end]).removesuffix("_grad")
        return self._line_text(next((self._ops[tail] for tail in iter_tails(path) if tail in self._ops), None))

    def _place(self, name: str, op_type: str, source: str) -> OpLocation:
        if _COLLECTIVES.match(op_type):
            return OpLocation(COLLECTIVES, OP)
        if (other := classify_non_model_op(op_type)) is not None:
            return OpLocation(LOGS if other is EventFlag.SUMMARY_WRITE else TRANSFER_OPS, OP)
        segments, back = _split_name(name)
        stem = segments[back:]
        line = self._line(segments, stem if back else [])
        path = self._layer_path(segments)
        if path:
            location = self._layer_location(path, line, bool(back), segments[-1], source)
            if location is not None:
                return location
        if (role := _ROLE.search(source)) is not None:
            metric = next((item for item in self._layers.values() if item["kind"] == "metric" and item["file"]), None)
            made_at = self._layer_text(metric) if metric is not None and ROLES[role[1]] == METRICS else ("", "")
            return OpLocation(ROLES[role[1]], OP, *made_at, is_backward=bool(_BACK_JAX.search(name)))
        if source and not any(package in source for package in _PACKAGES):
            short = shorten_source_path(source)
            return OpLocation(short, LINE, short, "", "", bool(_BACK_JAX.search(name)))
        user_update = line is not None and op_type.startswith("Assign")  # a metric's counter, or an update that the user wrote
        if any(_OPTIMIZERS.match(part) for part in segments[:-1]) or (_UPDATES.match(op_type) and not user_update):
            return OpLocation(OPTIMIZER, OP, *self._line_text(line), "", False)
        if line is not None and tuple(self._lines[line][:2]) in self._metric_lines:
            return OpLocation(METRICS, OP, *self._line_text(line))
        if line is not None:
            return OpLocation(self._line_text(line)[0], LINE, *self._line_text(line), "", bool(back))
        return _scope_location(stem, bool(back or _BACK_JAX.search(name)))

    def _updated_layer(self, optimizer: Mapping[str, Any], name: str) -> OpLocation | None:
        """Return the layer whose variable an optimizer's op updates; None where it is unknown.

        It follows from the number of the op among the ops of the same name.
        """
        base, _, number = name.rpartition("_") if _NUMBERED.search(name) else (name, "", "0")
        per_variable = (optimizer.get("updates") or {}).get(base.lower())
        variables = optimizer.get("variables") or ()
        if not per_variable or int(number) // per_variable >= len(variables):
            return None
        owner = str(variables[int(number) // per_variable]).rpartition("/")[0]
        layer_name = owner.rpartition("/")[2]
        paths = {
            self._layer_names(path): path
            for path, layer in self._layers.items()
            if layer["kind"] == "layer" and layer["name"] == layer_name
        }
        location = self._layer_location(next(iter(paths.values())), None, True) if len(paths) == 1 else None
        return replace(location, is_update=True) if location else None

    def _layer_location(
        self, path: str, line: int | None, back: bool, name: str = "", op_source: str = ""
    ) -> OpLocation | None:
        """Return the location of an op in a layer's scope; None in a model's scope, whose own ops
        have lines.

        path: path of the layer
        line: index of the op's line
        back: whether the op computes gradients
        name: last part of the op's name
        op_source: source line of the op in a compiled program
        """
        layer = self._layers[path]
        kind = layer["kind"]
        if kind == "optimizer" and (updated := self._updated_layer(layer, name)) is not None:
            return updated
        if kind in ("optimizer", "metric"):
            return OpLocation(OPTIMIZER if kind == "optimizer" else METRICS, OP, *self._layer_text(layer), layer["type"], False)
        if kind == "model":
            return None
        while (parent := self._parent(path)) and layer["inner"] and self._layers[parent]["kind"] == "layer":
            path, layer = parent, self._layers[parent]  # layers inside a library's layer belong to that layer
        frozen = bool(layer.get("is_frozen"))
        located = partial(
            OpLocation, self._layer_names(path), LAYER, layer_type=layer["type"], is_backward=back, is_frozen=frozen
        )
        if line is not None and layer["call_line"]:
            source, text = self._line_text(line)
            return located(source=source, text=text, is_in_call=True)
        if layer["call_line"] and op_source.rpartition(":")[0] == layer["call_file"]:
            return located(source=shorten_source_path(op_source), is_in_call=True)
        source, text = self._layer_text(layer)
        return located(source=source, text=text)

    def _layer_names(self, path: str) -> str:
        """Return the names of a layer and of the layers around it, joined with "/".

        The model's own name is included only where there are several models.
        """
        names, layer = [], path
        while layer:
            if not (layer in self._models and len({self._layers[model]["name"] for model in self._models}) == 1):
                names.append(str(self._layers[layer]["name"]))
            layer = self._parent(layer)
        return "/".join(reversed(names))

    def _parent(self, path: str) -> str:
        while path := path.rpartition("/")[0]:
            if path in self._layers:
                break
        return path

    def _layer_path(self, segments: list[str]) -> str:
        """Return the longest known path of a layer in the segments of a name; "" without any."""
        best, length = "", 0
        for first, segment in enumerate(segments[:-1]):
            if segment in self._roots:
                for last in range(len(segments) - 1, first + length, -1):
                    path = "/".join(segments[first:last])
                    if path in self._layers:
                        best, length = path, last - first
                        break
        return best

    def _line(self, segments: list[str], stem: list[str]) -> int | None:
        """Return the index of an op's line; None where it is unknown.

        The line is that of the op's own name, else of the op or scope of which it is the gradient,
        or from which it was derived.
        """
        if not self._ops:
            return None
        for own in iter_tails("/".join(segments)):
            if (line := self._ops.get(own)) is not None:
                return line
        tail = stem or segments
        for first in range(len(tail)):
            for last in range(len(tail), first, -1):
                if (line := self._scopes.get("/".join(tail[first:last]))) is not None:
                    return line
        return None

    def _line_text(self, line: int | None) -> tuple[str, str]:
        if line is None:
            return "", ""
        file, number, text = self._lines[line]
        return format_source_line(file, number), str(text)

    @staticmethod
    def _layer_text(layer: Mapping[str, Any]) -> tuple[str, str]:
        return (format_source_line(layer["file"], layer["line"]), str(layer["text"])) if layer["file"] else ("", "")


def _split_name(name: str) -> tuple[list[str], int]:
    """Return (segments of a name, index at which the forward op's name begins; 0 for a forward op).

    JAX's transformations are removed.
    """
    segments = []
    for part in name.split("/"):
        while match := _WRAPPED_JAX.match(part):
            part = match.group(1)
        if part:
            segments.append(part)
    marks = [at for at, part in enumerate(segments) if _BACK.match(part)]
    if not marks:
        return segments or [name], 0
    back = min(marks[-1] + 1, len(segments) - 1)
    if len(segments) > back + 2 and segments[-2].endswith("_grad"):
        del segments[-1]  # `dense/MatMul_grad/MatMul_1` is a gradient of `dense/MatMul`
    return [part[: -len("_grad")] if at >= back and part.endswith("_grad") else part for at, part in enumerate(segments)], back


def _merge_lines(by_function: Mapping[str, Mapping[str, int]], called: set[str]) -> dict[str, int]:
    """Return the line of each op, merged over functions."""
    merged: dict[str, int] = {}
    for function in reversed(choose_functions(by_function, called)):
        merged.update(by_function[function])
    return merged


def choose_functions(recorded: Iterable[str], called: set[str]) -> list[str]:
    """Return the functions of a record that a host ran: those that were called, else those with the
    same base name, else all.
    """
    names, bases = list(recorded), {_base(name) for name in called}
    return [f for f in names if f in called] or [f for f in names if _base(f) in bases] or names


def iter_tails(name: str) -> Iterator[str]:
    """Yield an op's name, and what is left of it without its outer scopes one after the other."""
    segments = name.split("/")
    yield from ("/".join(segments[first:]) for first in range(len(segments)))


def _base(function: str) -> str:
    """Return the base name of a function: `train_step` for `__inference_train_step_258`."""
    return re.sub(r"^__(?:inference|forward|backward)_|_\d+$", "", function)


def _scopes(ops: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent line of each op and of each scope.

    A line of an op of that very name takes precedence over the lines of ops below a scope.
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for op, line in ops.items():
        votes[op][line] += 1_000_000
        while op := op.rpartition("/")[0]:
            votes[op][line] += 1
    return {scope: lines.most_common(1)[0][0] for scope, lines in votes.items()}


def _scope_location(stem: list[str], back: bool) -> OpLocation:
    """Return the location that follows from the name alone.

    This is Keras' scope of a layer, the loss or metrics, the scope around the op, or the op itself.
    """
    called = [at for at, part in enumerate(stem[:-1]) if _INLINED.match(part)]
    parts = [part for part in stem[called[-1] + 1 if called else 0 :] if not _REPLICA.match(part)] or stem[-1:]
    if parts[0].startswith("compile_loss"):
        return OpLocation(LOSS, OP, is_backward=back)
    if parts[0].startswith("compile_metrics"):
        return OpLocation(METRICS, OP)
    if len(parts) > 2 and _KERAS_ROOT.match(parts[0]):
        return OpLocation(parts[1], LAYER, is_backward=back)
    return OpLocation("/".join(parts[:-1]) or parts[0], OP, is_backward=back)
