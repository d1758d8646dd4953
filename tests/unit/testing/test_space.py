"""The builder's own promises: what it writes beside events, and what it refuses."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from outpace.model.protobuf_wire import encode_varint
from outpace.testing import Inline, SpaceBuilder, Unsigned
from outpace.trace import read_trace
from tests.xspace_proto import XSpace


def parsed(space: SpaceBuilder) -> Any:
    return XSpace.FromString(space.to_bytes())


def fields(descriptor: Any) -> dict[str, dict[str, tuple[int, int, bool]]]:
    """Number, type and whether it repeats, of every field of every message in a file."""
    found = {
        name: {
            f.name: (f.number, f.type, f.is_repeated if hasattr(f, "is_repeated") else f.label == f.LABEL_REPEATED)
            for f in m.fields
        }
        for name, m in descriptor.message_types_by_name.items()
    }
    return {name: found[name] for name in sorted(found)}


@pytest.mark.slow
def test_the_schema_of_the_tests_is_that_of_tensorflow() -> None:
    """Without importing TensorFlow: the generated module needs only protobuf."""
    home = importlib.util.find_spec("tensorflow")
    if home is None or not home.submodule_search_locations:
        pytest.skip("TensorFlow is not installed")
    file = Path(home.submodule_search_locations[0]) / "tsl" / "profiler" / "protobuf" / "xplane_pb2.py"
    spec = importlib.util.spec_from_file_location("xplane_pb2", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert fields(XSpace.DESCRIPTOR.file) == fields(module.XSpace.DESCRIPTOR.file)


def test_stats_beside_the_name_of_an_event() -> None:
    space = SpaceBuilder()
    plane = space.plane("/device:TPU:0", id=2)
    plane.line("XLA Ops").event("fusion.1", 0, 10)
    plane.describe("fusion.1", "fusion", flops=5, hlo_category="convolution", source=Inline("train.py:3"))
    (message,) = parsed(space).planes
    (named,) = message.event_metadata.values()
    kinds = [(message.stat_metadata[s.metadata_id].name, s.WhichOneof("value")) for s in named.stats]
    assert (message.id, named.name, named.display_name) == (2, "fusion.1", "fusion")
    assert kinds == [("flops", "int64_value"), ("hlo_category", "ref_value"), ("source", "str_value")]
    trace = read_trace(space.to_bytes())
    assert trace.display_names == {0: "fusion"}
    assert trace.name_stats == {0: {"flops": 5, "hlo_category": "convolution", "source": "train.py:3"}}


def test_a_number_is_written_unsigned_where_asked_or_needed() -> None:
    space = SpaceBuilder()
    plane = space.plane("p").stat("a", 1).stat("b", Unsigned(1)).stat("c", 1 << 63).stat("d", -1)
    assert plane is not None
    (message,) = parsed(space).planes
    kinds = [(s.WhichOneof("value"), getattr(s, s.WhichOneof("value"))) for s in message.stats]
    assert kinds == [("int64_value", 1), ("uint64_value", 1), ("uint64_value", 1 << 63), ("int64_value", -1)]


def test_events_are_written_by_start_and_longer_first() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("main")
    for start, duration in ((5, 1), (0, 2), (5, 9), (0, 30)):
        line.event("e", start, duration)
    assert [(e.offset_ps, e.duration_ps) for e in parsed(space).planes[0].lines[0].events] == [(0, 30), (0, 2), (5, 9), (5, 1)]


def test_errors_and_host_stand_in_the_file() -> None:
    space = SpaceBuilder("worker-7")
    space.errors.append("the buffer was full")
    assert (list(parsed(space).hostnames), list(parsed(space).errors)) == (["worker-7"], ["the buffer was full"])


def test_a_file_goes_where_it_is_asked_to(tmp_path: Path) -> None:
    space = SpaceBuilder("worker-7")
    space.plane("/host:CPU")
    assert space.write(tmp_path) == tmp_path / "worker-7.xplane.pb"
    packed = space.write(tmp_path / "x.xplane.pb.gz")
    assert gzip.decompress(packed.read_bytes()) == (tmp_path / "worker-7.xplane.pb").read_bytes() == space.to_bytes()


@pytest.mark.parametrize("value", [-(1 << 63) - 1, 1 << 64])
def test_numbers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_varint(value)
