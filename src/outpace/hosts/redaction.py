# SPDX-License-Identifier: Apache-2.0
"""Redaction of a run: the names in its title, traces, records and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from posixpath import basename, dirname
from typing import Any

from outpace.hosts.missing import find_missing_hosts
from outpace.model.redaction import Redaction
from outpace.store.profiles import ProfileSet
from outpace.timeline.vocabulary import EVENT_NAME_WORDS
from outpace.trace import DIALECT_WORDS, Trace, learn_names, redact_trace


def redact_parts(
    redaction: Redaction, title: str, traces: Sequence[Trace], records: Mapping[str, Mapping[str, Any]], remarks: Sequence[str]
) -> tuple[str, list[Trace], dict[str, Mapping[str, Any]], list[str]]:
    """Return title, traces, records and remarks with all names redacted. The redaction learns all
    names before any part is redacted, because one part may define the names that another
    contains.
    """
    for trace in traces:
        learn_names(trace, redaction)
    hosts = {trace.host: f"host{number:0{len(str(len(traces)))}}" for number, trace in enumerate(traces, 1)}
    return (
        redaction.redact_path(title),
        [redact_trace(trace, redaction, hosts[trace.host]) for trace in traces],
        {hosts[host]: redaction.redact_record(record) for host, record in records.items()},
        [redaction.redact_text(remark) for remark in remarks],
    )


def learn_hosts(redaction: Redaction, profiles: ProfileSet, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Register the names of all hosts and of their folders with a redaction, including hosts that
    only the remarks name.
    """
    redaction.keep_words(DIALECT_WORDS | EVENT_NAME_WORDS)
    hosts = [file.host for file in profiles.files]
    for host in (*hosts, *find_missing_hosts(hosts)):
        for part in host.split("/"):  # some names begin with the rank of the host
            redaction.redact_host(part)
    for file in profiles.files:
        redaction.redact_host(basename(dirname(file.path)))
    for record in records.values():
        redaction.redact_record(record)
