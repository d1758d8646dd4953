# SPDX-License-Identifier: Apache-2.0
"""`describe`: the stages of a pipeline that exists, read from its objects and joined with the
record of its construction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from outpace.capture.pipeline import READERS, PipelineRecorder
from outpace.frameworks.tensorflow import DATASET_FUNCTIONS, MAP_FUNCTION, READER_DATASET, arguments_of, inputs_of, op_of
from outpace.store.record import PipelineStage
from outpace.store.tree import relative_path
from outpace.tune.purity import traced
from outpace.tune.purity.evidence import keeps_order, plain, settled
from outpace.tune.purity.traced import FunctionFacts, PythonCall

_ARGUMENTS = ("num_parallel_calls", "cycle_length", "deterministic", "filename")


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a pipeline.

    `op` is the public operation (None: a class that is not known, an *opaque* stage), `arguments`
    those that matter, as plain values, `inputs` the stages that feed it. `record` is what the
    recorder noted at construction (file, line, text, label), where it was installed. `settled`: the
    stage itself gives the same elements whenever its inputs do; `deterministic`: in the same order,
    too. `dataset` is the data set object itself.
    """

    class_name: str
    op: str | None
    arguments: Mapping[str, Any]
    functions: tuple[FunctionFacts, ...]
    inputs: tuple[Stage, ...]
    settled: bool
    deterministic: bool
    record: PipelineStage | None
    dataset: Any = field(repr=False)

    @property
    def opaque(self) -> bool:
        """Whether its class is unknown."""
        return self.op is None

    @property
    def place(self) -> str:
        """`file:line` of the call, else of its function, else empty."""
        if self.record is not None:
            return f"{self.record.file}:{self.record.line}"
        return next((facts.place for facts in self.functions if facts.file), "")

    @property
    def title(self) -> str:
        """`map(load) at train.py:12`: how sentences name the stage."""
        called = "" if self.op == "from_generator" else ", ".join(facts.name for facts in self.functions[:1])
        name = f"{self.op or self.class_name}({called})" if called else self.op or self.class_name
        return f"{name} at {relative_path(self.place)}" if self.place else name

    def walk(self) -> Iterator[Stage]:
        """This stage and all behind it, each once, from the end to the sources."""
        seen: set[int] = set()
        todo = [self]
        while todo:
            stage = todo.pop(0)
            if id(stage.dataset) not in seen:
                seen.add(id(stage.dataset))
                yield stage
                todo += stage.inputs


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A pipeline: its last stage, and the data set that was described."""

    root: Stage
    dataset: Any = field(repr=False)

    def stages(self) -> list[Stage]:
        """Every stage once, from the end to the sources."""
        return list(self.root.walk())

    def spine(self) -> list[Stage]:
        """The stages from the end along the only input of each, down to a source or to the first
        stage with several inputs.
        """
        found = [self.root]
        while len(found[-1].inputs) == 1:
            found.append(found[-1].inputs[0])
        return found

    def find(self, op: str) -> list[Stage]:
        """All stages of one operation, the last one first."""
        return [stage for stage in self.stages() if stage.op == op]

    @property
    def calls(self) -> tuple[PythonCall, ...]:
        """The Python functions that run in it, each once."""
        return tuple(
            {call.token: call for stage in self.stages() for facts in stage.functions for call in facts.calls}.values()
        )

    @property
    def options(self) -> Any:
        """The `tf.data.Options` in force."""
        return self.dataset.options()

    @property
    def keeps_order(self) -> bool:
        """False when the options allow parallel stages to hand elements over out of order."""
        return self.options.deterministic is not False


def describe(dataset: Any, recorder: PipelineRecorder | None = None) -> Pipeline:
    """Read a pipeline. A class that is not known becomes an opaque stage; nothing is run or traced.

    `recorder` is the one that was installed while the pipeline was built; without it, only
    functions have file and line.
    """
    done: dict[int, Stage] = {}

    def read(node: Any) -> Stage:
        if id(node) not in done:
            done[id(node)] = _stage(node, tuple(read(child) for child in _inputs(node)), recorder)
        return done[id(node)]

    return Pipeline(read(dataset), dataset)


def _stage(node: Any, inputs: tuple[Stage, ...], recorder: PipelineRecorder | None) -> Stage:
    op = "from_generator" if _is_generator(node) else op_of(node)
    found = tuple(_functions(node))
    given = {name: plain(value) for name, value in arguments_of(node, _ARGUMENTS).items()}
    arguments = {name: value for name, value in given.items() if value is not None}
    record = recorder.stage_of(node) if recorder is not None else None
    if isinstance(said := record.kwargs.get("deterministic") if record is not None else None, bool):
        arguments.setdefault("deterministic", str(said).lower())  # an interleave does not keep it
    same = settled(node, op, found)
    return Stage(
        class_name=type(node).__name__,
        op=op,
        arguments=arguments,
        functions=found,
        inputs=inputs,
        settled=same,
        deterministic=same and keeps_order(op, arguments),
        record=record,
        dataset=node,
    )


def _is_generator(node: Any) -> bool:
    """`from_generator` is a flat_map over one element whose function makes the generator's data
    set.
    """
    wrapper = MAP_FUNCTION.of(node) if op_of(node) == "flat_map" else None
    return wrapper is not None and any(node.op == "GeneratorDataset" for node in traced.nodes_of(wrapper))


def _inputs(node: Any) -> list[Any]:
    """The data sets that feed this one; of a file reader, the data set of file names, which it
    hides behind the stage that reads each.
    """
    return inputs_of(READER_DATASET.of(node, node) if op_of(node) in READERS else node)


def _functions(node: Any) -> Iterator[FunctionFacts]:
    for wrapper in DATASET_FUNCTIONS.of(node)():
        if hasattr(getattr(wrapper, "function", None), "graph"):
            yield traced.facts(wrapper)
