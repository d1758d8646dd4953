"""Opening the hosts of a run: all of their events, or of very many those of a few, and a digest of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from posixpath import basename, dirname
from typing import Any, TypeVar

import numpy as np

from outpace.hosts.gather import gathered
from outpace.hosts.map import Mapper, here, map_hosts
from outpace.hosts.missing import missing_hosts, told
from outpace.hosts.read import Asked, digest_of, shared, trace_of
from outpace.metrics.machine.device_counts import device_counts
from outpace.metrics.program.digest import Digest, digests
from outpace.model import OutpaceError, OutputError, TooLargeError, UsageError
from outpace.model.redact import Redaction
from outpace.model.units import counted
from outpace.store.logdir import record_of
from outpace.store.profiles import ProfileFile, ProfileSet
from outpace.timeline import Run
from outpace.timeline.vocabulary import WORDS
from outpace.trace import TERMS, Limits, Trace, learn
from outpace.trace import redact as redacted

MOST_WHOLE = 16  # hosts whose events are all kept; in memory a profile takes several times its file
_TYPICAL, _SLOWEST = 6, 2  # of more hosts, those whose events are kept
_MOST_WARNINGS = 10
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def open_run(
    found: ProfileSet,
    *,
    use_marks: bool = True,
    redaction: Redaction | None = None,
    on: Mapper | None = None,
    limits: Limits | None = None,
    **more: Any,
) -> tuple[Run, ProfileSet]:
    """The run with all of its hosts, and the profiles that it was made of. `on`: where many hosts are read; `limits`: how much of them; `more`:
    of the `Run`.

    A host that cannot be read is left out, which a remark says. Raises ProfileError or NotFoundError where none can, TooLargeError where
    the events of the hosts find no room, and UsageError for more hosts than can be redacted: what is kept of very many is read elsewhere,
    and full of their names.
    """
    limits = limits or Limits()
    found, joined = gathered(found)
    if limits.window is not None and limits.window.spare and len(found.files) > 1:
        limits = Limits(None, limits.memory)  # counted from the earliest event of all hosts, it would be another one on each
    remarks = [*joined, *told([file.host for file in found.files])]
    every: tuple[Digest, ...] = ()
    files = found.files
    if len(files) > MOST_WHOLE:
        if redaction is not None:
            raise UsageError(
                f"At most {MOST_WHOLE} hosts are redacted together, and these are {len(files)}. Give some of their files."
            )
        every = _digests([Asked(file, use_marks, limits.window) for file in files], remarks, on)
        files = _whole(files, every, remarks)
    traces = _of_each(partial(trace_of, limits=limits), files, files, remarks, here)
    remarks += _windows(traces)
    records = _records(files, remarks)
    title = title_of(found, traces)
    if redaction is not None:
        _learn(redaction, found, records)
        title, traces, records, remarks = _redacted(redaction, title, traces, records, remarks)
    run = Run.of(traces, title, use_marks=use_marks, records=records, remarks=tuple(remarks), **more)
    if every:
        run.derived.give(digests, every)
        run.derived.give(device_counts, tuple(d.devices for d in every))
    return run, found


def _windows(traces: Sequence[Trace]) -> list[str]:
    """What a reader must know of traces of a part of the time."""
    parts = dict.fromkeys(str(trace.window) for trace in traces if trace.window is not None)
    return [
        f"Only a part of the time is in this report: {part}. Steps that no mark numbers are counted from there."
        for part in parts
    ]


def _redacted(
    redaction: Redaction, title: str, traces: Sequence[Trace], records: Mapping[str, Mapping[str, Any]], remarks: Sequence[str]
) -> tuple[str, list[Trace], dict[str, Mapping[str, Any]], list[str]]:
    """What was opened with stand-ins. All of it is seen before any is redacted: one part may name what another one is full of."""
    for trace in traces:
        learn(trace, redaction)
    hosts = {trace.host: f"host{at:0{len(str(len(traces)))}}" for at, trace in enumerate(traces, 1)}
    return (
        redaction.path(title),
        [redacted(trace, redaction, hosts[trace.host]) for trace in traces],
        {hosts[host]: redaction.record(record) for host, record in records.items()},
        [redaction.text(remark) for remark in remarks],
    )


def _learn(redaction: Redaction, found: ProfileSet, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Let a redaction see the names of all hosts, those included that remarks alone name, and of their folders."""
    redaction.keep(TERMS | WORDS)
    hosts = [file.host for file in found.files]
    for host in (*hosts, *missing_hosts(hosts)):
        for part in host.split("/"):  # some have their rank in front
            redaction.host(part)
    for file in found.files:
        redaction.host(basename(dirname(file.path)))
    for record in records.values():
        redaction.record(record)


def title_of(found: ProfileSet, traces: Sequence[Trace]) -> str:
    """What a report calls its source: the file or folder, or the host of what is in memory and has no name."""
    only = found.files[0]
    if only.held is not None:
        return only.path or f"{traces[0].host} (in memory)"
    return only.path if len(found.files) == 1 and only.path == found.source else found.folder


def _of_each(
    function: Callable[[_Item], _Read],
    items: Sequence[_Item],
    files: Sequence[ProfileFile],
    remarks: list[str],
    on: Mapper | None,
) -> list[_Read]:
    """What a function says of each host that can be read; the others are left out, which is said. Raises why the last of all cannot be."""
    read, failed = list[_Read](), list[OutpaceError]()
    for file, answer in zip(files, map_hosts(function, items, on), strict=True):
        if not isinstance(answer, OutpaceError):
            read.append(answer)
        elif isinstance(answer, (OutputError, TooLargeError)):  # no room, for a copy or for events, is no fault of a host
            raise answer
        else:
            failed.append(answer)
            remarks.append(f"{file.host} is left out: {answer}")
    if not read:
        raise failed[-1]
    return read


def _records(files: Sequence[ProfileFile], remarks: list[str]) -> dict[str, Mapping[str, Any]]:
    found = dict[str, Mapping[str, Any]]()
    for file in files:
        record, warning = record_of(file)
        if record is not None:
            found[file.host] = record.as_dict()
        if warning:
            remarks.append(warning)
    return found


def _digests(hosts: Sequence[Asked], remarks: list[str], on: Mapper | None) -> tuple[Digest, ...]:
    """A digest of each host that can be read, and what a reader must know of them as remarks."""
    warnings = list[str]()
    read = [shared(each) for each in _of_each(digest_of, hosts, [each.file for each in hosts], warnings, on)]
    warnings += [warning for each in read for warning in each.warnings]
    remarks += warnings[:_MOST_WARNINGS]
    if len(warnings) > _MOST_WARNINGS:
        remarks.append(
            f"{counted(len(warnings) - _MOST_WARNINGS, 'more warning')} about single hosts: open them alone to see these."
        )
    return tuple(read)


def _whole(files: Sequence[ProfileFile], every: Sequence[Digest], remarks: list[str]) -> tuple[ProfileFile, ...]:
    """The hosts whose events are kept: some that are like most, for all that is said of the program, and the slowest."""
    known = sorted((time, d.host) for d in every if not np.isnan(time := _time(d))) or [(0.0, d.host) for d in every]
    middle = max((len(known) - _TYPICAL) // 2, 0)
    typical, slowest = ([host for _, host in part] for part in (known[middle : middle + _TYPICAL], known[-_SLOWEST:]))
    kept = {*typical, *slowest}
    remarks.append(
        f"Of {counted(len(every), 'host')} the events of {len(kept)} are in this report: of {', '.join(slowest)}, the slowest, and of "
        f"{', '.join(host for host in typical if host not in slowest)}, which are like most. The pod viewer is about all of them."
    )
    return tuple(file for file in files if file.host in kept)


def _time(host: Digest) -> float:
    """What hosts are compared by, ps: time before the first collective of a step, else of a step; NaN for a host without steps."""
    times = [worker.mean if np.isnan(worker.lead) else worker.lead for worker in host.workers]
    return max(times, default=float("nan"))
