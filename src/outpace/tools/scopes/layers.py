# SPDX-License-Identifier: Apache-2.0
"""Parameters, FLOPs and time of every layer of a Keras model object that the user passes.

Keras itself is not imported: the model is read through its attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.op_scopes import parse_scopes
from outpace.model import Chart, ChartKind, Figure, Figures, IcicleColumns, Page, Table, TableView, Unit, UsageError
from outpace.timeline import Run
from outpace.tools.scopes import TOOL
from outpace.tools.scopes.compute import MAX_DEPTH
from outpace.tools.scopes.schema import LAYERS

_GRADIENT = "gradient_tape"
_NAN = float("nan")
_NO_FLOPS = ("InputLayer", "Flatten", "Reshape", "Dropout", "Permute", "ZeroPadding2D", "Cropping2D", "RandomFlip")


@dataclass(frozen=True)
class Layer:
    """One layer of a model.

    path: names from the model down to the layer.
    keras_layer: the Keras layer.
    """

    path: tuple[str, ...]
    keras_layer: Any


def of_model(model: Any, *, max_depth: int = MAX_DEPTH, show_trainable: bool = True) -> Page:
    """Build the page with parameters and FLOPs of every layer of a Keras model, without a profile.
    Raises UsageError for anything other than a built Keras model.

    Users call it as `outpace.scopes(model)`.
    """
    table = compute_layers(model, None, max_depth)
    return Page(
        TOOL.id,
        f"Layers of {model.name}",
        "Where are the model's parameters and FLOPs?",
        _headline(table),
        build_sections(table, show_trainable),
    )


def build_sections(layers: Table, show_trainable: bool = True) -> tuple[Figures | Chart | TableView, ...]:
    """Return the sections that a page shows of the layers."""
    top = next(layers.records())
    columns = ["layer", "type", "output", "parameters", *(["trainable"] if show_trainable else []), "flops"]
    timed = any(row["forward_ps"] is not None for row in layers.records())
    if timed:
        columns[3:3] = ["forward_ps", "backward_ps", "share"]
    items = (
        Figure("Parameters", top["parameters"], Unit.COUNT, f"{top['trainable']:,} of them trainable"),
        Figure("Forward pass", top["flops"], Unit.COUNT, "FLOPs per example, of the layers that are known"),
    )
    inner = layers.take(layers["depth"] > 0)
    size = "parameters"
    return (
        Figures("Model", items),
        Chart("Parameters by layer", ChartKind.ICICLE, inner, "id", IcicleColumns("parent", "layer", size).series),
        TableView(inner, tuple(columns), limit=40),
    )


def compute_layers(model: Any, run: Run | None, max_depth: int = MAX_DEPTH) -> Table:
    """Return table `LAYERS`: a row per layer, the model first; with a run, also the time of each
    layer's ops. Raises UsageError for anything other than a built Keras model.
    """
    if not hasattr(model, "layers") or not hasattr(model, "count_params"):
        raise UsageError(f"A Keras model is needed, not a {type(model).__name__}.")
    if not getattr(model, "built", True):
        raise UsageError(
            f"The model '{model.name}' has no weights yet: call it once, or give it an Input, before asking for its layers."
        )
    layers = [Layer((model.name,), model), *_walk(model, (model.name,), max_depth)]
    times = _times(run, {layer.path[-1] for layer in layers}) if run is not None else {}
    inner = sum(
        sum(times.get(layer.path[-1], (0, 0))) for layer in layers if len(layer.path) > 1 and not _children(layer.keras_layer)
    )
    rows = []
    for item in layers:
        forward, backward = times.get(item.path[-1], (0, 0)) if run is not None else (_NAN, _NAN)
        share = (forward + backward) / inner if inner else _NAN
        row = LAYERS.row(
            id="/".join(item.path),
            parent="/".join(item.path[:-1]),
            layer=item.path[-1],
            type=type(item.keras_layer).__name__,
            depth=len(item.path) - 1,
            output=_output(item.keras_layer),
            parameters=int(item.keras_layer.count_params()),
            trainable=_trainable(item.keras_layer),
            flops=estimate_flops(item.keras_layer),
            forward_ps=forward,
            backward_ps=backward,
            share=min(share, 1.0) if share == share else _NAN,
        )
        rows.append(row)
    return LAYERS.build(rows)


def _headline(table: Table) -> str:
    rows = [row for row in table.records() if row["depth"] > 0]
    if not rows:
        return "The model has no layers."
    most = max(rows, key=lambda row: int(row["parameters"]))
    whole = max(next(table.records())["parameters"], 1)
    return f"{most['layer']} ({most['type']}) holds {most['parameters'] / whole:.0%} of the {whole:,} parameters."


def _walk(layer: Any, path: tuple[str, ...], max_depth: int) -> Iterator[Layer]:
    for child in _children(layer):
        here = (*path, child.name)
        yield Layer(here, child)
        if len(here) < max_depth:
            yield from _walk(child, here, max_depth)


def _children(layer: Any) -> list[Any]:
    return list(getattr(layer, "layers", None) or ())


def _trainable(layer: Any) -> int:
    return sum(math.prod(w.shape) for w in layer.trainable_weights)


def _output(layer: Any) -> str:
    shape = _shape(layer)
    return "" if shape is None else "×".join("?" if n is None else str(n) for n in shape)


def _shape(layer: Any) -> tuple[int | None, ...] | None:
    try:
        shape = layer.output.shape
        return tuple(None if n is None else int(n) for n in shape)
    except (AttributeError, ValueError, TypeError):  # the layer was called several times, or has several outputs
        return None


def estimate_flops(layer: Any) -> float:
    """Return the FLOPs of one example's forward pass: two per weight of the kernel and position of
    the output. NaN where the formula does not hold.
    """
    children = _children(layer)
    if children:
        child_flops = [estimate_flops(child) for child in children]
        return sum(n for n in child_flops if n == n)
    kind, shape = type(layer).__name__, _shape(layer)
    if kind in _NO_FLOPS:
        return 0.0
    if shape is None or any(n is None for n in shape[1:]):
        return _NAN
    sizes = [n for n in shape[1:] if n is not None]
    kernel = getattr(layer, "kernel", None)
    if kernel is None or kind.startswith(("LSTM", "GRU", "SimpleRNN", "EinsumDense", "Separable")):
        return _NAN if getattr(layer, "weights", None) else float(math.prod(sizes))
    channels = sizes[:1] if getattr(layer, "data_format", "channels_last") == "channels_first" else sizes[-1:]
    return float(2 * math.prod(int(n) for n in kernel.shape) * math.prod(sizes) / math.prod(channels))


def _times(run: Run, names: set[str]) -> dict[str, tuple[int, int]]:
    """Return (forward, backward) self time of the ops below each scope with one of these names, ps;
    a name that occurs twice in an op's path counts once.
    """
    times: dict[str, tuple[int, int]] = {}
    for row in op_metrics(run).records():
        if row["idle"]:
            continue
        path = parse_scopes(row["name"])
        backward = path[0] == _GRADIENT
        for name in names.intersection(path):
            pair = times.get(name, (0, 0))
            times[name] = (pair[0], pair[1] + row["self_ps"]) if backward else (pair[0] + row["self_ps"], pair[1])
    return times
