"""Arrays that are fetched from devices: what the host waits for while a device computes is no
fetch; and copies to it, beside its work.
"""

from __future__ import annotations

import pytest

from outpace.metrics.views.host_copies import device_compute_rows, host_copies
from outpace.metrics.views.host_fetches import host_fetches
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000


def run_of(
    *kernels: tuple[int, int],
    host: tuple[str, int, int] = ("np.asarray(jax.Array)", 4, 9),
    copies: tuple[tuple[str, int, int], ...] = (),
    sizes: tuple[int, ...] = (1_000_000,),
    gpus: int = 1,
    length: int = 10,
) -> Run:
    """Eight steps of 10 ms, or of a `length` in as much time: `kernels` from, until (ms), a host
    event, and copies (direction, from, until), of which the n-th step's have the n-th size, again
    and again.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, other = plane.line("python"), plane.line("client/1")
    for index in range(gpus):
        gpu = GpuBuilder(space, main, index=index)
        for step in range(8):
            for low, high in kernels:
                gpu.kernel("gemm", (10 * step + low) * MS, (high - low) * MS)
            for direction, low, high in copies:
                gpu.copy(direction, sizes[step % len(sizes)], (10 * step + low) * MS, (high - low) * MS, stream=20 - index)
    for step in range(8):
        main.event("train", 10 * step * MS, length * MS, step_num=step, _r=1)
        other.event(host[0], (10 * step + host[1]) * MS, (host[2] - host[1]) * MS)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


@pytest.mark.parametrize(
    ("kernels", "share"),
    [([(1, 3)], 0.5), ([(1, 6)], 0.3), ([(1, 5), (7, 8)], 0.3), ([(1, 10)], 0.0)],
    ids=["none computes meanwhile", "the first 2 ms it waits", "in two pieces", "all the time"],
)
@pytest.mark.parametrize("name", ["np.asarray(jax.Array)", "ArrayImpl.copy_to_host_async"])
def test_what_a_device_computes_meanwhile_is_no_fetch(kernels: list[tuple[int, int]], share: float, name: str) -> None:
    (row,) = host_fetches(run_of(*kernels, host=(name, 4, 9), copies=(("D2H", 4, 9),))).records()
    assert (row["fetched_ps"], row["share"]) == (5 * MS, pytest.approx(share))


@pytest.mark.parametrize(
    ("copies", "sizes", "found"),
    [
        ((("D2H", 4, 5), ("D2H", 6, 7)), (500,), 1000.0),
        ((("D2H", 4, 5), ("H2D", 6, 7)), (500,), 500.0),
        ((("D2H", 4, 5),), (500, 500, 500, 9000), 500.0),
        ((), (500,), 0.0),
    ],
    ids=["two", "one comes in", "the median step", "none"],
)
def test_bytes_of_the_median_step(copies: tuple[tuple[str, int, int], ...], sizes: tuple[int, ...], found: float) -> None:
    (row,) = host_fetches(run_of((1, 3), copies=copies, sizes=sizes)).records()
    assert row["bytes"] == found


def test_copies_between_steps_are_of_none() -> None:
    (row,) = host_fetches(run_of((1, 3), copies=(("D2H", 4, 5), ("D2H", 8, 9)), sizes=(500,), length=7)).records()
    assert row["bytes"] == 500.0


def test_without_fetches_or_without_a_device_there_are_none() -> None:
    assert len(host_fetches(run_of((1, 3), host=("work", 4, 9)))) == 0
    assert len(host_fetches(run_of(gpus=0))) == 0


@pytest.mark.parametrize(("kernels", "share"), [([(1, 3)], 0.5), ([(1, 6)], 0.3), ([(0, 10)], 0.0)])
def test_copies_to_a_device_beside_its_work_cost_no_time(kernels: list[tuple[int, int]], share: float) -> None:
    """That it copies meanwhile is no work of its own."""
    (row,) = host_copies(run_of(*kernels, host=("H2D Dispatch", 4, 9), copies=(("H2D", 4, 9),))).records()
    assert (row["copied_ps"], row["share"]) == (5 * MS, pytest.approx(share))


@pytest.mark.parametrize("gpus", [1, 2])
def test_what_devices_compute_is_in_the_order_of_the_rows(gpus: int) -> None:
    run = run_of((1, 3), (5, 6), copies=(("D2H", 4, 9),), gpus=gpus)
    rows = device_compute_rows(run.hosts[0])
    trace = run.hosts[0].trace
    assert rows.tolist() == sorted(rows.tolist())
    assert [trace.names[name] for name in trace.name[rows].tolist()] == ["gemm"] * (16 * gpus)
