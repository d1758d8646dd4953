# SPDX-License-Identifier: Apache-2.0
"""Advice on a backward pass that runs several times in each step: once for each loss, say."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.source_line import format_source_line
from outpace.metrics.views.model_parts import located_ops
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit
from outpace.timeline import Run
from outpace.timeline.function_calls import called_functions
from outpace.tools.model_time.work_summary import compute_saving

_TIME = Threshold(
    "time in repeated backward passes", 0.10, Unit.FRACTION, "our choice: a smaller gain is not worth another loss"
)


def iter_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on the functions of one host that compute the same gradients several
    times.
    """
    called = called_functions(run.by_host[host].trace)
    repeated = (run.record(host).get("op_sources") or {}).get("repeated") or {}
    found = [again for function, again in repeated.items() if function in called]
    if not found:
        return
    again = max(found, key=lambda item: item["times"])
    backward = sum(
        ops.step_share(op.wall_ps)
        for ops, located in located_ops(run)
        if ops.host == host
        for op in located
        if op.location.is_backward and not op.location.is_update
    )
    share = min(backward, 1.0) * (1 - 1 / again["times"])
    if share < _TIME.value:
        return
    at = format_source_line(again["file"], again["line"])
    yield Finding(
        id="repeated_backward",
        severity=Severity.HIGH,
        sentence=f"The backward pass runs {again['times']} times in each step{f', the last one at {at}' if at else ''}: {backward:.0%} of the "
        "step goes to gradients.",
        action="Ask once, for the summed loss's gradient (tape.gradient), where the gradients of several losses are only added up.",
        evidence=(Evidence("share of the step in gradients", backward, Unit.FRACTION, "model_parts"),),
        threshold=_TIME,
        saving=compute_saving(share, "if it ran once"),
        counter_evidence=("Gradients that are clipped, weighed or looked at one by one have to be computed one by one.",),
        location=at,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound"),
    )
