"""A viewer's file of a profile that is read from its file by blocks, as a large one is, against one
in memory: the same bytes, and its texts are the profile's.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outpace import api
from outpace.testing import Inline, SpaceBuilder
from outpace.trace import Window, content_reader
from outpace.trace.export import ExportFormat
from outpace.trace.formats.xspace import index
from outpace.viewer import Selection
from outpace.viewer.trace_writer import write_trace
from tests.support import FAST, PROFILES, profile_path
from tests.unit.viewer.perfetto_trace import decode

BLOCK = 300
SAMPLE = random.Random(5).sample(PROFILES, 6)
IN_TURN = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.verify) for name in PROFILES]


def written(path: Path, block: int, folder: Path, window: Window | None = None) -> dict[ExportFormat, bytes]:
    """The viewer's files of a profile, which is in memory (0) or read by blocks of so
    many bytes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_reader, "_AT_ONCE", 1 if block else 1 << 40)
        patch.setattr(index, "READ_BLOCK_BYTES", block)
        run = api.open(path, window=window).run
        assert all((timeline.trace._source.data.memory is None) == bool(block) for timeline in run.hosts)  # type: ignore[attr-defined]
        chosen = Selection() if window is None else Selection((window.begin, window.end))
        made = {}
        for form in ExportFormat:
            with (folder / "trace").open("wb") as file:
                write_trace(run, file.fileno(), form, chosen)
            made[form] = (folder / "trace").read_bytes()
        return made


def unpacked(name: str, folder: Path) -> Path:
    """A capture without gzip, which would bring it into memory."""
    run = folder / name
    run.mkdir()
    for file in profile_path(name).iterdir():
        packed = file.suffix == ".gz"
        path = run / (file.name.removesuffix(".gz") if packed else file.name)
        path.write_bytes(gzip.decompress(file.read_bytes()) if packed else file.read_bytes())
        os.utime(path, (10**9, 10**9))
    return run


@pytest.mark.parametrize("name", IN_TURN)
def test_every_profile_is_written_alike(name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    whole = written(path, 0, tmp_path)
    assert written(path, BLOCK, tmp_path) == whole
    begin, end = api.open(path).run.hosts[0].trace.span_ps
    if end > begin:
        window = Window((end - begin) // 4, (end - begin) * 3 // 4, include_overlapping=True)
        part = written(path, 0, tmp_path, window)
        assert written(path, BLOCK, tmp_path, window) == part
        assert len(part[ExportFormat.JSON]) < len(whole[ExportFormat.JSON]), "it is a part"


def arguments(data: dict[ExportFormat, bytes]) -> list[list[dict[str, Any]]]:
    """Of each format the arguments of the slices, in the order of the file."""
    slices = json.loads(data[ExportFormat.JSON])["traceEvents"]
    return [
        [found.arguments for found in decode(data[ExportFormat.PERFETTO]).slices],
        [event.get("args", {}) for event in slices if event["ph"] == "X"],
    ]


def written_arguments(
    path: Path, stats: list[dict[str, str]], folder: Path, blocks: tuple[int, ...] = (0, 1, BLOCK, 4096)
) -> list[list[list[dict[str, Any]]]]:
    """The arguments in the files of a profile whose events have these texts: from memory, and by
    blocks.
    """
    made = SpaceBuilder()
    line = made.plane("/device:GPU:0").line("Stream #1(Compute)")
    for at, texts in enumerate(stats):
        values: dict[str, Any] = {name: Inline(text) for name, text in texts.items()}
        line.event("fusion.1", at * 1_000_000, 900_000, **values)
    made.write(path)
    os.utime(path, (10**9, 10**9))
    return [arguments(written(path, block, folder)) for block in blocks]


def test_a_text_is_its_own_wherever_its_block_is_read(tmp_path: Path) -> None:
    """Two texts of one length, each in many blocks."""
    stats = [{"tf_op": "AAAA........" if at < 150 else "BBBB........"} for at in range(330)]
    for found in written_arguments(tmp_path / "vm.xplane.pb", stats, tmp_path):
        assert found == [stats, stats]


@pytest.mark.parametrize(("count", "size"), [(4200, 5), pytest.param(18, 1 << 20, marks=pytest.mark.slow)])
def test_texts_that_are_too_many_to_be_kept_are_written_where_they_stand(count: int, size: int, tmp_path: Path) -> None:
    stats = [{"tf_op": f"{at % count:05}" + "x" * (size - 5)} for at in range(count + 10)]
    for found in written_arguments(tmp_path / "vm.xplane.pb", stats, tmp_path, (0, 1 << 16)):
        assert found == [stats, stats]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(("A" * 12, "B" * 12, "C" * 400))


@given(st.lists(st.dictionaries(st.sampled_from(("tf_op", "equation", "shape")), TEXTS), min_size=1, max_size=60))
@settings(max_examples=15 if FAST else 200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_are_the_profiles(tmp_path: Path, stats: list[dict[str, str]]) -> None:
    for found in written_arguments(tmp_path / "vm.xplane.pb", stats, tmp_path):
        assert found == [stats, stats]
