# SPDX-License-Identifier: Apache-2.0
"""Merging of several folders into one run, by comparing what their hosts captured."""

from __future__ import annotations

from dataclasses import replace

from outpace.hosts.host_reader import HostRequest, read_host_summary
from outpace.hosts.map import map_hosts, map_serially
from outpace.metrics.cluster.clock_offsets import (
    MAX_OFFSET_SPREAD,
    MIN_OFFSET_STEPS,
    estimate_offset,
    host_zeros_ps,
    last_collective_ends,
)
from outpace.metrics.cluster.host_summary import HostSummary
from outpace.metrics.cluster.program_groups import steps_overlap
from outpace.model import OutpaceError, median
from outpace.model.units import format_count
from outpace.store.host_folders import disambiguate_hosts, has_distinct_hosts, has_related_names, rank_of
from outpace.store.profiles import ProfileSet

_TRIED = 3  # number of files tried in each folder, smallest first, because one may be damaged
_MOST_NAMES = 3
_ANOTHER_TIME = "they were captured at another time"


def merge_folders(profiles: ProfileSet) -> tuple[ProfileSet, tuple[str, ...]]:
    """Return the profiles of a run with those of its hosts in sibling folders, and remarks that
    describe the merge.
    """
    if not profiles.siblings:
        return profiles, ()
    base, *summaries = map_hosts(_read_sample, [profiles, *profiles.siblings])
    files, joined, alone = list(profiles.files), [profiles.run], list[str]()
    for session, glimpse in zip(profiles.siblings, summaries, strict=True):
        if not (isinstance(base, HostSummary) and isinstance(glimpse, HostSummary)):
            continue
        why = "a host is in both"
        if has_distinct_hosts(files, session.files):
            why = different_run_reason(base, glimpse, same_job=has_related_names(profiles.files[0], session.files[0]))
        if not why:
            files += session.files
            joined.append(session.run)
        elif why is not _ANOTHER_TIME and _overlap(base.capture_span_ns, glimpse.capture_span_ns):
            alone.append(
                f"{_folder_label(session)} was captured at the same time as {_folder_label(profiles)} and is not read with it: {why}."
            )
    alone = alone[:_MOST_NAMES] + [f"{format_count(len(alone) - _MOST_NAMES, 'more folder')} of that time likewise."] * (
        len(alone) > _MOST_NAMES
    )
    if len(joined) == 1:
        return profiles, tuple(alone)
    whole = replace(
        profiles, folder=profiles.source, files=disambiguate_hosts(files), older=profiles.older - len(joined) + 1, siblings=()
    )
    return whole, (_merge_remark(len(whole.files), joined), *alone)


def _folder_label(session: ProfileSet) -> str:
    """Return a folder's label that distinguishes it from its siblings: its rank,
    or its own name.
    """
    return rank_of(session.files[0].path) or session.run


def _merge_remark(hosts: int, runs: list[str]) -> str:
    names = sorted(set(runs))
    more = f" and {format_count(len(names) - _MOST_NAMES, 'other')}" if len(names) > _MOST_NAMES else ""
    return (
        f"{format_count(len(runs), 'folder')} are read as one run of {format_count(hosts, 'host')}, "
        "because no host is in two of them and they were "
        f"captured at the same time ({', '.join(names[:_MOST_NAMES])}{more}). Give one of the folders to read it alone."
    )


def _read_sample(session: ProfileSet) -> HostSummary:
    """Return one host of a folder, which represents all of them, since they were captured together:
    the first of the smallest profiles that has steps, or else the first that can be read.

    Raises the error of the first profile where none of the smallest can be read.
    """
    smallest = sorted(session.files, key=lambda file: file.size)[:_TRIED]
    tried = list[HostSummary | OutpaceError]()
    for file in smallest:
        tried += map_serially(read_host_summary, [HostRequest(file)])
        if isinstance(tried[-1], HostSummary) and len(tried[-1].step_number):
            return tried[-1]
    read = [result for result in tried if isinstance(result, HostSummary)]
    if read:
        return read[0]
    raise next(result for result in tried if isinstance(result, OutpaceError))


def is_same_run(first: HostSummary, second: HostSummary, *, same_job: bool = True) -> bool:
    """Whether two different hosts were captured in one run: see `different_run_reason`."""
    return not different_run_reason(first, second, same_job=same_job)


def different_run_reason(first: HostSummary, second: HostSummary, *, same_job: bool = True) -> str:
    """Return the reason, in words, why two different hosts were not captured in one run; empty
    where they were. `same_job`: whether the names of the folders show that the hosts belong to
    one job.

    Collectives that end on both hosts with a constant time difference show one run, whatever the
    clocks show; where the difference varies, the hosts wait for other hosts. Without collectives,
    the names must show one job, and both must have recorded at the same time by their own clocks.
    Where the program counts its steps on both hosts, steps of one number must be the same step.
    Where it does not, steps must have one length: two trainings that run at once, each on hosts of
    its own, differ in that.
    """
    waits = _wait_for_each_other(first, second)
    if waits is not None:
        return "" if waits else "their collectives do not end together"
    none = "they have no collective in common"
    if not same_job:
        return f"{none}, and their folders are not called after ranks of one job"
    if first.origin.is_wall_clock != second.origin.is_wall_clock or not _overlap(first.capture_span_ns, second.capture_span_ns):
        return _ANOTHER_TIME
    if not (first.has_step_numbers and second.has_step_numbers):
        return "" if _have_equal_steps(first, second) else f"{none}, and their steps are not of one length"
    zero = host_zeros_ps((first, second))
    one, two = (d.signature.with_clock_zero(zero[d.host]).step_spans for d in (first, second))
    both = one.keys() & two.keys()
    at_once = sum(steps_overlap((one[number], two[number])) for number in both)
    return "" if at_once > len(both) / 2 else f"{none}, and steps of one number did not run at the same time"


def _have_equal_steps(first: HostSummary, second: HostSummary) -> bool:
    """Whether the steps of both hosts differ in length by no more than those of hosts that train
    together; true where a host has no steps.
    """
    lengths = sorted(median(d.step_end - d.step_start) for d in (first, second) if len(d.step_number))
    return len(lengths) < 2 or lengths[1] - lengths[0] <= MAX_OFFSET_SPREAD * lengths[1]


def _wait_for_each_other(first: HostSummary, second: HostSummary) -> bool | None:
    """Whether the collectives of both hosts end together up to a constant offset; None where there
    are too few common collectives to decide.
    """
    ends, first_ends = last_collective_ends(second), last_collective_ends(first)
    shared = (
        first.signature.collectives & second.signature.collectives and first.origin.is_wall_clock == second.origin.is_wall_clock
    )
    if not shared or len(ends.keys() & first_ends.keys()) < MIN_OFFSET_STEPS:
        return None
    apart = 1000 * (second.origin.origin_ns - first.origin.origin_ns)
    usual = {number: float(end - apart) for number, end in first_ends.items()}
    return estimate_offset(ends, usual, median(second.step_end - second.step_start)) is not None


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return max(first[0], second[0]) < min(first[1], second[1])
