"""What reading an input pipeline changes outside of itself: kept before the first element is drawn, put back after the trials.

Trials read copies of a pipeline, so that its shuffles and caches do not move on. What its functions share with the program cannot be copied:
variables, random number generators, and whatever Python code reaches. That is kept and put back; where it cannot be, nothing is read at all.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import RebuildError, UsageError
from outpace.tune.data.classes import kind_of
from outpace.tune.data.graph import functions_of
from outpace.tune.data.isolated import is_temporary, settled
from outpace.tune.data.rebuild import copied
from outpace.tune.data.tree import Pipeline, Stage, describe
from outpace.tune.program.python_state import PythonState
from outpace.tune.purity import traced

WAIT = 60.0  # seconds, for the trials' iterators to end
_USED_UP = re.compile(r"^(LookupTable(Insert|Import|Remove)|.*(En|De)queue|ReaderRead|(Optional)?IteratorGetNext|.*Barrier)")
_CHANGES = re.compile(
    r"^(Assign|Resource(Scatter|Sparse|Apply|Count)|Rng|Stateful(Uniform|StandardNormal|TruncatedNormal|Random))"
)  # variables
_CURE = "Tune with a data set that begins anew with every pass."


@dataclass(frozen=True, eq=False)
class Outside:
    """State outside of a pipeline at one moment.

    variables: handle and value (a tensor) of each variable that its functions take from outside. python: what its Python functions reach.
    shared: whether a reader in a thread of its own could change any of it.
    """

    variables: tuple[tuple[Any, Any], ...]
    python: PythonState
    shared: bool

    @classmethod
    def of(cls, dataset: Any) -> Outside:
        """The state now. Raises UsageError where reading would use up what cannot be put back; nothing is read in any case."""
        pipeline = describe(dataset)
        called = [call.function for stage in pipeline.stages() for facts in stage.functions for call in facts.calls]
        python = PythonState.of(function for function in called if function is not None)
        for reason in (*_used_up(pipeline), *_python_stuck(pipeline, python), *_not_copied(pipeline)):
            raise UsageError(f"Trials would use up what the training is to read: {reason}")
        wrappers = [wrapper for _, wrapper in _wrappers(pipeline)]
        handles = {id(handle): handle for wrapper in wrappers for handle in _resources(wrapper)}
        changes = any(_CHANGES.match(kind) for wrapper in wrappers for kind, _ in traced.node_types(wrapper))
        return cls(tuple(_variables(handles.values())), python, bool(called) or (bool(handles) and changes))

    def restore(self) -> tuple[str, ...]:
        """Put it back, once no trial reads ahead any more; returns what could not be put back, in words."""
        left = []
        if self.shared and not settled(WAIT):
            left.append(f"what the input's functions share with the program: a reader did not end within {WAIT:.0f} s")
        for handle, value in self.variables:
            _raw().assign_variable_op(handle, value)
        return (*left, *self.python.restore())


def _wrappers(pipeline: Pipeline) -> Iterator[tuple[Stage, Any]]:
    """Every traced function of a pipeline, with its stage."""
    for stage in pipeline.stages():
        kind = kind_of(stage.dataset)
        for wrapper in functions_of(stage.dataset, kind.functions if kind is not None else ()):
            yield stage, wrapper


def _resources(wrapper: Any, kind: str = "resource") -> list[Any]:
    return [tensor for tensor in wrapper.function.captured_inputs if getattr(tensor.dtype, "name", "") == kind]


def _used_up(pipeline: Pipeline) -> Iterator[str]:
    """Tables that are written, queues and iterators that are read, shuffles of other data sets: nothing puts these back."""
    for stage, wrapper in _wrappers(pipeline):
        if _resources(wrapper, "variant"):
            yield (
                f"the function of {stage.title} reads a data set that was made outside of it, which a copy of the pipeline would share. "
                "Make that data set inside the function."
            )
        kinds = {kind for kind, _ in traced.node_types(wrapper) if _USED_UP.match(kind)} if _resources(wrapper) else set()
        if kinds:
            yield (
                f"{stage.title} takes from, or writes to, a table, a queue or an iterator outside of the pipeline "
                f"({', '.join(sorted(kinds))}), which cannot be put back. {_CURE}"
            )


def _python_stuck(pipeline: Pipeline, python: PythonState) -> Iterator[str]:
    if python.stuck:
        stage = next(stage for stage in pipeline.stages() if any(facts.calls for facts in stage.functions))
        yield f"{stage.title} runs Python code that uses {python.stuck[0]}. Create it inside that code, at each call."


def _not_copied(pipeline: Pipeline) -> Iterator[str]:
    """A pipeline that cannot be copied is read itself, which moves its shuffles on and writes its files."""
    try:
        copied(pipeline.dataset)
    except RebuildError as error:
        moving = [stage.title for stage in pipeline.stages() if stage.op == "shuffle" or _writes(stage)]
        if moving:
            yield f"the pipeline cannot be copied, and reading it itself moves on its shuffle or writes its files ({moving[0]}). {error}"


def _writes(stage: Stage) -> bool:
    return any(word in stage.class_name for word in ("Snapshot", "Save"))


def _variables(handles: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Handles that are variables', with their values; others (a table that does not change) have none."""
    errors = sys.modules["tensorflow"].errors
    for handle in handles:
        shapes: Any = getattr(getattr(handle, "_handle_data", None), "shape_and_type", None)
        if shapes is not None and len(shapes) == 1:
            with contextlib.suppress(errors.OpError):
                yield handle, _raw().read_variable_op(handle, shapes[0].dtype)


def _raw() -> Any:
    from tensorflow.python.ops import gen_resource_variable_ops

    return gen_resource_variable_ops


_PUT_BACK = "what it counts and draws is put back where the process goes on, what it writes and prints is not."


def effects(pipeline: Pipeline) -> tuple[str, ...]:
    """One sentence per effect, the end of the pipeline first; empty where another run leaves no trace."""
    return tuple(dict.fromkeys(sentence for stage in pipeline.stages() for sentence in _of(stage)))


def _of(stage: Stage) -> Iterator[str]:
    if stage.op == "from_generator":
        yield f"{stage.title} calls your Python generator again: {_PUT_BACK}"
        return  # its functions only call the generator
    filename = stage.arguments.get("filename")
    if stage.op == "cache" and filename:
        kept = (
            "removed when the process ends"
            if is_temporary(str(filename))
            else "trials write to a folder of their own beside it"
        )
        yield f"{stage.title} writes its elements to {filename} ({kept})."
    if any(word in stage.class_name for word in ("Snapshot", "Save")):
        yield f"{stage.title} writes files; a trial does not run it."
    if stage.op == "shuffle" and not (stage.arguments.get("seed") or stage.arguments.get("seed2")):
        yield f"{stage.title} has no seed: its order differs in every run anyway."
    elif stage.op == "shuffle" and stage.arguments.get("reshuffle_each_iteration"):
        yield f"{stage.title} counts its epochs: a further run of the same data set object would move its seed on (trials use copies)."
    if stage.opaque:
        yield f"{stage.title} is of a class that is not known: what it does when it runs again is not known either."
    yield from _of_functions(stage)


def _of_functions(stage: Stage) -> Iterator[str]:
    for facts in stage.functions:
        where = stage.title
        if facts.python:
            yield f"{where} runs Python code (py_function or numpy_function): {_PUT_BACK}"
        if facts.writes:
            yield f"{where} writes to state outside the function ({', '.join(facts.writes)}); variables get their values back."
        if facts.captures_resources and not facts.writes:
            yield f"{where} reads state from outside the function (a variable, table or generator), which may change while training."
        if facts.random and not facts.random_seeded:
            yield f"{where} draws random numbers without a seed: they differ in every run anyway."
