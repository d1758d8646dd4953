"""Loops that run ahead: JAX returns from a call before its program has run, and dozens of calls may
wait for their turn.

From call to call the clock then shows how fast the loop hands work over, until the queue is full,
and one call in which the program catches up holds the work of all; a capture may even hold the runs
alone, whose calls lie before it. Steps are what the programs' runs say: one ends when its run ends.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model import median
from outpace.model.arrays import Indices, Numbers, Picoseconds
from outpace.timeline.builds import find_autotuning_launches
from outpace.timeline.causality import find_launches
from outpace.timeline.event_names import OpKind, event_names, normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import find_positions, intersect_indices

TOO_FEW_EXECUTIONS = 3  # or fewer of a program say nothing
_ONE_QUEUE = 0.5  # of the runs, at most, begin before the one before has ended: else devices of one host run side by side
_WHOLE = 0.9  # of the ops that the other runs hold: the capture cut nothing off a run that holds as many


@dataclass(frozen=True, eq=False)
class ModuleExecutions:
    """Runs of a program on devices or on the host's XLA threads, sorted by end. start, end: ps;
    ops: how many events each holds.
    """

    start: Picoseconds
    end: Picoseconds
    op_counts: Numbers

    def __len__(self) -> int:
        return len(self.end)

    @property
    def duration(self) -> Picoseconds:
        """Length of every run, ps."""
        return self.end - self.start

    @property
    def is_sequential(self) -> bool:
        """Whether one run follows the other."""
        return len(self) > 1 and float(np.mean(self.start[1:] < self.end[:-1])) <= _ONE_QUEUE

    @property
    def is_last_complete(self) -> bool:
        """Whether the capture ends behind the last run, as far as its ops tell."""
        return len(self) == 0 or int(self.op_counts[-1]) >= _WHOLE * median(self.op_counts)


def find_executions(trace: Trace, call: str) -> ModuleExecutions:
    """Every run of the program that a call (`PjitFunction(step)`) runs."""
    none = np.zeros(0, np.int64)
    return _programs(trace).get(_plain(call), ModuleExecutions(none, none, none))


def find_device_executions(trace: Trace, start: Picoseconds, end: int) -> ModuleExecutions | None:
    """What devices computed for each of the steps that begin at `start` (sorted, ps; the last is
    over at `end`), by their launches, up to the last of which the capture holds something: it ends
    before those behind. None where a step has nothing done, or a later one was done first. Copies
    are left out: the next batch moves while a step computes; and so is what the compiler runs to
    choose what is fastest.
    """
    host, device = find_launches(trace)
    kept = find_positions(find_autotuning_launches(trace)[1], device) < 0
    host, device = host[kept], device[kept]
    called = trace.start[host]
    step = np.searchsorted(start, called, side="right") - 1
    mine = (step >= 0) & (called < end) & (trace.duration[device] > 0)
    mine &= ~event_names(trace).op_kind_mask(OpKind.COPY)[trace.name[device]]
    step, device = step[mine], device[mine]
    ops = np.bincount(step)
    if not ops.all():
        return None
    first, last = np.full(len(ops), np.iinfo(np.int64).max), np.zeros(len(ops), np.int64)
    np.minimum.at(first, step, trace.start[device])
    np.maximum.at(last, step, trace.end[device])
    return ModuleExecutions(first, last, ops) if bool(np.all(np.diff(last) > 0)) else None


def find_uncalled_executions(trace: Trace, calls: Indices) -> tuple[str, ModuleExecutions] | None:
    """(function, its runs) of the program whose runs repeat though the capture lacks most of the
    calls (event rows) that led to them; None where that is not the training's: of programs that
    compute gradients, or else of all, the one that runs longest counts.
    """
    programs = {name: runs for name, runs in _programs(trace).items() if len(runs) > TOO_FEW_EXECUTIONS and runs.is_sequential}
    train = {_plain(f"jit_{name}") for name in find_training_functions(trace)} & programs.keys()
    name = max(train or programs, key=lambda name: int(programs[name].duration.sum()), default="")
    called = sum(_plain(trace.names[at]) == name for at in trace.name[calls].tolist())
    return (name, programs[name]) if name and 2 * called < len(programs[name]) else None


def _plain(name: str) -> str:
    """Function of a call or of a program, as XLA spells it."""
    return normalize_function_name(parse_jitted_function(name))


@memoize
def _programs(trace: Trace) -> dict[str, ModuleExecutions]:
    """Runs of each jitted function's programs on the host's XLA threads."""
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
        str(functions[function[of[0]]]): ModuleExecutions(start[of], end[of], ops[of])
        for of in groups
        if functions[function[of[0]]]
    }
