# SPDX-License-Identifier: Apache-2.0
"""The page of name scopes."""

from __future__ import annotations

from typing import Any

from outpace._lazy import compile_lazily
from outpace.metrics.op_scopes import NO_SCOPE
from outpace.metrics.views.model_parts import op_locators
from outpace.model import (
    Chart,
    ChartKind,
    IcicleColumns,
    Page,
    Section,
    Table,
    TableView,
    Unavailable,
    UsageError,
    select_nonempty,
)
from outpace.model.text import format_largest_part
from outpace.timeline import Run
from outpace.tools.scopes import TOOL
from outpace.tools.scopes import layers as keras
from outpace.tools.scopes.compute import MAX_DEPTH, ScopeTree, build_scope_tree, compute_scope_ops, compute_scopes
from outpace.tools.scopes.layers import of_model
from outpace.tools.scopes.lines import compute_source_lines

__all__ = ["analyse", "of_model"]

_MOST_OF = 0.8  # minimum share of a scope's time that an inner scope must take for the headline to name the inner one
_OF_TYPES = ("scope", "type", "side", "occurrences", "self_ps", "allocated_bytes")
_SCOPES = ("id", "keras", "source", "total_ps", "fraction", "self_ps", "occurrences", "ops", "allocated_bytes")
_UNNAMED = tuple(name for name in _SCOPES if name not in ("keras", "source"))
_KERAS = compile_lazily(r":(?:gradient_tape/)?(?:functional|sequential|model)(?:_\d+)?$")
_NUMBERS = (
    "Keras numbers the scopes of layers: the layer 'dense' stands under 'dense_1'. A capture by 'outpace profile' names the layers, and "
    "the lines that made them."
)
_NONE = Unavailable("no op with a name was recorded", "Capture with host tracer level 2 (the default of 'outpace profile').")


def analyse(run: Run, *, model: Any = None, max_depth: int = MAX_DEPTH, show_trainable: bool = True) -> Page:
    """Build the page of a run.

    `model`, a Keras model, adds parameters, FLOPs and time by layer. `max_depth` limits the levels
    of the tree; deeper ops count for the scope at that depth. `show_trainable` adds a column of
    trainable parameters. Raises UsageError where `max_depth` is below 1.
    """
    if max_depth < 1:
        raise UsageError(f"max_depth must be at least 1, not {max_depth}.")
    tree = build_scope_tree(run, max_depth)
    table, code = compute_scopes(tree, op_locators(run).values()), compute_source_lines(run)
    sections: list[Section] = (
        list(keras.build_sections(keras.compute_layers(model, run, max_depth), show_trainable)) if model is not None else []
    )
    for side in ("Device", "Host"):
        side_scopes = table.take(table["side"] == side)
        if len(side_scopes):
            named = Table(f"{side.lower()}_scopes", f"Scopes on the {side.lower()}", side_scopes.fields, side_scopes.columns)
            title = f"Self time by scope on the {side.lower()}"
            sections.append(Chart(title, ChartKind.ICICLE, named, "id", IcicleColumns("parent", "scope", "total_ps").series))
            sections.append(
                TableView(
                    named, _SCOPES if any(named["keras"].tolist()) else _UNNAMED, limit=10, remark=_numbering_remark(named)
                )
            )
    sections += select_nonempty(TableView(code, ("source", "what", "occurrences", "total_ps", "self_ps"), limit=15))
    if not sections:
        return TOOL.page(unavailable=_NONE)
    sections.append(
        TableView(compute_scope_ops(tree), _OF_TYPES, limit=10, pick=("side",), by=("scope", "type", "side"), sums=("self_ps",))
    )
    return TOOL.page(_headline(tree, table, code), sections)


def _numbering_remark(table: Table) -> str:
    """Return the remark on how Keras numbers the scopes of layers, where the capture did not record
    which layer opened them; else "".
    """
    unknown = not any(table["keras"].tolist()) and any(map(_KERAS.search, table["id"].tolist()))
    return _NUMBERS if unknown else ""


def _headline(tree: ScopeTree, table: Table, code: Table) -> str:
    """Return a headline: the largest scope, or the inner one that takes most of its time; without
    scopes, the largest source line.
    """
    if not len(table):
        return f"{next(code.records())['source']} takes the most time of all source lines."
    side = "Device" if "Device" in table["side"] else "Host"
    where = (
        f"of the time of framework ops on the {side.lower()}, tf.data left out"
        if side == "Host"
        else "of the op time on the device"
    )
    node = _longest(table.take((table["side"] == side) & (table["depth"] == 0)))
    if node["scope"] == NO_SCOPE:
        kind, (_, self_ps, _) = max(tree[side, (NO_SCOPE,)].op_types.items(), key=lambda item: item[1][1])
        most = f", {format_largest_part(kind, self_ps, node['total_ps'])}"
        return f"Ops outside of any scope take {node['fraction']:.0%} {where}{most}."
    while len(below := table.take((table["parent"] == node["id"]) & (table["total_ps"] >= _MOST_OF * node["total_ps"]))):
        node = _longest(below)
    return f"{node['id'].partition(':')[2]} takes {node['fraction']:.0%} {where}."


def _longest(table: Table) -> dict[str, Any]:
    return next(table.sort_by("total_ps").take(slice(1)).records())
