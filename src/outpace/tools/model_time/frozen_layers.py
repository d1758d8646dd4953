# SPDX-License-Identifier: Apache-2.0
"""Advice on layers that do not train: an example gives the same there in every epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.metrics.facts.hlo_instructions import instruction_stats
from outpace.metrics.facts.op_locations import LAYER, OpLocation
from outpace.metrics.views.model_parts import located_ops, op_locators
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit
from outpace.model.text import join_names
from outpace.timeline import Run
from outpace.tools.model_time.parts import format_source
from outpace.tools.model_time.work_summary import compute_saving

_FROZEN = Threshold("layers that do not train", 0.20, Unit.FRACTION, "our choice: less is not worth storing their outputs")
_BACKWARD = 0.1  # maximum share of frozen layers' time in gradients, for none to be taken through them


@dataclass(frozen=True)
class _LayerTime:
    """Time of a layer's ops on one line of the program.

    place: location of the ops.
    line: the program's line that runs them, or, where that is unknown, that made the layer.
    share: share of the step.
    """

    place: OpLocation
    line: str
    share: float


def iter_frozen_layer_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on layers of Keras that do not train, and through which no gradient goes:
    their outputs can be computed once for each example.
    """
    times = list(_iter_layer_times(run, host))
    frozen = [time for time in times if time.place.is_frozen]
    share = min(1.0, sum(time.share for time in frozen))
    back = sum(time.share for time in frozen if time.place.is_backward)
    trains = any(time.place.is_backward for time in times if not time.place.is_frozen)
    if share < _FROZEN.value or back > _BACKWARD * share or not trains:
        return
    names, lines = defaultdict[str, float](float), defaultdict[str, float](float)
    for time in frozen:
        names[format_source(time.place.part)] += time.share
        lines[time.line] += time.share
    line = max(lines, key=lines.__getitem__)
    yield Finding(
        id="frozen_layers",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step computes layers that do not train{f', at {line}' * bool(line)}: "
        f"{join_names(sorted(names, key=lambda name: -names[name]))}. An example gives the same there in every epoch.",
        action="Compute frozen layers once per example, before the training or in a map of the data set with .cache() behind it, and train "
        "on their outputs, where the examples are not augmented.",
        evidence=(Evidence("share of the step in layers that do not train", share, Unit.FRACTION, "model_parts"),),
        threshold=_FROZEN,
        counter_evidence=("With augmentation, or where their weights are exchanged, they must be computed anew.",),
        saving=compute_saving(share, "if their outputs were only read"),
        location=line,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.MEDIUM,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share", "small_ops"),
    )


def _iter_layer_times(run: Run, host: str) -> Iterator[_LayerTime]:
    """Yield the times of all layers of a host: of its compiled programs, else of its ops."""
    locator, ran = op_locators(run)[host], instruction_stats(run).get(host, ())
    for r in ran:
        place = locator.locate(r.op.framework_op, r.op.opcode, r.op.source)
        if place.kind == LAYER:
            yield _LayerTime(place, format_source(r.op.source), r.share)
    for ops, executed in located_ops(run) if not ran else ():
        for op in executed if ops.host == host else ():
            if op.location.kind == LAYER:
                line = locator.locate_line(op.name) or format_source(op.location.source)
                yield _LayerTime(op.location, line, ops.step_share(op.wall_ps + op.overhead_ps))
