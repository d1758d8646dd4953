# SPDX-License-Identifier: Apache-2.0
"""Steps of loops that run ahead: JAX returns from a call before its program has run, and dozens of
calls may be queued.

The time from call to call is then the time of queueing, until the queue is full; a single call that
waits for the program contains the work of all. A capture may even have only the runs, whose calls
were before it. So steps are derived from the runs of the program: a step ends when its run ends.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model import median
from outpace.model.arrays import Indices, Numbers, Picoseconds
from outpace.timeline.builds import find_autotuning_launches
from outpace.timeline.causality import find_launches
from outpace.timeline.event_names import event_names
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.op_names import OpKind
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import find_positions, intersect_indices

TOO_FEW_EXECUTIONS = 3  # number of runs of a program up to which they show no step
_ONE_QUEUE = 0.5  # maximum share of runs that begin before the previous one ends; above, devices of one host run in parallel
_WHOLE = 0.9  # minimum share of the other runs' ops from which a run counts as complete, not cut off by the capture


@dataclass(frozen=True, eq=False)
class ModuleExecutions:
    """Runs of a program on devices or on the host's XLA threads, sorted by end.

    start, end: ps.
    op_counts: number of events of each run.
    """

    start: Picoseconds
    end: Picoseconds
    op_counts: Numbers

    def __len__(self) -> int:
        return len(self.end)

    @property
    def duration(self) -> Picoseconds:
        """Duration of every run, ps."""
        return self.end - self.start

    @property
    def is_sequential(self) -> bool:
        """Whether the runs follow one another, rather than overlap."""
        return len(self) > 1 and float(np.mean(self.start[1:] < self.end[:-1])) <= _ONE_QUEUE

    @property
    def is_last_complete(self) -> bool:
        """Whether the last run is complete, judged by its number of ops."""
        return len(self) == 0 or int(self.op_counts[-1]) >= _WHOLE * median(self.op_counts)


def find_executions(trace: Trace, call: str) -> ModuleExecutions:
    """Return every run of the program that a call (named `PjitFunction(step)`) runs."""
    none = np.zeros(0, np.int64)
    return _programs(trace).get(_plain(call), ModuleExecutions(none, none, none))


def find_device_executions(trace: Trace, start: Picoseconds, end: int) -> ModuleExecutions | None:
    """Return the devices' work for each step, found by its launches, up to the last step with work
    in the capture. None where a step has no work, or a later step's work ended first.

    start: sorted starts of the steps, ps; the last step ends at `end`.

    Copies are left out, because the next batch is copied while a step computes; and so are the
    kernels of autotuning.
    """
    host, device = find_launches(trace)
    is_regular = find_positions(find_autotuning_launches(trace)[1], device) < 0
    host, device = host[is_regular], device[is_regular]
    called = trace.start[host]
    step = np.searchsorted(start, called, side="right") - 1
    mask = (step >= 0) & (called < end) & (trace.duration[device] > 0)
    mask &= ~event_names(trace).op_kind_mask(OpKind.COPY)[trace.name[device]]
    step, device = step[mask], device[mask]
    ops = np.bincount(step)
    if not ops.all():
        return None
    first, last = np.full(len(ops), np.iinfo(np.int64).max), np.zeros(len(ops), np.int64)
    np.minimum.at(first, step, trace.start[device])
    np.maximum.at(last, step, trace.end[device])
    return ModuleExecutions(first, last, ops) if bool(np.all(np.diff(last) > 0)) else None


def find_uncalled_executions(trace: Trace, calls: Indices) -> tuple[str, ModuleExecutions] | None:
    """Return (function, its runs) of the program whose runs repeat although the capture lacks most
    of the calls that launched them (`calls`: event rows); None where there is none.

    It is the program with the longest total time among those that compute gradients, or among all
    programs where none computes gradients.
    """
    programs = {name: runs for name, runs in _programs(trace).items() if len(runs) > TOO_FEW_EXECUTIONS and runs.is_sequential}
    train = find_training_functions(trace) & programs.keys()
    name = max(train or programs, key=lambda name: int(programs[name].duration.sum()), default="")
    called = sum(_plain(trace.names[code]) == name for code in trace.name[calls].tolist())
    return (name, programs[name]) if name and 2 * called < len(programs[name]) else None


def _plain(name: str) -> str:
    """Return the function of a call or of a program, in XLA's spelling."""
    return normalize_function_name(parse_jitted_function(name))


@memoize
def _programs(trace: Trace) -> dict[str, ModuleExecutions]:
    """Return the runs on the host's XLA threads, by jitted function."""
    rows = find_hlo_events(trace)
    rows = rows[host_mask(trace, rows)]
    run, module = trace.stat(dialect.RUN_ID), trace.stat(dialect.HLO_MODULE)
    at, place = intersect_indices(rows, run.rows)
    rows, number = rows[at], run.uints[place]
    at, _ = intersect_indices(rows, module.rows)
    rows, number = rows[at], number[at]
    if len(rows) == 0:
        return {}
    _, first, which, ops = np.unique(number, return_index=True, return_inverse=True, return_counts=True)
    start, end = np.full(len(first), np.iinfo(np.int64).max), np.zeros(len(first), np.int64)
    np.minimum.at(start, which, trace.start[rows])
    np.maximum.at(end, which, trace.end[rows])
    code, texts = module.encode_texts(intersect_indices(np.sort(rows[first]), module.rows)[1])
    functions, of_text = np.unique([_plain(text) for text in texts], return_inverse=True)
    function = np.zeros(len(first), np.int64)
    function[np.argsort(rows[first])] = of_text[code]
    order = np.lexsort((end, function))
    groups = np.split(order, np.flatnonzero(np.diff(function[order])) + 1)
    return {
        str(functions[function[group[0]]]): ModuleExecutions(start[group], end[group], ops[group])
        for group in groups
        if functions[function[group[0]]]
    }
