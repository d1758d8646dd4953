# SPDX-License-Identifier: Apache-2.0
"""Opening of the hosts of a run: all of their events, or for very many hosts the events of a few
and a summary of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from outpace.hosts.folder_merge import merge_folders
from outpace.hosts.host_reader import HostRequest, intern_op_names, read_host_summary, read_host_trace
from outpace.hosts.map import Mapper, map_hosts, map_serially
from outpace.hosts.missing import missing_host_warnings
from outpace.metrics.cluster.host_summary import HostSummary, host_summaries
from outpace.metrics.facts.device_counts import device_counts
from outpace.model import OutpaceError, OutputError, TooLargeError, UsageError
from outpace.model.units import format_count
from outpace.store.logdir import find_record
from outpace.store.profiles import ProfileFile, ProfileSet
from outpace.timeline import Run
from outpace.trace import ReadLimits, Trace

if TYPE_CHECKING:
    from outpace.model.redaction import Redaction

# maximum number of hosts whose events are all kept; in memory a profile takes several times the
# size of its file
MAX_FULL_HOSTS = 16
_TYPICAL, _SLOWEST = 6, 2  # numbers of typical and of slowest hosts whose events are kept where there are more hosts
_MOST_WARNINGS = 10
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def open_run(
    profiles: ProfileSet,
    *,
    use_marks: bool = True,
    redaction: Redaction | None = None,
    mapper: Mapper | None = None,
    limits: ReadLimits | None = None,
    **more: Any,
) -> tuple[Run, ProfileSet]:
    """Return the run with all of its hosts, and the profiles that it was built from.

    mapper: where the hosts are read if there are many
    limits: how much of the hosts is read
    more: further arguments of the `Run`

    A host that cannot be read is left out, with a remark. Raises ProfileError or NotFoundError
    where no host can be read, TooLargeError where the events do not fit into memory, and UsageError
    for more hosts than can be redacted: summaries of very many hosts are computed in other
    processes and contain their names.
    """
    limits = limits or ReadLimits()
    profiles, joined = merge_folders(profiles)
    if limits.window is not None and limits.window.optional and len(profiles.files) > 1:
        limits = ReadLimits(
            None, limits.memory
        )  # relative to the earliest event of all hosts, the window would be another one on each host
    remarks = [*joined, *missing_host_warnings([file.host for file in profiles.files])]
    every: tuple[HostSummary, ...] = ()
    files = profiles.files
    if len(files) > MAX_FULL_HOSTS:
        if redaction is not None:
            raise UsageError(
                f"At most {MAX_FULL_HOSTS} hosts are redacted together, and these are {len(files)}. Give some of their files."
            )
        every = _digests([HostRequest(file, use_marks, limits.window) for file in files], remarks, mapper)
        files = _whole(files, every, remarks)
    traces = _read_each(partial(read_host_trace, limits=limits), files, files, remarks, map_serially)
    remarks += _windows(traces)
    records = _records(files, remarks)
    title = format_title(profiles, traces)
    if redaction is not None:
        from outpace.hosts.redaction import learn_hosts, redact_parts  # few reports are redacted

        learn_hosts(redaction, profiles, records)
        title, traces, records, remarks = redact_parts(redaction, title, traces, records, remarks)
    run = Run.from_traces(traces, title, use_marks=use_marks, records=records, remarks=tuple(remarks), **more)
    if every:
        run.cache.set(host_summaries, every)
        run.cache.set(device_counts, tuple(d.device_count for d in every))
    return run, profiles


def _windows(traces: Sequence[Trace]) -> list[str]:
    """Return remarks about traces that contain only a part of the time."""
    parts = dict.fromkeys(str(trace.window) for trace in traces if trace.window is not None)
    return [
        f"Only a part of the time is in this report: {part}. Steps that no mark numbers are counted from there."
        for part in parts
    ]


def format_title(profiles: ProfileSet, traces: Sequence[Trace]) -> str:
    """Return the title of a report's source: the file or folder, or the host where the profile is
    in memory and has no name.
    """
    only = profiles.files[0]
    if only.in_memory is not None:
        return only.path or f"{traces[0].host} (in memory)"
    return only.path if len(profiles.files) == 1 and only.path == profiles.source else profiles.folder


def _read_each(
    function: Callable[[_Item], _Read],
    items: Sequence[_Item],
    files: Sequence[ProfileFile],
    remarks: list[str],
    on: Mapper | None,
) -> list[_Read]:
    """Return the function's result for each host that can be read; each other host is left out with
    a remark. Raises the error of the last host where none can be read.
    """
    read, failed = list[_Read](), list[OutpaceError]()
    for file, answer in zip(files, map_hosts(function, items, on), strict=True):
        if not isinstance(answer, OutpaceError):
            read.append(answer)
        # no room for a copy or for events is no defect of a host's file
        elif isinstance(answer, (OutputError, TooLargeError)):
            raise answer
        else:
            failed.append(answer)
            remarks.append(f"{file.host} is left out: {answer}")
    if not read:
        raise failed[-1]
    return read


def _records(files: Sequence[ProfileFile], remarks: list[str]) -> dict[str, Mapping[str, Any]]:
    records = dict[str, Mapping[str, Any]]()
    for file in files:
        record, warning = find_record(file)
        if record is not None:
            records[file.host] = record.as_dict()
        if warning:
            remarks.append(warning)
    return records


def _digests(hosts: Sequence[HostRequest], remarks: list[str], on: Mapper | None) -> tuple[HostSummary, ...]:
    """Return a summary of each host that can be read, and append its warnings to the remarks."""
    warnings = list[str]()
    read = [
        intern_op_names(summary)
        for summary in _read_each(read_host_summary, hosts, [request.file for request in hosts], warnings, on)
    ]
    warnings += [warning for summary in read for warning in summary.warnings]
    remarks += warnings[:_MOST_WARNINGS]
    if len(warnings) > _MOST_WARNINGS:
        remarks.append(
            f"{format_count(len(warnings) - _MOST_WARNINGS, 'more warning')} about single hosts: open them alone to see these."
        )
    return tuple(read)


def _whole(files: Sequence[ProfileFile], every: Sequence[HostSummary], remarks: list[str]) -> tuple[ProfileFile, ...]:
    """Return the profiles of the hosts whose events are kept: some of median speed, which represent
    the program, and the slowest.
    """
    by_time = sorted((time, d.host) for d in every if not np.isnan(time := _time(d))) or [(0.0, d.host) for d in every]
    middle = max((len(by_time) - _TYPICAL) // 2, 0)
    typical, slowest = ([host for _, host in part] for part in (by_time[middle : middle + _TYPICAL], by_time[-_SLOWEST:]))
    hosts = {*typical, *slowest}
    remarks.append(
        f"Of {format_count(len(every), 'host')} the events of {len(hosts)} are in this report: of {', '.join(slowest)}, the slowest, and of "
        f"{', '.join(host for host in typical if host not in slowest)}, which are like most. The pod viewer is about all of them."
    )
    return tuple(file for file in files if file.host in hosts)


def _time(host: HostSummary) -> float:
    """Return the time by which hosts are compared, ps: the time before the first collective of a
    step, or the time of a step without collectives; NaN for a host without steps.
    """
    times = [worker.mean_step_ps if np.isnan(worker.mean_lead_ps) else worker.mean_lead_ps for worker in host.workers]
    return max(times, default=float("nan"))
