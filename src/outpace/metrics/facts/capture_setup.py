# SPDX-License-Identifier: Apache-2.0
"""The setup of a capture, as far as the profile and its record show it: devices, versions, and the
profiler's options.
"""

from __future__ import annotations

from outpace.metrics.facts.missing_steps import format_missing_bytes
from outpace.model import protobuf_wire
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.trace import dialect

# Field numbers of TensorFlow's ProfileOptions; protobuf omits a field that is 0.
_LEVELS = {2: "host", 3: "device", 4: "Python"}


def device_name(timeline: Timeline, device_type: str) -> str:
    """Return the model of a host's devices of one type, or the type itself where the profile has
    none.

    device_type: type in the names of devices, such as "GPU" or "TPU"
    """
    for plane in timeline.device_planes:
        name = plane.stats.get(dialect.GPU_DEVICE_NAME) or plane.stats.get(dialect.DEVICE_TYPE)
        if name and f"{dialect.DEVICE_PREFIX}{device_type}" in plane.name:
            return str(name)
    return device_type


def device_names(timeline: Timeline) -> str:
    """Return the models of all types of a host's devices, separated by commas; "" without any."""
    kinds = sorted({plane.name.removeprefix(dialect.DEVICE_PREFIX).split(":")[0] for plane in timeline.device_planes})
    return ", ".join(device_name(timeline, kind) for kind in kinds)


def framework_versions(run: Run, timeline: Timeline) -> dict[str, str]:
    """Return the version of each framework by its name, from the record, else from the profile."""
    recorded = run.record(timeline.host).get("versions")
    if recorded:
        return {name: str(version) for name, version in recorded.items()}
    metadata = timeline.trace.find_plane(dialect.METADATA_PLANE)
    versions = (
        {key.removesuffix("_version"): value for key, value in metadata.stats.items() if key.endswith("_version")}
        if metadata
        else {}
    )
    return {name: version for name, version in versions.items() if isinstance(version, str)}


def tracer_levels(timeline: Timeline) -> str:
    """Return the profiler's tracer levels, such as `host 2, device 1, Python 0`; "" where unknown.

    The levels determine how much is recorded, and so the cost of profiling.
    """
    environment = timeline.trace.find_plane(dialect.ENVIRONMENT_PLANE)
    options = environment.stats.get(dialect.PROFILE_OPTIONS) if environment else None
    if not isinstance(options, bytes):
        return ""
    try:
        levels = {field: value for field, value in protobuf_wire.iter_fields(options) if isinstance(value, int)}
    except ValueError:
        return ""
    return ", ".join(f"{name} {levels.get(field, 0)}" for field, name in _LEVELS.items())


def format_lost_data(run: Run) -> str:
    """Return a text on data that is missing from a run, with the profiler's messages; "" where none
    is.
    """
    nameless = sum(timeline.trace.unnamed_events for timeline in run.hosts)
    messages = [message for timeline in run.hosts for message in timeline.trace.messages]
    parts = [
        format_missing_bytes(run),
        f"{format_count(nameless, 'event')} without a name" if nameless else "",
        *dict.fromkeys(messages),
    ]
    return "; ".join(filter(None, parts))
