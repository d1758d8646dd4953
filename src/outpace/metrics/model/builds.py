"""Building programs: TensorFlow's graphs, and what JAX and XLA trace, lower and compile.

A call of a jitted JAX function that is not in its cache traces the Python function, lowers it and compiles it before it runs. Events name
some of this (`trace_to_jaxpr_dynamic`, `lower_sharding_computation`, `backend_compile_and_load`), and more of it where the Python tracer was
on; what lies between them is Python of the same work. So a build lasts from the start of the call to the end of the last of these events in
it.
"""

from __future__ import annotations

import re

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Indices, Mask
from outpace.timeline import Timeline
from outpace.timeline.workers import runs_jax
from outpace.trace import Trace
from outpace.trace.algorithms import distinct, nest_rows

COMPILERS = (
    "tf.function-graph_building",
    "XlaCompile",
    "XlaCompiler",
    "XlaLaunch:Compile",
    "PjRtClient::Compile",
    "TfrtCpuClient::Compile",
    "CommonPjRtClient::Compile",
    "PjitFunction:compile",
    "HloPassPipeline",
    "JitCompilation",
)
_OF_JAX = (
    "trace_to_jaxpr",
    "lower_sharding_computation",
    "lower_mesh_computation",
    "backend_compile",
    "PjRtCpuClient::Compile",
    "PjRtStreamExecutorClient::Compile",
    "StreamExecutorGpuClient::Compile",
    "PjRtCApiClient::Compile",
    "TfrtTpuClient::Compile",
    "TfrtTpuCompiler::Compile",
    "CpuCompiler::",
    "GpuCompiler::",
    "FusionCompiler::Compile",
    "JitCompiler::Compile",
    "HLO passes",
)
_PYTHON = re.compile(  # Python frames of JAX that do nothing else
    r"\$(?:pxla|compiler|mlir|partial_eval|stages)\.py:\d+ "
    r"(?:compile|compile_or_get_cached|backend_compile\w*|lower_sharding_computation|lower_jaxpr_to_module|trace_to_jaxpr\w*)"
)
_CALL = re.compile(r"(?:PjitFunction|PmapFunction)\((.*)\)")
_ON_PYTHON = ("$", "trace_to_jaxpr", "lower_", "backend_compile")
_MODULE = re.compile(r"\((jit_\S+|pmap_\S+)\)$")  # `HLO passes after layout assignment (jit_step)`


def builds_programs(name: str) -> bool:
    """Whether an event of this name builds a graph or compiles a program."""
    return name.startswith((*COMPILERS, *_OF_JAX)) or (name.startswith("$") and _PYTHON.fullmatch(name) is not None)


@dataclass(frozen=True)
class Build:
    """A program of JAX that was built: `row` of the event that began it, its time in ps, and the function."""

    row: int
    start: int
    end: int
    function: str


def jax_builds(timeline: Timeline) -> tuple[Build, ...]:
    """The programs that JAX built, in order of time by thread; none for a profile of TensorFlow."""
    trace = timeline.trace
    if not runs_jax(trace):
        return ()
    parts = trace.named(builds_programs)
    parts = parts[_on_main_threads(trace, parts)]
    calls = trace.named(lambda name: _CALL.fullmatch(name))
    rows = distinct(np.concatenate((parts, calls)))
    parent, _ = nest_rows(trace.lines.first_event, trace.start, trace.duration, rows)
    above = dict(zip(rows.tolist(), parent.tolist(), strict=True))
    ends: dict[int, int] = {}
    for part in parts.tolist():
        top = part
        while above[top] >= 0:
            top = above[top]
        ends[top] = max(ends.get(top, 0), int(trace.end[part]))
    return tuple(Build(top, int(trace.start[top]), end, _function(trace, top, end)) for top, end in sorted(ends.items()))


def _on_main_threads(trace: Trace, rows: Indices) -> Mask:
    """Threads that call jitted functions, or that Python runs on: what a pool does for them is part of their builds."""
    of_python = trace.named(lambda n: n.startswith(_ON_PYTHON) or _CALL.fullmatch(n))
    python = np.zeros(len(trace.lines), bool)
    python[trace.line[of_python]] = True
    return np.asarray(python[trace.line[rows]])


def _function(trace: Trace, top: int, end: int) -> str:
    """Name of the function that a build is of: as it was called, else as XLA calls its module."""
    if called := _CALL.fullmatch(trace.names[trace.name[top]]):
        return called[1]
    rows = trace.named(lambda name: _MODULE.search(name))
    mine = rows[(trace.start[rows] >= trace.start[top]) & (trace.start[rows] < end)]
    found = _MODULE.search(trace.names[trace.name[mine[0]]]) if len(mine) else None
    return found[1].partition("_")[2] if found else ""
