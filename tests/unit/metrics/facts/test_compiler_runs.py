"""What devices do for the compiler, told by which thread launched it, and when."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.compiler_runs import compiler_run_rows
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
TRAINING, WORKER, POOL = "python3", "pjrt_async_work_runner/7", "tf_pjrt_compile_thread_pool/7"


def compilers(thread: str, called: int, *, program: bool = False, copies: bool = False, ended: bool = True) -> bool:
    """Whether what `thread` launches at `called` ms is the compiler's. The training thread calls
    `step` in 0-100 and 100-120, and builds it in 10-90; `ended`: else the capture is over before
    the build is, and holds no event of it, nor of the call.
    """
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    lines = {name: plane.line(name) for name in (TRAINING, WORKER, POOL)}
    if ended:
        lines[TRAINING].event("PjitFunction(step)", 0, 100 * MS).event("backend_compile_and_load", 10 * MS, 80 * MS)
        lines[TRAINING].event("PjitFunction(step)", 100 * MS, 20 * MS)
    else:
        lines[TRAINING].event("PjitFunction(init)", 0, MS)
    gpu = GpuBuilder(space, lines[thread])
    if copies:
        gpu.copy("H2D", 1000, (called + 1) * MS, MS, called=called * MS)
    elif program:
        gpu.kernel("dot", (called + 1) * MS, MS, called=called * MS, hlo_op="dot", hlo_module="jit_step", program_id=8)
    else:
        gpu.kernel("DelayKernel", (called + 1) * MS, MS, called=called * MS)
    (timeline,) = Run.from_traces([read_trace(space.to_bytes(), "vm")]).hosts
    return bool(len(compiler_run_rows(timeline)))


@pytest.mark.parametrize(
    ("thread", "called", "program", "copies", "compiler"),
    [
        (TRAINING, 50, False, False, True),
        (TRAINING, 50, False, True, True),
        (TRAINING, 95, True, False, False),  # the call that built it runs it, too
        (TRAINING, 110, True, False, False),
        (WORKER, 50, False, False, True),
        (WORKER, 50, True, False, False),  # another program runs meanwhile
        (WORKER, 50, False, True, False),  # the next batch moves meanwhile
        (WORKER, 110, False, False, False),
        (POOL, 50, False, False, True),
        (POOL, 50, True, False, True),
        (POOL, 150, False, False, True),
    ],
)
def test_who_launched_it(thread: str, called: int, program: bool, copies: bool, compiler: bool) -> None:
    assert compilers(thread, called, program=program, copies=copies) == compiler


@pytest.mark.parametrize(("thread", "compiler"), [(POOL, True), (WORKER, False)])
def test_a_build_that_is_open_at_the_end_of_the_capture(thread: str, compiler: bool) -> None:
    assert compilers(thread, 50, ended=False) == compiler


def test_a_program_of_tensorflow_has_none() -> None:
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line(TRAINING).event("train", 0, MS, step_num=0, _r=1)
    GpuBuilder(space, line).kernel("k", MS // 2, MS // 4, op="a/MatMul:MatMul", called=MS // 4)
    (timeline,) = Run.from_traces([read_trace(space.to_bytes(), "vm")]).hosts
    assert len(compiler_run_rows(timeline)) == 0
