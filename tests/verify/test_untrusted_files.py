"""Files that are cut, and files that change while they are read: the verdict of a whole file, or a
sentence; no signal ends the reader.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outpace import api
from outpace.model import ProfileError
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import profile_bytes, profile_path

pytestmark = pytest.mark.verify
LAST, DRAWN, MOMENTS = 8192, 200, 50
PROFILES = (
    "custom_loop",
    "input_bound_generator",
    "jax_loop",
    "jax_rocm_conv_8gpu",
    "keras_fit",
    "mirrored",
    "retracing",
    "tf_gpu_v100_bert",
    "tfdata_heavy",
    "tpu_v6e_inference",
)


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends; ValueError where the message ends before."""
    value = shift = 0
    while at < end:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError


def boundaries(data: bytes, at: int, end: int, first: int) -> Iterator[int]:
    """Where fields begin and end, from `first` on, in a message and in what may be a message in it;
    ValueError for what is none.
    """
    while at < end:
        yield at
        tag, at = varint(data, at, end)
        if tag & 7 == 0:
            _, at = varint(data, at, end)
        elif tag & 7 == 1:
            at += 8
        elif tag & 7 == 2:
            size, at = varint(data, at, end)
            if at + size > end:
                raise ValueError
            try:
                inner = list(boundaries(data, at, at + size, first)) if at + size >= first else []
            except ValueError:
                inner = []
            yield from inner
            at += size
        else:
            raise ValueError
    if at != end:
        raise ValueError


def verdict(data: bytes) -> str | None:
    """What bounds the program; None where there is none."""
    try:
        page = api.Profile(Run.from_traces([read_trace(data, "vm")], "cut")).page("overview")
    except ProfileError:
        return None
    return None if page.unavailable or page.headline.startswith("No step was found") else page.headline


@pytest.mark.parametrize("name", PROFILES)
def test_a_cut_profile_has_the_verdict_of_the_whole_one_or_none(name: str) -> None:
    data = profile_bytes(name, next(iter(sorted(profile_path(name).glob("*.gz")))).name.removesuffix(".xplane.pb.gz"))
    whole, first, chance = verdict(data), len(data) - LAST, random.Random(name)
    ends = sorted({at for at in boundaries(data, 0, len(data), first) if first <= at < len(data)})
    assert whole is not None and len(ends) > 400
    cuts = {at: verdict(data[:at]) for at in (*ends, *(chance.randrange(len(data)) for _ in range(DRAWN)))}
    assert {at: said for at, said in cuts.items() if said not in (None, whole)} == {}
    assert None in cuts.values() and whole in cuts.values(), "the names at the end matter, what stands behind them does not"


def padded(data: bytes, size: int) -> bytes:
    """The same message, in so many bytes: with a field that nobody knows."""
    rest = size - len(data) - 1
    length = next(bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14 & 127 | 128, n >> 21]) for n in [rest - 4])
    return data + b"\x7a" + length + bytes(rest - 4)


LARGE = profile_bytes("tfdata_heavy", "vm") * 4  # concatenated messages are one message
OTHER = padded(profile_bytes("input_bound_generator", "vm"), len(LARGE))


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(OTHER)


def replace(path: Path) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(OTHER)
    os.replace(beside, path)


CHANGES = {"replaced": replace, "overwritten": overwrite, "truncated": lambda path: os.truncate(path, len(LARGE) // 3)}
READERS = {
    "report": ["-m", "outpace.cli", "report"],
    "an open profile": [
        "-c",
        "import outpace, sys; p = outpace.open(sys.argv[1]); print(p.report().headline); p.memory_profile(); p.tf_data()",
    ],
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_ends_in_a_verdict_or_a_sentence(
    tmp_path: Path, change: Callable[[Path], None], reader: list[str]
) -> None:
    path = tmp_path / "vm.xplane.pb"
    started = time.monotonic()
    path.write_bytes(LARGE)
    command = [sys.executable, *reader, str(path)]
    known = [subprocess.run(command, capture_output=True, text=True, check=True).stdout]
    span = time.monotonic() - started
    change(path)
    known.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert known[0] != known[1]
    for moment in range(MOMENTS):
        path.unlink()
        path.write_bytes(LARGE)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            time.sleep(span * moment / MOMENTS)
            change(path)
            out, error = run.communicate(timeout=120)
        if run.returncode == 0:
            assert out in known
        else:
            assert run.returncode > 0, "no signal"
            assert "changed while it was read" in error and ("Traceback" not in error or reader[0] == "-c")
