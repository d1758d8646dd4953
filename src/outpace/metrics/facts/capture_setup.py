"""What a capture was made with, as far as the profile and the record beside it say: devices,
versions, and the profiler's own settings.
"""

from __future__ import annotations

from outpace.metrics.facts.missing_steps import format_missing_bytes
from outpace.model import protobuf_wire
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.trace import dialect

_LEVELS = {2: "host", 3: "device", 4: "Python"}  # fields of TensorFlow's ProfileOptions, which are written where they are not 0


def device_name(timeline: Timeline, device_type: str) -> str:
    """Model of a host's devices of one kind (GPU, TPU), the kind itself where the profile does not
    say.
    """
    for plane in timeline.device_planes:
        name = plane.stats.get(dialect.GPU_DEVICE_NAME) or plane.stats.get(dialect.DEVICE_TYPE)
        if name and f"{dialect.DEVICE_PREFIX}{device_type}" in plane.name:
            return str(name)
    return device_type


def device_names(timeline: Timeline) -> str:
    """Models of all kinds of a host's devices; empty without any."""
    kinds = sorted({plane.name.removeprefix(dialect.DEVICE_PREFIX).split(":")[0] for plane in timeline.device_planes})
    return ", ".join(device_name(timeline, kind) for kind in kinds)


def framework_versions(run: Run, timeline: Timeline) -> dict[str, str]:
    """Versions of a host's frameworks by their names: by the record, else by the profile."""
    recorded = run.record(timeline.host).get("versions")
    if recorded:
        return {name: str(version) for name, version in recorded.items()}
    metadata = timeline.trace.find_plane(dialect.METADATA_PLANE)
    known = {k.removesuffix("_version"): v for k, v in metadata.stats.items() if k.endswith("_version")} if metadata else {}
    return {name: version for name, version in known.items() if isinstance(version, str)}


def tracer_levels(timeline: Timeline) -> str:
    """How much the profiler recorded, which is how much it cost: `host 2, device 1, Python 0`;
    empty where the profile does not say.
    """
    environment = timeline.trace.find_plane(dialect.ENVIRONMENT_PLANE)
    options = environment.stats.get(dialect.PROFILE_OPTIONS) if environment else None
    if not isinstance(options, bytes):
        return ""
    try:
        found = {field: value for field, value in protobuf_wire.iter_fields(options) if isinstance(value, int)}
    except ValueError:
        return ""
    return ", ".join(f"{name} {found.get(field, 0)}" for field, name in _LEVELS.items())


def format_lost_data(run: Run) -> str:
    """What is missing of a run, and what the profiler noted of it, in words; empty where nothing
    is.
    """
    nameless = sum(timeline.trace.unnamed_events for timeline in run.hosts)
    messages = [message for timeline in run.hosts for message in timeline.trace.messages]
    said = [
        format_missing_bytes(run),
        f"{format_count(nameless, 'event')} without a name" if nameless else "",
        *dict.fromkeys(messages),
    ]
    return "; ".join(filter(None, said))
