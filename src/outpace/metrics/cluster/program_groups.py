# SPDX-License-Identifier: Apache-2.0
"""Group the hosts of a run by the program that they execute, so that their numbers may be averaged
and compared.

A profiler client records every address that it was started with: workers of one training, or
unrelated programs. Hosts are grouped by what they execute, never by their names: the ops in which
they spend their time, the stages of their busiest input pipeline, and the functions that they call.
Workers of one training may differ in one of these; shared collectives, and steps with the same
number that run at the same time, show that they train together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.cluster.clock_offsets import host_zeros_ps
from outpace.metrics.cluster.host_signature import HostSignature
from outpace.metrics.cluster.host_summary import HostSummary, host_summaries
from outpace.model.units import format_count
from outpace.timeline import Run

_SAME_OPS = 0.5  # minimum share of each host's op time in common ops: the rest may be a checkpoint or an evaluation
_OVERLAP = 0.5  # minimum overlap of two simultaneous steps, as a share of the shorter one
_MIN_COMMON_STEPS = 3  # minimum number of common steps: fewer may coincide by chance
_MAX_NAMED = 3  # maximum number of ops that a sentence names
_MIN_NAMED_SHARE = 0.05  # minimum share of the op time for a sentence to name an op


@dataclass(frozen=True)
class ProgramMatch:
    """Evidence for or against two hosts executing the same program; None where a profile does not
    show it.

    op_share: share of op time in ops that both execute, of the host where it is smaller
    foreign_ops: ops of the second host that the first does not execute, longest first
    foreign_share: share of the second host's op time in ops that the first does not execute
    same_pipeline: whether the busiest input pipelines have the same stages
    same_functions: whether both call at least one common function
    collectives: types of collectives that both execute
    steps_coincide: whether steps with the same number ran at the same time
    """

    op_share: float | None
    foreign_ops: tuple[str, ...]
    foreign_share: float
    same_pipeline: bool | None
    same_functions: bool | None
    collectives: tuple[str, ...]
    steps_coincide: bool | None

    @property
    def trains_together(self) -> bool:
        """Whether the hosts train together, rather than each on its own with the same program."""
        return bool(self.steps_coincide) or (bool(self.collectives) and self.steps_coincide is not False)

    @property
    def is_same_program(self) -> bool:
        """Whether the hosts execute the same program."""
        other_ops = self.op_share is not None and self.op_share < _SAME_OPS
        if self.collectives and self.steps_coincide is not False and (self.steps_coincide or not other_ops):
            return True
        return not other_ops and self.same_pipeline is not False and self.same_functions is not False


@dataclass(frozen=True)
class ProgramGroups:
    """Groups of hosts that execute the same program.

    groups: names of hosts in each group, in the order of the run; every host with steps or ops is
        in one
    trains_together: whether the hosts of each group train together
    reason: explanation of the groups in sentences; "" for a single host
    """

    groups: tuple[tuple[str, ...], ...]
    trains_together: tuple[bool, ...]
    reason: str

    @once
    def group_index(self) -> dict[str, int]:
        """Index of the group by host; a host without anything that identifies its program is
        missing.
        """
        return {name: at for at, group in enumerate(self.groups) for name in group}


def comparable_groups(run: Run) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the groups of hosts whose numbers may be averaged and compared, and the reason in
    sentences.
    """
    result = program_groups(run)
    return result.groups, result.reason


def main_program_hosts(run: Run) -> tuple[str, ...]:
    """Return the hosts with steps whose numbers a report may average.

    Where hosts execute several programs, these are the hosts of the program with the most hosts,
    and of those of equal size, the program with the most time in steps.
    """
    stepping = {t.host: int(t.steps.duration.sum()) for t in run.hosts if len(t.steps)}
    if len(stepping) < 2:
        return tuple(stepping)
    groups = [tuple(host for host in group if host in stepping) for group in program_groups(run).groups]
    return max(groups, key=lambda group: (len(group), sum(stepping[host] for host in group)), default=())


def hosts_that_train_together(run: Run) -> tuple[str, ...]:
    """Return the hosts of the main program, as `main_program_hosts`, where they train together, so
    that a step's number means the same step on each of them; else none, and none of one host.
    """
    hosts, groups = main_program_hosts(run), program_groups(run)
    if len(hosts) < 2:
        return ()
    joined = [group for group, together in zip(groups.groups, groups.trains_together, strict=True) if together]
    return hosts if any(set(hosts) <= set(group) for group in joined) else ()


@memoize
def program_groups(run: Run) -> ProgramGroups:
    """Return the hosts of a run grouped by the program that they execute."""
    if len(run.hosts) < 2:
        return ProgramGroups(tuple((t.host,) for t in run.hosts), (True,) * len(run.hosts), "")
    return group_hosts_by_program(host_summaries(run))


def group_hosts_by_program(summaries: Sequence[HostSummary]) -> ProgramGroups:
    """Return hosts, from their summaries, grouped by the program that they execute.

    Steps of different hosts are compared on one clock.
    """
    zero = host_zeros_ps(summaries)
    facts = [
        signature.with_clock_zero(zero[signature.host])
        for signature in (summary.signature for summary in summaries)
        if signature.op_ps or signature.pipeline_stages or signature.functions or signature.step_spans
    ]
    groups: list[list[HostSignature]] = []
    # Hosts without ops and pipeline come last, so that they join the groups of other hosts instead
    # of starting them.
    for host in sorted(facts, key=lambda signature: not (signature.op_ps or signature.pipeline_stages)):
        same_program = next((group for group in groups if _compare(group[0], host).is_same_program), None)
        if same_program is None:
            groups.append([host])
        else:
            same_program.append(host)
    together = tuple(all(_compare(group[0], other).trains_together for other in group[1:]) for group in groups)
    reason = " ".join(_sentences(groups, together)) if len(facts) > 1 else ""
    return ProgramGroups(tuple(tuple(signature.host for signature in group) for group in groups), together, reason)


def steps_overlap(spans: Iterable[tuple[int, int]]) -> bool:
    """Whether spans of steps overlap in time by at least half of the shortest span.

    spans: (start, end), on one clock
    """
    step_spans = list(spans)
    overlap = min(end for _, end in step_spans) - max(start for start, _ in step_spans)
    return overlap >= _OVERLAP * min(end - start for start, end in step_spans)


def _compare(first: HostSignature, second: HostSignature) -> ProgramMatch:
    least = _MIN_NAMED_SHARE * sum(second.op_ps.values())
    foreign = sorted(
        (name for name, time in second.op_ps.items() if name not in first.op_ps and time >= least),
        key=lambda name: (-second.op_ps[name], name),
    )
    shares = [_share(first.op_ps, second.op_ps), _share(second.op_ps, first.op_ps)]
    both = first.step_spans.keys() & second.step_spans.keys()
    at_once = sum(steps_overlap((first.step_spans[number], second.step_spans[number])) for number in both)
    return ProgramMatch(
        op_share=min(shares) if first.op_ps and second.op_ps else None,
        foreign_ops=tuple(foreign[:_MAX_NAMED]),
        foreign_share=1 - shares[1],
        same_pipeline=first.pipeline_stages == second.pipeline_stages
        if first.pipeline_stages and second.pipeline_stages
        else None,
        same_functions=bool(first.functions & second.functions) if first.functions and second.functions else None,
        collectives=tuple(sorted(first.collectives & second.collectives)),
        steps_coincide=_coincide(len(both), at_once),
    )


def _coincide(both: int, at_once: int) -> bool | None:
    """Whether steps with the same number ran at the same time.

    both: number of common steps
    at_once: number of common steps that overlap in time

    False where at most half of them overlap; None where there are none, or too few to rule out
    chance.
    """
    if both == 0:
        return None
    return (True if both >= _MIN_COMMON_STEPS else None) if at_once > both / 2 else False


def _share(ops: Mapping[str, int], other_ops: Mapping[str, int]) -> float:
    """Return the share of a host's op time in ops that the other host executes too; 1 without
    ops.
    """
    total = sum(ops.values())
    return sum(time for name, time in ops.items() if name in other_ops) / total if total else 1.0


def _sentences(groups: list[list[HostSignature]], together: Sequence[bool]) -> Iterable[str]:
    for group, joined in zip(groups, together, strict=True):
        if len(group) > 1:
            yield _why_same(group, joined)
    for other in groups[1:]:
        yield _why_other(groups[0], other)


def _why_same(group: list[HostSignature], joined: bool) -> str:
    matches = [_compare(group[0], other) for other in group[1:]]
    says = []
    if shares := [match.op_share for match in matches if match.op_share is not None]:
        least = int(1000 * min(shares)) / 10
        part = "all" if least == 100 else f"at least {least:.4g}%"
        says.append(f"{part} of each one's op time is in ops that the others execute too")
    if all(match.same_pipeline for match in matches):
        says.append("their input pipelines have the same stages")
    if shared := set.intersection(*(set(match.collectives) for match in matches)):
        says.append(f"they share collectives ({', '.join(sorted(shared)[:_MAX_NAMED])})")
    if joined and any(match.steps_coincide for match in matches):
        says.append("steps of one number ran at the same time")
    if any(match.steps_coincide is False for match in matches):
        says.append("but they do not train together: steps of one number ran at different times")
    elif not joined:
        says.append("whether they train together is unknown: they share no collective, and no step numbers of their own")
    why = "; ".join(says) or "nothing in their profiles contradicts it"
    return f"{_names(group)} execute the same program: {why}."


def _why_other(first: list[HostSignature], other: list[HostSignature]) -> str:
    match = _compare(first[0], other[0])
    says = []
    if match.op_share is not None and match.op_share < _SAME_OPS:
        where = f" ({', '.join(match.foreign_ops)})" if match.foreign_ops else ""
        foreign = f"{match.foreign_share:.0%} of {_names(other[:1])}'s op time is in ops that {_names(first[:1])} does not execute{where}"
        says.append(
            foreign if match.foreign_share > 1 - _SAME_OPS else f"only {match.op_share:.0%} of the op time is in ops of both"
        )
    if match.same_pipeline is False:
        says.append(f"the input pipelines differ ({_chain(other[0])} instead of {_chain(first[0])})")
    if match.same_functions is False:
        says.append("no function is called by both")
    if not match.collectives:
        says.append("they share no collective")
    if match.steps_coincide is False:
        says.append("steps of one number ran at different times")
    verb = "executes" if len(other) == 1 else "execute"
    return f"{_names(other)} {verb} another program than {_names(first)}: {'; '.join(says)}."


def _chain(facts: HostSignature) -> str:
    return " > ".join(facts.pipeline_stages)


def _names(group: Sequence[HostSignature]) -> str:
    hosts = [facts.host for facts in group]
    if len(hosts) > 4:
        return f"{hosts[0]} and {format_count(len(hosts) - 1, 'other')}"
    return " and ".join(part for part in (", ".join(hosts[:-1]), hosts[-1]) if part)
