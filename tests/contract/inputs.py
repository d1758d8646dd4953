"""The runs that every tool must cope with."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

from outpace import api
from outpace.testing import SpaceBuilder, training_run
from tests.support import DATA, profile_bytes, profile_path
from tests.xspace_proto import XSpace

MS = 1_000_000_000
SHUFFLED = ("custom_loop", "vm")


def one_step(folder: Path) -> Path:
    return training_run(steps=1).write(folder)


def unmarked(folder: Path) -> Path:
    return training_run(marks=None).write(folder)


def no_input(folder: Path) -> Path:
    return training_run(input_ps=0, pipeline=()).write(folder)


def only_names(folder: Path) -> Path:
    """A host that recorded events, none of which is known."""
    space = SpaceBuilder()
    space.plane("/host:CPU").line("python").event("something", 0, 10 * MS).event("something", 20 * MS, 10 * MS)
    return space.write(folder)


def no_plane_of_events(folder: Path) -> Path:
    space = SpaceBuilder()
    space.plane("/host:CPU")
    return space.write(folder)


def several_hosts(folder: Path) -> Path:
    """Hosts that differ: in steps, in marks, and one without any event."""
    training_run(hostname="a", steps=6, work_ps={"ParallelMapV2": 3 * MS}).write(folder)
    training_run(hostname="b", steps=4, input_ps=9 * MS, marks="keras").write(folder)
    idle = SpaceBuilder("c")
    idle.plane("/host:CPU")
    idle.write(folder)
    return folder


def shuffled(folder: Path) -> Path:
    """A real profile whose lines hold their events in random order."""
    space = XSpace.FromString(profile_bytes(*SHUFFLED))
    order = random.Random(0)
    for plane in space.planes:
        for line in plane.lines:
            events = list(line.events)
            order.shuffle(events)
            del line.events[:]
            line.events.extend(events)
    path = folder / f"{SHUFFLED[1]}.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return path


def cut_gzip(folder: Path) -> Path:
    """A gzipped profile whose end is missing."""
    path = folder / "vm.xplane.pb.gz"
    whole = gzip.compress(profile_bytes("custom_loop", "vm"))
    path.write_bytes(whole[: len(whole) // 2])
    return path


def real(name: str) -> Callable[[Path], Path]:
    return lambda folder: profile_path(name)


INPUTS: dict[str, Callable[[Path], Path]] = {
    "empty": real("idle_empty"),
    "no plane of events": no_plane_of_events,
    "only unknown names": only_names,
    "one step": one_step,
    "unmarked": unmarked,
    "no input": no_input,
    "truncated": lambda folder: DATA / "broken" / "truncated.xplane.pb",
    "cut gzip": cut_gzip,
    "shuffled": shuffled,
    "several hosts": several_hosts,
    "keras": real("keras_fit_multi_step"),
    "input bound": real("tfdata_heavy"),
    "jax": real("jax_loop"),
    "gpu": real("tf_gpu_v100_bert"),
    "rocm": real("jax_rocm_gemm"),
    "tpu": real("tpu_v6e_inference"),
    "unicode": real("unicode_names"),
}


def opened(variant: str, folder: Path) -> api.Profile:
    """The opened input; files that are made for it go into `folder`."""
    return api.open(INPUTS[variant](folder))
