"""How threads are called in the viewer."""

from __future__ import annotations

from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace
from outpace.viewer.sections import build_plane_sections


def test_threads_of_a_pool_are_counted_and_others_keep_their_number() -> None:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    for at, name in enumerate(
        ("tf_Compute/8822759108634725401", "tf_Compute/-4381065019246278726", "python/4711", "worker", "idle/9999999999999")
    ):
        line = plane.line(name, id=at + 7)
        if not name.startswith("idle"):
            line.event("work", 0, 1000)
    (host,) = build_plane_sections(Run.from_traces([read_trace(space.to_bytes(), "vm")]))
    assert sorted(name for _, name in host.lines) == ["python/4711/9", "tf_Compute 1", "tf_Compute 2", "worker/10"]
