# SPDX-License-Identifier: Apache-2.0
"""Redaction of a trace: stand-ins for paths, hosts and users in all of its texts, also in the bytes
of its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from outpace.model.redaction import Redaction
from outpace.trace import dialect
from outpace.trace.stats import Value
from outpace.trace.trace import Trace

DIALECT_WORDS = frozenset(re.findall(r"\w+", " ".join(text for text in vars(dialect).values() if isinstance(text, str))))
"""Words of the dialect, which are never redacted: a host that is called `host` is no secret, and
`/host:CPU` must stay.
"""


def learn_names(trace: Trace, redaction: Redaction) -> None:
    """Show a redaction all names in a trace, so that it recognises them in traces redacted
    first.
    """
    for host in (trace.host, *trace.hostnames):
        redaction.redact_host(host.rpartition(":")[0] or host)
        redaction.redact_name(host)
    for value in _values(trace):
        _redact_value(value, redaction)
    trace.rewrite(
        *(lambda content, see=see: see(content) and content for see in (redaction.redact_bytes, redaction.redact_message))
    )


def redact_trace(trace: Trace, redaction: Redaction, host: str) -> Trace:
    """Return the redacted trace, under the host name `host`. The bytes of the given trace's source
    are changed in memory, so that it must not be used any more.
    """
    text = redaction.redact_text
    trace.rewrite(redaction.redact_bytes, redaction.redact_message)
    return replace(
        trace,
        host=host,
        source=redaction.redact_path(trace.source),
        planes=tuple(replace(plane, name=text(plane.name), stats=_stats(plane.stats, redaction)) for plane in trace.planes),
        lines=replace(trace.lines, names=tuple(map(text, trace.lines.names))),
        names=tuple(map(text, trace.names)),
        display_names={row: text(name) for row, name in trace.display_names.items()},
        name_stats={row: _stats(stats, redaction) for row, stats in trace.name_stats.items()},
        stat_names=tuple(map(text, trace.stat_names)),
        hostnames=tuple(map(text, trace.hostnames)),
        messages=tuple(map(text, trace.messages)),
        damages=tuple(replace(loss, description=text(loss.description), plane=text(loss.plane)) for loss in trace.damages),
    )


def _values(trace: Trace) -> Iterator[Value]:
    """Yield all texts and messages of a trace except those of event stats."""
    yield from (plane.name for plane in trace.planes)
    yield from (*trace.lines.names, *trace.names, *trace.display_names.values(), *trace.stat_names, *trace.messages)
    for stats in (*(plane.stats for plane in trace.planes), *trace.name_stats.values()):
        yield from stats.values()


def _stats(stats: dict[str, Value], redaction: Redaction) -> dict[str, Value]:
    return {redaction.redact_text(name): _redact_value(value, redaction) for name, value in stats.items()}


def _redact_value(value: Value, redaction: Redaction) -> Value:
    if isinstance(value, str):
        return redaction.redact_text(value)
    return redaction.redact_message(value) if isinstance(value, bytes) else value
