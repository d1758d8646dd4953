"""Profiles that grow in one way at a time: what the bench times at five sizes (`bench/growth.py`),
and a test counts at three.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from outpace.advice import rank_findings
from outpace.api import open as open_profile
from outpace.model import Certainty, Evidence, Finding, Page, Saving, Severity, Unit
from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.testing import GpuBuilder, SpaceBuilder, training_run
from outpace.timeline.hlo.module import HloModule
from outpace.ui.pages import build_run_lines as lines_of
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import scan_folders
from tests.hlo_proto import F32, TUPLE, numbers, op, shape

US, MS = 1_000_000, 1_000_000_000
Grown = Callable[[Path, int], Callable[[], object]]
"""Makes the input of a size in a folder; the result is the work on it."""


def _report(path: Path) -> Callable[[], object]:
    def work() -> object:
        with open_profile(path) as profile:
            return profile.report(["overview"])  # every tool makes its page all the same

    return work


def events(folder: Path, size: int) -> Callable[[], object]:
    """Ops per step."""
    ops = [(f"layer_{i % 10}/MatMul", "MatMul", 10 * US) for i in range(size)]
    return _report(training_run(steps=6, ops=ops).write(folder))


def steps(folder: Path, size: int) -> Callable[[], object]:
    """Steps, a third of them slow and in front: a warm-up that is as long as the capture."""
    waits = [MS if 3 * step > size else 9 * MS for step in range(size)]
    return _report(training_run(steps=size, input_ps=waits, pipeline=("Root", "Prefetch", "TensorSlice")).write(folder))


def short_steps(folder: Path, size: int) -> Callable[[], object]:
    """Marked steps with one op each, as of a day of them."""
    host = (space := SpaceBuilder("vm")).plane("/host:CPU").line("python")
    for step in range(size):
        at, length = step * 40 * US, (30 + step % 7) * US
        host.event("train", at, length, _r=1, step_num=step)
        host.event("dense/MatMul:MatMul", at + US, length // 2)
    return _report(space.write(folder))


def unlike_steps(folder: Path, size: int) -> Callable[[], object]:
    """Steps, a third of them a warm-up in which by turns the input and the program take long."""
    host = (space := SpaceBuilder("vm")).plane("/host:CPU").line("python")
    for step in range(size):
        at, slow = step * MS, 3 * step < size
        host.event("train", at, 900 * US if slow else 90 * US, _r=1, step_num=step)
        input_, op = ((800, 60), (60, 800))[step % 2] if slow else (30, 30)
        host.event("IteratorGetNext:IteratorGetNext", at + US, input_ * US)
        host.event("dense/MatMul:MatMul", at + (2 + input_) * US, op * US)
    return _report(space.write(folder))


def names(folder: Path, size: int) -> Callable[[], object]:
    """Distinct names of ops."""
    ops = [(f"layer_{i}/MatMul", "MatMul", 10 * US) for i in range(size)]
    return _report(training_run(steps=3, ops=ops).write(folder))


def devices(folder: Path, size: int) -> Callable[[], object]:
    """GPUs of one host, with some kernels in each of three marked steps."""
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    length = size * 40 * US
    for step in range(3):
        host.event("train", step * length, length, _r=1, step_num=step)
    for index in range(size):
        gpu = GpuBuilder(space, host, index=index, compute_cap_major=8)
        for step in range(3):
            at = step * length + index * 40 * US
            gpu.kernel("gemm", at + 10 * US, 8 * US, op="dense/MatMul:MatMul", called=at + 2 * US)
            gpu.kernel("ncclAllReduce", at + 20 * US, 5 * US, op="sync/NcclAllReduce:NcclAllReduce", called=at + 5 * US)
    return _report(space.write(folder))


def lines(folder: Path, size: int) -> Callable[[], object]:
    """Lines of one device, streams and XLA's own by turns, each with an event in one of three
    marked steps.
    """
    space = SpaceBuilder("vm")
    host, device = space.plane("/host:CPU").line("python"), space.plane("/device:GPU:0")
    length = size * 40 * US
    for step in range(3):
        host.event("train", step * length, length, _r=1, step_num=step)
    for index in range(size):
        name = ("Stream #{}(Compute)", "Stream #{}(MemcpyH2D)", "XLA Modules {}", "Extra {}")[index % 4].format(index)
        at = index % 3 * length + index * 40 * US
        device.line(name).event("gemm", at, 8 * US, tf_op=f"layer_{index % 7}/MatMul:MatMul", correlation_id=index + 1)
    return _report(space.write(folder))


def threads(folder: Path, size: int) -> Callable[[], object]:
    """Threads of the host, each with an op in one of three steps."""
    space = training_run(steps=3, pipeline=("Root", "Prefetch", "TensorSlice"))
    plane = space.plane("/host:CPU")
    for index in range(size):
        name = ("tf_Compute/{}", "tf_data_iterator_resource/{}", "worker-{}")[index % 3].format(index)
        plane.line(name).event(f"layer_{index % 7}/MatMul:MatMul", index % 3 * MS + index * US, 8 * US)
    return _report(space.write(folder))


def planes(folder: Path, size: int) -> Callable[[], object]:
    """Planes with a line and an event each: of devices, and of what nobody knows."""
    space = training_run(steps=3)
    for index in range(size):
        name = ("/device:GPU:{}", "/device:TPU:{}", "/device:CUSTOM:{}", "/host:unknown {}")[index % 4].format(index)
        space.plane(name).line("Stream #1(Compute)").event(f"kernel_{index % 7}", index % 3 * MS + index * US, 8 * US)
    return _report(space.write(folder))


def kernels(folder: Path, size: int) -> Callable[[], object]:
    """Distinct kernels of one GPU, each of an op of its own."""
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    length = size * 40 * US
    for step in range(3):
        host.event("train", step * length, length, _r=1, step_num=step)
    gpu = GpuBuilder(space, host, compute_cap_major=8)
    for at in range(3 * size):
        start, number = at * 40 * US, at % size
        gpu.kernel(f"gemm_{number}", start + 10 * US, 8 * US, op=f"layer_{number}/MatMul:MatMul", called=start + 2 * US)
    return _report(space.write(folder))


def iterators(folder: Path, size: int) -> Callable[[], object]:
    """Iterators of one pipeline: a stage that reads from many others in turn, as
    `interleave` does.
    """
    space = training_run(steps=3, pipeline=(), input_ps=0)
    line = space.plane("/host:CPU").line("tf_data")
    for call in range(3):
        start = call * size * 3 * US
        line.event("Iterator::Root", start, size * 3 * US, id=1)
        line.event("Iterator::Root::FlatMap", start, size * 3 * US, id=2, parent_id=1)
        for i in range(size):
            line.event(f"Iterator::Root::FlatMap[{i}]::TensorSlice", start + i * 3 * US, 2 * US, id=3 + i, parent_id=2)
    return _report(space.write(folder))


def pipelines(folder: Path, size: int) -> Callable[[], object]:
    """Pipelines that a step asks, each with two stages."""
    space = training_run(steps=3, pipeline=(), input_ps=0)
    line = space.plane("/host:CPU").line("tf_data")
    for at in range(3 * size):
        place = at % size
        line.event("Iterator::Root", at * 3 * US, 2 * US, id=1 + 2 * place)
        line.event("Iterator::Root::TensorSlice", at * 3 * US, US, id=2 + 2 * place, parent_id=1 + 2 * place)
    return _report(space.write(folder))


def hosts(folder: Path, size: int) -> Callable[[], object]:
    """Hosts of one program."""
    for number in range(size):
        training_run(steps=4, hostname=f"host{number:03d}", input_ps=(1 + number % 3) * MS).write(folder)
    return _report(folder)


def ids(folder: Path, size: int) -> Callable[[], object]:
    """Events that all carry the same ids: the links that they say are as many as pairs of them."""
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    main, other = plane.line("python"), plane.line("tf_Compute")
    gpu = space.plane("/device:GPU:0").line("Stream #7(Kernel)")
    for i in range(size):
        at = i * 40 * US
        main.event("train", at, 40 * US, _r=1, step_num=i) if i % 10 == 0 else None
        main.event("FunctionRun", at, 30 * US, _pt=2, _p=7, id=7)
        main.event("cuLaunchKernel", at + 1 * US, 2 * US, correlation_id=7)
        other.event("ExecutorState::Process", at + 5 * US, 20 * US, _ct=2, _c=7, id=7, iter_num=0)
        gpu.event("gemm", at + 10 * US, 8 * US, correlation_id=7, kernel_details="regs:32 grid:1,1,1 block:1,1,1")
    return _report(space.write(folder))


def findings(folder: Path, size: int) -> Callable[[], object]:
    """Findings of hosts: on each a symptom, its cause, and what lies behind that."""
    chain = ("symptom", "cause", "reason")

    def finding(host: int, at: int) -> Finding:
        return Finding(
            id=chain[at],
            severity=Severity.HIGH,
            sentence=f"The {chain[at]} of host {host}.",
            action="Change it.",
            evidence=(Evidence("share", 0.5, Unit.FRACTION, "steps"),),
            host=f"host{host}",
            explains=chain[:at],
            certainty=Certainty.LIKELY,
            saving=Saving(0.0, 0.1 + at / 100, ("input",), "if it were changed"),
        )

    page = Page(
        "pod", "Pod", "Who waits?", findings=tuple(finding(host, at) for host in range(size) for at in range(len(chain)))
    )
    return lambda: rank_findings((page,))


def instructions(folder: Path, size: int) -> Callable[[], object]:
    """Instructions of one program: softmaxes and products of one array, and arguments that are
    copied for a loop.
    """
    del folder
    shapes = [shape(F32, 8, 1 + number) for number in range(size)]
    tuple_of = encode_integer(2, TUPLE) + b"".join(encode_bytes(4, each) for each in shapes)
    body = [op("taken", "parameter", 1, shape(F32, 8, 8)), op("form", "bitcast", 2, shape(F32, 8, 8), 1)]
    first, hub = 10 * size, 9 * size
    for number, each in enumerate(shapes):
        at = first + 10 * number
        body += [
            op(f"arg.{number}", "parameter", at, each, more=encode_integer(9, 1 + number)),
            op(f"copy.{number}", "copy", at + 1, each, at),
            op(f"below.{number}", "subtract", at + 2, shape(F32, 8, 8), 1),
            op(f"exp.{number}", "exponential", at + 3, shape(F32, 8, 8), at + 2),
            op(f"after.{number}", "add", at + 4, shape(F32, 8, 8), hub),
            op(f"dot.{number}", "dot", at + 5, shape(F32, 8, 8), 2, 2, more=encode_bytes(30, numbers(1, [0]))),
        ]
    every = range(first, first + 10 * size, 10)
    body += [
        op("hub", "add", hub, shape(F32, 8, 8), *(at + 3 for at in every)),
        op("carried", "tuple", hub + 1, tuple_of, *(at + 1 for at in every)),
        op("loop", "while", hub + 2, tuple_of, hub + 1),
    ]
    data = encode_bytes(
        1,
        encode_bytes(3, b"".join(body) + encode_integer(5, 1))
        + encode_bytes(4, encode_bytes(2, tuple_of))
        + encode_integer(6, 1),
    )

    def work() -> object:
        program = HloModule(data)
        return [program[name] for name in program]

    return work


def runs(folder: Path, size: int) -> Callable[[], object]:
    """Runs of one program below the folders of the workbench, which lists them for the
    first time.
    """
    return _listed(folder, size, lambda number: "train.py")


def programs(folder: Path, size: int) -> Callable[[], object]:
    """The same of as many programs, of which every second one does not say its script."""
    return _listed(folder, size, lambda number: f"train_{number}.py" if number % 2 else "")


def _listed(folder: Path, size: int, script: Callable[[int], str]) -> Callable[[], object]:
    for number in range(size):
        run = (
            folder
            / f"part{number % 10}"
            / "plugins"
            / "profile"
            / f"2026_01_01_00_{number // 60 % 60:02}_{number % 60:02}_{number}"
        )
        run.mkdir(parents=True)
        for name in ("vm.xplane.pb", "vm.outpace.json"):
            (run / name).touch()
    cache = SummaryCache(folder / "verdicts")
    for number, one in enumerate(scan_folders([str(folder)])):
        ops = tuple(number * 16 + at for at in range(16))
        cache.put(one.info, RunSummary("Input-bound", 1e9, "Cache it", "half", script(number), ops))
    return lambda: lines_of(scan_folders([str(folder)]), cache)


GROWN: dict[str, tuple[Grown, int, int]] = {
    "events": (events, 100, 12_800),
    "steps": (steps, 40, 5_120),
    "short steps": (short_steps, 400, 300_000),
    "unlike steps": (unlike_steps, 200, 51_200),
    "names": (names, 100, 12_800),
    "devices": (devices, 8, 1_024),
    "lines": (lines, 150, 20_000),
    "planes": (planes, 40, 5_120),
    "threads": (threads, 100, 12_800),
    "kernels": (kernels, 100, 12_800),
    "iterators": (iterators, 100, 12_800),
    "pipelines": (pipelines, 20, 2_560),
    "hosts": (hosts, 4, 512),
    "ids": (ids, 100, 12_800),
    "findings": (findings, 60, 7_680),
    "instructions": (instructions, 120, 15_360),
    "runs": (runs, 60, 10_000),
    "programs": (programs, 60, 5_120),
}
"""What grows; its smallest size in the test, from where on what is square shows; and the largest of
the bench.
"""
