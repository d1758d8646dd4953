# SPDX-License-Identifier: Apache-2.0
"""Advice on tables of TensorFlow of which a step looks up few rows, and over all rows of which it
goes all the same: an optimizer does, and the gradient of what takes the whole table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from outpace.metrics.facts.graph_costs import LookupTable, graph_costs
from outpace.metrics.facts.workload import Workload
from outpace.metrics.views.model_parts import located_ops, op_locators
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit
from outpace.timeline import Run
from outpace.tools.model_time.parts import format_source
from outpace.tools.model_time.work_summary import compute_saving

_ROWS = Threshold("rows that a step looks up", 0.25, Unit.FRACTION, "our choice: of a small table most rows may be needed")
_TIME = Threshold("time in all rows of a table", 0.15, Unit.FRACTION, "our choice: less is the price of a plain update")


def iter_findings(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on each table of one host over all rows of which much of the step goes."""
    costs = graph_costs(run).get(host)
    if costs is None:
        return
    for table in costs.find_tables():
        if not table.share <= _ROWS.value:  # NaN where it is not known
            continue
        share, lines = 0.0, defaultdict[str, float](float)
        for ops, located in located_ops(run):
            for op in located if ops.host == host else ():
                if costs.takes_table(op.name, table):
                    share += ops.step_share(op.wall_ps)
                    lines[format_source(op.location.source)] += op.wall_ps
        if share >= _TIME.value:
            line = max(lines, key=lines.__getitem__)
            yield _finding(run, host, table, min(share, 1.0), line, program)


def _finding(run: Run, host: str, table: LookupTable, share: float, line: str, program: Workload) -> Finding:
    """Return the finding on one table. `line`: line with most of the time."""
    locator = op_locators(run)[host]
    looked_up, taken = (format_source(locator.locate(name).source) if name else "" for name in (table.lookup, table.reader))
    few = f"of which a step looks up {table.share:.1%} at most{f' (at {looked_up})' if looked_up else ''}"
    place = taken or looked_up or line
    sentence, action = (
        f"{share:.0%} of the step goes over all rows of a table, {few}.",
        program.select_text(
            keras="Update only the rows that a batch reads: plain SGD does with a sparse gradient, Adam goes over the whole table (it changes "
            "the training). Or make the table smaller (fewer rows for rare ids: keras.layers.Hashing).",
            tensorflow="Update only the rows that a batch reads: plain SGD does with tf.IndexedSlices, Adam goes over the whole table (it "
            "changes the training).",
            jax="Update only the rows that a step reads (it changes the training).",
        ),
    )
    if table.reader:
        by = taken or table.reader
        sentence = f"{share:.0%} of the step goes over all rows of a table, {few}: {by} takes all of them, so that each has a gradient."
        action = (
            "Take only the rows that are looked up, there too (tf.gather(table, ids)): the gradient then stays sparse (tf.IndexedSlices), and "
            "so does the update (it changes the training)."
        )
    return Finding(
        id="idle_updates",
        severity=Severity.HIGH,
        sentence=sentence,
        action=action,
        evidence=(
            Evidence("share of the step in ops on all of its rows", share, Unit.FRACTION, "model_parts"),
            Evidence("rows that a step looks up, at most", table.share, Unit.FRACTION, "model_parts"),
        ),
        threshold=_TIME,
        saving=compute_saving(share * (1 - table.share), "if only the rows that a step looks up were touched"),
        location=place,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL if table.reader else Effort.MEDIUM,
        explains=("slow_part", "slow_kind", "model_bound", "small_ops"),
    )
