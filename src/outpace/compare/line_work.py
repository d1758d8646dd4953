# SPDX-License-Identifier: Apache-2.0
"""The work of compiled lines on both sides: whether a line takes longer because it does more, or
because it does the same more slowly.

Operations and bytes are those of the compiled programs, so that they are exact: a difference is the
program's, whatever the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.hlo_instructions import hlo_source_lines
from outpace.metrics.source_line import shorten_source_path
from outpace.model import Row, Table, TableType
from outpace.timeline import Run

_SAME = 0.001  # relative difference up to which two amounts of work are one: sums of floats
LINE_WORK = TableType("line_work", "Work of compiled lines").columns("""
    * op           | text     | framework op, without what differentiation wraps around it
    * source       | text     | line of the program's own code that it comes from, in the second run where it has it
    + before_ps    | ps       | time per step in the first run | Before
    + after_ps     | ps       | time per step in the second run | After
      more_ps      | ps       | the second less the first | More
      work         | text     | the same work, or how many times as many operations or bytes; new or gone; empty where not known
      flops_before | ratio    | floating-point operations per step in the first run | FLOPs before
      flops_after  | ratio    | the same in the second run | FLOPs after
      bytes_before | bytes    | bytes that it reads and writes per step in the first run | Bytes before
      bytes_after  | bytes    | the same in the second run | Bytes after
      roof_before  | fraction | least time that the first run's device needs for it, as a share of its time | Of roof before
      roof_after   | fraction | the same of the second run's | Of roof after
""")


@dataclass(frozen=True)
class LineWork:
    """What a line of a compiled program does in a step, on one device of the first host.

    op, source: framework op and source line; `source` is "" where the program has no lines.
    time_ps: time per step, ps.
    flops, bytes: operations and memory traffic per step; NaN where not known.
    of_roof: least time as a share of the time; NaN where not known.
    """

    op: str
    source: str
    time_ps: float
    flops: float
    bytes: float
    of_roof: float


def compute_line_work(run: Run) -> tuple[LineWork, ...]:
    """Return the work of the compiled lines of a run; empty for a program without any."""
    host = next(iter(main_program_hosts(run)), "")
    rows = hlo_source_lines(run).filter_by("host", host).records()
    return tuple(
        LineWork(
            row["op"],
            shorten_source_path(row["source"]),
            row["time_ps"],
            *map(_number, (row["flops"], row["bytes"], row["of_roof"])),
        )
        for row in rows
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def build_line_work(before: Iterable[LineWork], after: Iterable[LineWork]) -> Table:
    """Return `LINE_WORK`, the largest difference of time first; empty where a side has no lines."""
    one, two = _by_op(before), _by_op(after)
    pairs = (pair for op in dict.fromkeys((*one, *two)) for pair in _pair(one.get(op, []), two.get(op, [])))
    rows = [_row(*pair) for pair in pairs] if one and two else []
    return LINE_WORK.build(sorted(rows, key=lambda row: -abs(row["more_ps"])))


def _by_op(lines: Iterable[LineWork]) -> dict[str, list[LineWork]]:
    """Return lines by op, in the order of the program's text."""
    by_op: dict[str, list[LineWork]] = {}
    for line in sorted(lines, key=_position):
        by_op.setdefault(line.op, []).append(line)
    return by_op


def _pair(before: list[LineWork], after: list[LineWork]) -> Iterator[tuple[LineWork | None, LineWork | None]]:
    """Yield pairs of lines with the same op; None for a line of one side alone.

    An edit changes the numbers of all lines below it. So lines that do the same work are pairs
    first, in their order; of those between, as many lines as stand on both sides are pairs.
    """
    keys, other_keys = ([f"{line.flops:.12g} {line.bytes:.12g}" for line in side] for side in (before, after))
    for _, a, b, c, d in SequenceMatcher(None, keys, other_keys, autojunk=False).get_opcodes():
        one, two = before[a:b], after[c:d]
        together = len(one) == len(two)
        yield from zip(one, two, strict=True) if together else ()
        yield from ((line, None) for line in one if not together)
        yield from ((None, line) for line in two if not together)


def _position(line: LineWork) -> tuple[str, int]:
    file, _, number = line.source.rpartition(":")
    return file, int(number) if number.isdigit() else 0


def _row(one: LineWork | None, two: LineWork | None) -> Row:
    either = two or one
    before, after = (side.time_ps if side else 0.0 for side in (one, two))
    columns = {
        f"{name}_{when}": getattr(side, attribute) if side else math.nan
        for name, attribute in (("flops", "flops"), ("bytes", "bytes"), ("roof", "of_roof"))
        for when, side in (("before", one), ("after", two))
    }
    return LINE_WORK.row(
        either, before_ps=before, after_ps=after, more_ps=after - before, work="; ".join(_iter_work(one, two)), **columns
    )


def _iter_work(one: LineWork | None, two: LineWork | None) -> Iterator[str]:
    """Yield how the work of a line changed, in words."""
    if one is None or two is None:
        yield "new" if one is None else "gone"
        return
    amounts = {"operations": (one.flops, two.flops), "bytes": (one.bytes, two.bytes)}
    known = {what: pair for what, pair in amounts.items() if not any(map(math.isnan, pair))}
    other = {what: pair for what, pair in known.items() if abs(pair[1] - pair[0]) > _SAME * max(pair)}
    for what, (was, now) in other.items():
        yield f"{now / was:.3g} times the {what}" if was else f"{what} where it had none"
    if len(known) == len(amounts) and not other:
        yield "the same work"
