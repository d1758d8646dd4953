"""Which hosts of a run execute the same program, so that their numbers may be averaged and compared.

A profiler client records whatever answers at the addresses that it was given: workers of one training, or programs that have nothing to do
with each other. They are told apart by what they execute, never by names of hosts: the ops in which they spend their time, the stages of their
busiest input pipeline, and the functions that they call. Workers may differ in one of these and yet train together: collectives that they
share and steps of one number that run at the same time say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from outpace._dataclass import dataclass
from outpace._once import derived, once
from outpace.metrics.program.clocks import zeros_of
from outpace.metrics.program.digest import Digest, digests
from outpace.metrics.program.facts import Facts
from outpace.model.units import counted
from outpace.timeline import Run

_SAME_OPS = 0.5  # of each one's op time in ops that the other executes too: the rest may be a checkpoint, or an evaluation
_OVERLAP = 0.5  # of the shorter one, for two steps to have run at the same time
_FEWEST = 3  # steps of one number, below which running at the same time may be chance
_NAMED = 3  # ops in a sentence
_WORTH_NAMING = 0.05  # of the op time


@dataclass(frozen=True)
class Evidence:
    """What speaks for two hosts' executing one program; None where a profile does not say.

    ops: share of op time that is in ops of both, of the host with less of it; foreign: ops of the second that the first does not execute,
    longest first, and `foreign_share` of its op time; pipeline, functions: whether they are the same; collectives: types that both execute;
    steps: whether steps of one number ran at the same time.
    """

    ops: float | None
    foreign: tuple[str, ...]
    foreign_share: float
    pipeline: bool | None
    functions: bool | None
    collectives: tuple[str, ...]
    steps: bool | None

    @property
    def together(self) -> bool:
        """Whether the hosts train together, not merely the same program each for itself."""
        return bool(self.steps) or (bool(self.collectives) and self.steps is not False)

    @property
    def same(self) -> bool:
        """Whether the hosts execute the same program."""
        other_ops = self.ops is not None and self.ops < _SAME_OPS
        if self.collectives and self.steps is not False and (self.steps or not other_ops):
            return True
        return not other_ops and self.pipeline is not False and self.functions is not False


@dataclass(frozen=True)
class SameProgram:
    """`groups`: hosts that execute the same program, every host with steps or ops in one of them, in the order of the run; `together`: by
    group, whether its hosts train together; `reason`: why, in words ("" for a single host).
    """

    groups: tuple[tuple[str, ...], ...]
    together: tuple[bool, ...]
    reason: str

    @once
    def group_of(self) -> dict[str, int]:
        """Index of each host's group; a host that recorded nothing to tell by has none."""
        return {name: at for at, group in enumerate(self.groups) for name in group}


def comparable(run: Run) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Groups of hosts whose numbers may be averaged and compared with each other, and why these, in a sentence or two."""
    found = same_program(run)
    return found.groups, found.reason


def main_program(run: Run) -> tuple[str, ...]:
    """Hosts with steps whose numbers a report may average: of several programs those of the one with most hosts, and then most time."""
    stepping = {t.host: int(t.steps.duration.sum()) for t in run.hosts if len(t.steps)}
    if len(stepping) < 2:
        return tuple(stepping)
    groups = [tuple(host for host in group if host in stepping) for group in same_program(run).groups]
    return max(groups, key=lambda group: (len(group), sum(stepping[host] for host in group)), default=())


@derived
def same_program(run: Run) -> SameProgram:
    """Group the hosts of a run by the program that they execute."""
    if len(run.hosts) < 2:
        return SameProgram(tuple((t.host,) for t in run.hosts), (True,) * len(run.hosts), "")
    return same_of(digests(run))


def same_of(hosts: Sequence[Digest]) -> SameProgram:
    """Group hosts by the program that they execute; their steps are compared on one clock."""
    zero = zeros_of(hosts)
    facts = [f.on_clock(zero[f.host]) for f in (d.facts for d in hosts) if f.ops or f.pipeline or f.functions or f.spans]
    groups: list[list[Facts]] = []
    for host in sorted(
        facts, key=lambda f: not (f.ops or f.pipeline)
    ):  # hosts that say little join others, never found a group for them
        mine = next((group for group in groups if _compare(group[0], host).same), None)
        if mine is None:
            groups.append([host])
        else:
            mine.append(host)
    together = tuple(all(_compare(group[0], other).together for other in group[1:]) for group in groups)
    reason = " ".join(_sentences(groups, together)) if len(facts) > 1 else ""
    return SameProgram(tuple(tuple(f.host for f in group) for group in groups), together, reason)


def ran_together(spans: Iterable[tuple[int, int]]) -> bool:
    """Whether steps overlap in time, by half of the shortest one. Spans are (start, end) on one clock."""
    known = list(spans)
    overlap = min(end for _, end in known) - max(start for start, _ in known)
    return overlap >= _OVERLAP * min(end - start for start, end in known)


def _compare(first: Facts, second: Facts) -> Evidence:
    least = _WORTH_NAMING * sum(second.ops.values())
    foreign = sorted((n for n, t in second.ops.items() if n not in first.ops and t >= least), key=lambda n: (-second.ops[n], n))
    shares = [_share(first.ops, second.ops), _share(second.ops, first.ops)]
    both = first.spans.keys() & second.spans.keys()
    at_once = sum(ran_together((first.spans[number], second.spans[number])) for number in both)
    return Evidence(
        ops=min(shares) if first.ops and second.ops else None,
        foreign=tuple(foreign[:_NAMED]),
        foreign_share=1 - shares[1],
        pipeline=first.pipeline == second.pipeline if first.pipeline and second.pipeline else None,
        functions=bool(first.functions & second.functions) if first.functions and second.functions else None,
        collectives=tuple(sorted(first.collectives & second.collectives)),
        steps=_coincide(len(both), at_once),
    )


def _coincide(both: int, at_once: int) -> bool | None:
    """Whether steps of one number ran at the same time: one that did not says no, a few that did may be chance."""
    if both == 0:
        return None
    return (True if both >= _FEWEST else None) if at_once > both / 2 else False


def _share(ops: Mapping[str, int], others: Mapping[str, int]) -> float:
    """Share of a host's op time that is in ops which another executes too."""
    total = sum(ops.values())
    return sum(time for name, time in ops.items() if name in others) / total if total else 1.0


def _sentences(groups: list[list[Facts]], together: Sequence[bool]) -> Iterable[str]:
    for group, joined in zip(groups, together, strict=True):
        if len(group) > 1:
            yield _why_same(group, joined)
    for other in groups[1:]:
        yield _why_other(groups[0], other)


def _why_same(group: list[Facts], joined: bool) -> str:
    found = [_compare(group[0], other) for other in group[1:]]
    says = []
    if shares := [e.ops for e in found if e.ops is not None]:
        least = int(1000 * min(shares)) / 10
        part = "all" if least == 100 else f"at least {least:.4g}%"
        says.append(f"{part} of each one's op time is in ops that the others execute too")
    if all(e.pipeline for e in found):
        says.append("their input pipelines have the same stages")
    if shared := set.intersection(*(set(e.collectives) for e in found)):
        says.append(f"they share collectives ({', '.join(sorted(shared)[:_NAMED])})")
    if joined and any(e.steps for e in found):
        says.append("steps of one number ran at the same time")
    if any(e.steps is False for e in found):
        says.append("but they do not train together: steps of one number ran at different times")
    elif not joined:
        says.append("whether they train together is unknown: they share no collective, and no step numbers of their own")
    why = "; ".join(says) or "nothing in their profiles contradicts it"
    return f"{_names(group)} execute the same program: {why}."


def _why_other(first: list[Facts], other: list[Facts]) -> str:
    found = _compare(first[0], other[0])
    says = []
    if found.ops is not None and found.ops < _SAME_OPS:
        where = f" ({', '.join(found.foreign)})" if found.foreign else ""
        foreign = f"{found.foreign_share:.0%} of {_names(other[:1])}'s op time is in ops that {_names(first[:1])} does not execute{where}"
        says.append(
            foreign if found.foreign_share > 1 - _SAME_OPS else f"only {found.ops:.0%} of the op time is in ops of both"
        )
    if found.pipeline is False:
        says.append(f"the input pipelines differ ({_chain(other[0])} instead of {_chain(first[0])})")
    if found.functions is False:
        says.append("no function is called by both")
    if not found.collectives:
        says.append("they share no collective")
    if found.steps is False:
        says.append("steps of one number ran at different times")
    verb = "executes" if len(other) == 1 else "execute"
    return f"{_names(other)} {verb} another program than {_names(first)}: {'; '.join(says)}."


def _chain(facts: Facts) -> str:
    return " > ".join(facts.pipeline)


def _names(group: Sequence[Facts]) -> str:
    hosts = [facts.host for facts in group]
    if len(hosts) > 4:
        return f"{hosts[0]} and {counted(len(hosts) - 1, 'other')}"
    return " and ".join(part for part in (", ".join(hosts[:-1]), hosts[-1]) if part)
