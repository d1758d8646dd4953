"""Which part of a model an op belongs to: the Keras layer, the user's line, or the scope that its
name tells.

A capture by Outpace notes the user's line of each op and the owner of each name scope (`OpSources`,
`LayerSource`); profiles of others have op names alone. An event names the op of an inlined function
after the call (`StatefulPartitionedCall/functional_1/dense_1/MatMul`), so what the record knows is
looked for at the end of the name. A gradient op belongs where its forward op does, which its name
tells (`gradient_tape/functional_1/dense_1/MatMul/MatMul_1`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.source_line import format_source_line, shorten_source_path
from outpace.timeline.event_names import EventFlag, classify_non_model_op

LAYER, LINE, OP = "layer", "line", "op"
OPTIMIZER, METRICS, LOSS, COLLECTIVES = "optimizer", "metrics", "loss", "collectives"
LOGS, TRANSFER_OPS = "logs", "transfers"  # no part of a model
_BACK = re.compile(r"^(?:gradient_tape|gradients(?:_\d+)?)$")
_BACK_JAX = re.compile(r"transpose\(")
_WRAPPED_JAX = re.compile(r"^(?:jit|jvp|vmap|transpose|remat|checkpoint|custom_[a-z_]+)\((.*)\)$")
_INLINED = re.compile(
    r"^(?:_\d+|(?:Stateful)?PartitionedCall(?:_\d+)?)$"
)  # what inlining puts before the names of a function's ops
_REPLICA = re.compile(r"^replica_\d+$")
_COLLECTIVES = re.compile(r"^(?:Collective|Nccl|all-(?:reduce|gather|to-all)|reduce-scatter|collective-)")
_OPTIMIZERS = re.compile(
    r"^(?:adam|adamw|adamax|nadam|sgd|rmsprop|adagrad|adadelta|ftrl|lion|lamb|muon|adafactor|optimizer)(?:_\d+)?$",
    re.IGNORECASE,
)
_UPDATES = re.compile(r"^(?:Resource)?(?:Sparse)?Apply[A-Z]|^ResourceApply|^Assign(?:Add|Sub)?VariableOp$|^ResourceScatter")
_KERAS_ROOT = re.compile(r"^(?:functional|sequential|model)(?:_\d+)?$")
_NUMBERED = re.compile(r"_\d+$")
_PACKAGES = ("/site-packages/", "/dist-packages/")


def count_replicas(names: Iterable[str]) -> int:
    """How many copies of a model the ops are of, by the scopes of a distribution strategy: the
    first one's ops have none, or `replica`.
    """
    return 1 + len({scope for name in names for scope in name.split("/")[:-1] if _REPLICA.match(scope)})


@dataclass(frozen=True)
class OpLocation:
    """`part`: layer path, line or scope, as `kind` says; `source` (`train.py:41`) and `text` of the
    line, empty where unknown; `of`: class of the layer; `is_backward`: whether the op computes
    gradients, or with them updates a variable of the layer (`is_update`).
    """

    part: str
    kind: str
    source: str = ""
    text: str = ""
    layer_type: str = ""
    is_backward: bool = False
    is_update: bool = False


class OpLocator:
    """Places of ops by name, from one host's record; `functions` are the names of the functions
    that its steps call.
    """

    def __init__(self, record: Mapping[str, Any], functions: Iterable[str] = ()) -> None:
        sources = record.get("op_sources") or {}
        self._layers: dict[str, Mapping[str, Any]] = dict(record.get("layers") or {})
        self._roots = {path.partition("/")[0] for path in self._layers}
        self._models = {path for path, layer in self._layers.items() if layer["kind"] == "model" and not self._parent(path)}
        self._lines = sources.get("lines") or []
        self._ops = _merged(sources.get("by_function") or {}, set(functions))
        self._scopes = _scopes(self._ops)
        self._known: dict[tuple[str, str], OpLocation] = {}

    def locate(self, name: str, op_type: str = "", source: str = "") -> OpLocation:
        """The place of an op. `source` is the line that a compiled program itself gives for it."""
        key = (name, source)
        if key not in self._known:
            self._known[key] = self._place(name, op_type, source)
        return self._known[key]

    def find_owner(self, scope: str) -> tuple[str, str]:
        """What of Keras opened a scope, by its own name, with its class, and the line that made it:
        (`conv1d (Conv1D)`, `train.py:41`); empty where they are unknown.
        """
        segments = scope.split("/")
        tails = ("/".join(segments[first:]) for first in range(len(segments)))
        path = next((tail for tail in tails if tail in self._layers), "")
        if not path:
            return "", ""
        layer = self._layers[path]
        return f"{self._named(path) or layer['name']} ({layer['type']})", self._made(layer)[0]

    def _place(self, name: str, op_type: str, source: str) -> OpLocation:
        if _COLLECTIVES.match(op_type):
            return OpLocation(COLLECTIVES, OP)
        if (other := classify_non_model_op(op_type)) is not None:
            return OpLocation(LOGS if other is EventFlag.SUMMARY_WRITE else TRANSFER_OPS, OP)
        segments, back = _plain(name)
        stem = segments[back:]
        line = self._line(segments, stem if back else [])
        path = self._layer_path(segments)
        if path:
            found = self._of_layer(path, line, bool(back), segments[-1])
            if found is not None:
                return found
        if source and not any(package in source for package in _PACKAGES):
            shown = shorten_source_path(source)
            return OpLocation(shown, LINE, shown, "", "", bool(_BACK_JAX.search(name)))
        own = line is not None and op_type.startswith("Assign")  # a metric's count, or an update that the user wrote
        if any(_OPTIMIZERS.match(part) for part in segments[:-1]) or (_UPDATES.match(op_type) and not own):
            return OpLocation(OPTIMIZER, OP, *self._shown(line), "", False)
        if line is not None:
            return OpLocation(self._shown(line)[0], LINE, *self._shown(line), "", bool(back))
        return _by_scope(stem, bool(back or _BACK_JAX.search(name)))

    def _updated(self, optimizer: Mapping[str, Any], name: str) -> OpLocation | None:
        """The layer whose variable an optimizer's op updates, by the op's number among those of its
        name; None where that is not known.
        """
        base, _, number = name.rpartition("_") if _NUMBERED.search(name) else (name, "", "0")
        each = (optimizer.get("updates") or {}).get(base.lower())
        variables = optimizer.get("variables") or ()
        if not each or int(number) // each >= len(variables):
            return None
        owner = str(variables[int(number) // each]).rpartition("/")[0]
        own = owner.rpartition("/")[2]
        paths = {self._named(p): p for p, layer in self._layers.items() if layer["kind"] == "layer" and layer["name"] == own}
        found = self._of_layer(next(iter(paths.values())), None, True) if len(paths) == 1 else None
        return replace(found, is_update=True) if found else None

    def _of_layer(self, path: str, line: int | None, back: bool, name: str = "") -> OpLocation | None:
        """The place of an op in a layer's scope; None where the scope is a model's, whose own ops
        have lines. `name`: the op's own.
        """
        layer = self._layers[path]
        kind = layer["kind"]
        if kind == "optimizer" and (updated := self._updated(layer, name)) is not None:
            return updated
        if kind in ("optimizer", "metric"):
            return OpLocation(OPTIMIZER if kind == "optimizer" else METRICS, OP, *self._made(layer), layer["type"], False)
        if kind == "model":
            return None
        while (parent := self._parent(path)) and layer["inner"] and self._layers[parent]["kind"] == "layer":
            path, layer = parent, self._layers[parent]  # what a library's layer is made of is the library's business
        source = self._shown(line) if line is not None and layer["call_line"] else self._made(layer)
        return OpLocation(self._named(path), LAYER, *source, layer["type"], back)

    def _named(self, path: str) -> str:
        """The layers around a layer and its own name, the model's only where there are several
        models.
        """
        names, at = [], path
        while at:
            if not (at in self._models and len({self._layers[m]["name"] for m in self._models}) == 1):
                names.append(str(self._layers[at]["name"]))
            at = self._parent(at)
        return "/".join(reversed(names))

    def _parent(self, path: str) -> str:
        while path := path.rpartition("/")[0]:
            if path in self._layers:
                break
        return path

    def _layer_path(self, segments: list[str]) -> str:
        """The longest known path of a layer in a name."""
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
        """Index of an op's line: by its own name, else by the op or scope that it is the gradient
        of or was derived from.
        """
        if not self._ops:
            return None
        for first in range(len(segments)):
            if (known := self._ops.get("/".join(segments[first:]))) is not None:
                return known
        tail = stem or segments
        for first in range(len(tail)):
            for last in range(len(tail), first, -1):
                if (known := self._scopes.get("/".join(tail[first:last]))) is not None:
                    return known
        return None

    def _shown(self, line: int | None) -> tuple[str, str]:
        if line is None:
            return "", ""
        file, number, text = self._lines[line]
        return format_source_line(file, number), str(text)

    @staticmethod
    def _made(layer: Mapping[str, Any]) -> tuple[str, str]:
        return (format_source_line(layer["file"], layer["line"]), str(layer["text"])) if layer["file"] else ("", "")


def _plain(name: str) -> tuple[list[str], int]:
    """(segments of a name, where the forward op's name begins in it: 0 for a forward op); JAX's
    wrappers are taken off.
    """
    segments = []
    for part in name.split("/"):
        while found := _WRAPPED_JAX.match(part):
            part = found.group(1)
        if part:
            segments.append(part)
    marks = [at for at, part in enumerate(segments) if _BACK.match(part)]
    if not marks:
        return segments or [name], 0
    back = min(marks[-1] + 1, len(segments) - 1)
    if len(segments) > back + 2 and segments[-2].endswith("_grad"):
        del segments[-1]  # `dense/MatMul_grad/MatMul_1` is a gradient of `dense/MatMul`
    return [part[: -len("_grad")] if at >= back and part.endswith("_grad") else part for at, part in enumerate(segments)], back


def _merged(by_function: Mapping[str, Mapping[str, int]], called: set[str]) -> dict[str, int]:
    """Lines of ops: of the functions that were called if they are known, else of those with their
    names, else of all.
    """
    bases = {_base(name) for name in called}
    chosen = [f for f in by_function if f in called] or [f for f in by_function if _base(f) in bases] or list(by_function)
    merged: dict[str, int] = {}
    for function in reversed(chosen):
        merged.update(by_function[function])
    return merged


def _base(function: str) -> str:
    """`train_step` of `__inference_train_step_258`, `__forward_train_step_301`."""
    return re.sub(r"^__(?:inference|forward|backward)_|_\d+$", "", function)


def _scopes(ops: Mapping[str, int]) -> dict[str, int]:
    """The most frequent line of each op and of each scope of ops; scopes that one op alone names
    are as good as the op.
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for op, line in ops.items():
        votes[op][line] += 1_000_000
        while op := op.rpartition("/")[0]:
            votes[op][line] += 1
    return {scope: lines.most_common(1)[0][0] for scope, lines in votes.items()}


def _by_scope(stem: list[str], back: bool) -> OpLocation:
    """The place that a name alone tells: Keras' scope of a layer, the loss, the scope around the
    op, the op itself.
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
