# SPDX-License-Identifier: Apache-2.0
"""A training loop as it is seen while it runs: what it reads, which functions make its steps, and
how its innermost loop comes apart. It runs on as it is; hooks on iterators, functions and tapes see
some steps, and tell when they have seen enough.
"""

from __future__ import annotations

import ast
import statistics
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.frames import code_of, is_keras_code
from outpace.frameworks.tensorflow import ITERATOR_CLASS, JIT_COMPILE, function_class
from outpace.model.errors import UsageError
from outpace.pyscope.nodes import iter_calls
from outpace.tune.loop.body import Body, differentiates
from outpace.tune.loop.effects import effect_of
from outpace.tune.loop.found import Found
from outpace.tune.loop.jax_calls import GRADIENT, JaxFunction, compiled_functions, static_arguments
from outpace.tune.loop.models import Models
from outpace.tune.loop.outline import outlined, takes_gradients
from outpace.tune.loop.reads import Reads
from outpace.tune.loop.statement import Statement, innermost_around
from outpace.tune.loop.step import Step, called_by, users_frame
from outpace.tune.loop.taken import Taken, taken_of
from outpace.tune.program.program import compiled_at, keras_model

FEWEST, SECONDS, MOST_SECONDS = 8, 2.0, 20.0  # steps that are seen, for at least so long; long ones for at most so long
_LEAST = 3  # steps that tell anything


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the function that makes the steps. kwargs: empty where its arguments were seen in
    its frame.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Loop:
    """One loop, from inside of one of its steps on. Raises UsageError where its source is not at
    hand, or nothing tells its steps.
    """

    def __init__(self, found: Found, frame: FrameType) -> None:
        statement = Statement.around(frame)
        if statement is None:
            raise UsageError("The loop that makes the steps was not found in the script's source.")
        self.statement = statement
        self.frame, self.innermost = innermost_around(frame) or (statement.frame, statement.node)
        self.reads_batches = self._goes_over(found)  # whether the innermost loop goes over what the steps read
        self.reads = Reads(found.dataset)
        self.jax = found.jax
        outline = outlined(statement, frame, jax=self.jax is not None)
        eager = Step(outline.name, outline.function, None, outline) if outline is not None else None
        self.eager_step = eager or _called_step(found, statement, frame)
        self.step = (
            None if self.eager_step is not None and self.jax is not None else found.step
        )  # else it calls a part of the step
        self.eager_step = self.eager_step or self._alone(found, frame)
        self.eager = self.eager_step is not None  # steps, or parts of them, run eagerly
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()  # that the loop calls
        self.calls: list[Call] = []  # of the step's function
        self.static: tuple[str, ...] = ()  # parameters of an eager step of JAX whose values a compiled one must know
        made = taken_of(frame, statement.frame, outline, jax=self.jax is not None)
        self.taken: Taken | None = made if isinstance(made, Taken) else None  # the innermost loop around the steps, taken apart
        self.untaken = made if isinstance(made, str) else ""  # why not
        self.eager_models = Models(statement) if self.jax is None else None
        self._tf: Any = sys.modules.get("tensorflow")
        self._main, self._depth = threading.get_ident(), 0
        self._reader: CodeType | None = None  # what reads the data set
        self._compiled = found.step  # whose calls may tell the steps, as eager gradients may
        self._telling: Any = None  # which of these does: a step may have both
        self._ends: list[float] = []  # of steps, by the clock
        self._seen: Callable[[], object] | None = None

    @property
    def dataset(self) -> Any:
        """What it, or the function of its steps, reads in each of them; None where that is nothing
        of tf.data.
        """
        return self.reads.dataset

    @property
    def framework(self) -> str:
        """What it trains with."""
        return "tensorflow" if self.jax is None else "jax"

    @property
    def step_seconds(self) -> float | None:
        """Of a step as it was watched, the median; None where too few were."""
        gaps = [after - before for before, after in zip(self._ends, self._ends[1:], strict=False)]
        return statistics.median(gaps) if gaps else None

    @property
    def per_call(self) -> int:
        """Steps that one call may make."""
        return self.taken.per_call(self.dataset) if self.taken is not None else 1

    @property
    def gives_away(self) -> bool:
        """Whether the user's own functions give the state away."""
        if self.taken is None or self.jax is None:
            return False
        body = self.taken.body
        return any(each.gives_away for step in body.steps for each in compiled_functions(step, body.names))

    @property
    def compiles(self) -> bool:
        """Whether XLA compiles the user's own functions of TensorFlow, and so what calls them; JAX
        needs no asking.
        """
        own = [JIT_COMPILE.of(function) for function in self.compilable]
        return self.jax is None and bool(own) and all(own)

    def codes(self) -> list[CodeType]:
        """The code of each `tf.function` that it calls, as the user wrote it."""
        found = (code_of(function) for function in self.functions)
        return sorted({code for code in found if code is not None}, key=lambda code: (code.co_filename, code.co_firstlineno))

    def models(self) -> list[Any]:
        """Keras models whose own step (`train_on_batch`) it calls."""
        found = (keras_model(function) for function in self.compilable)
        return list({id(model): model for model in found if model is not None}.values())

    @property
    def compilable(self) -> list[Any]:
        """The functions that it calls, without those of Keras models which nobody compiled: they
        predict.
        """
        models = ((function, keras_model(function)) for function in self.functions)
        return [function for function, model in models if model is None or compiled_at(model) is not None]

    def places(self) -> list[str]:
        """Where the functions of the step, and the statements that become one, stand."""
        if self.taken is not None and self.jax is not None:
            return [self.taken.place(self.taken.body.loop.lineno)]
        step = self.eager_step
        found = [f"{code.co_filename}:{code.co_firstlineno} {code.co_name}" for code in self.codes() if not is_keras_code(code)]
        return [step.place, *found] if step is not None and step.outline is not None else found

    def watch(self, seen: Callable[[], object]) -> None:
        """See what its steps call and read. `seen` is called in the script's thread, at the end of
        a step, once enough were.
        """
        self._seen = seen
        if ITERATOR_CLASS.value is not None:
            self._hook(ITERATOR_CLASS.value, "__next__", self._next)
        if self._tf is not None:
            self._hook(function_class(self._tf), "__call__", self._call)
            self._hook(self._tf.GradientTape, "__enter__", self._taped)
        if self.jax is not None:
            self.jax.hand_over(self._call_jax)
        if self.eager_models is not None:
            self.eager_models.install(self._hook)

    def look(self) -> None:
        """Draw conclusions from what was seen. Raises UsageError where too few steps were."""
        self._seen = None
        if len(self._ends) < _LEAST:
            raise UsageError(f"The loop at {self.statement.place} made too few steps to be tuned: let it train longer.")
        step = self.eager_step
        if (
            self.jax is not None and step is not None and effect_of(step.traced) is None
        ):  # else its trace would reach Python's state
            self.static = static_arguments(self.jax.jax, step.traced, [(call.args, dict(call.kwargs)) for call in self.calls])

    def _goes_over(self, found: Found) -> bool:
        if found.dataset is None or found.reader is None or not isinstance(self.innermost, ast.For):
            return False
        code, line = found.reader
        return code is self.frame.f_code and self.innermost.lineno <= line < self.innermost.body[0].lineno

    def _alone(self, found: Found, frame: FrameType) -> Step | None:
        """The function whose calls are the steps, where nothing else shows them."""
        in_jax = found.jax is not None and not isinstance(Body.around(frame), str)
        if found.dataset is not None or found.step is not None or in_jax:
            return None
        step = Step.in_loop(frame)
        if step is None:
            raise UsageError(
                f"The steps of the loop at {self.statement.place} are made in the loop itself, without a data set of tf.data. Put the step "
                "into a function that the loop calls."
            )
        return step

    def _hook(self, kind: Any, name: str, ours: Callable[..., Any]) -> None:
        """See calls of a method that the script's thread makes itself, outside of graphs; `ours` is
        given the original one first.
        """
        original = getattr(kind, name)

        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._seen is None or threading.get_ident() != self._main or self._depth or self._tf.inside_function():
                return original(this, *args, **kwargs)
            return ours(original, this, *args, **kwargs)

        setattr(kind, name, method)

    def _tick(self) -> None:
        """A step is over, and another begins."""
        self._ends.append(time.perf_counter())
        spent = self._ends[-1] - self._ends[0]
        enough = len(self._ends) > FEWEST and spent >= SECONDS
        if self._seen is not None and (enough or (spent >= MOST_SECONDS and len(self._ends) > _LEAST)):
            self._seen()

    def _next(self, original: Callable[..., Any], iterator: Any) -> Any:
        """A batch is read."""
        if self.reads.trains(iterator):
            reader = users_frame(sys._getframe(2))
            self._reader = reader.f_code if reader is not None else None
            self._tick()
        return original(iterator)

    def _call(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        """A `tf.function` is called by the loop."""
        if self.step is not None and code_of(function) is self.step:
            if self.dataset is None:
                self.reads.look_at(args)
                self._tick()
            self._record(Call(function, args, kwargs))
        self.functions.add(function)
        self._depth += 1
        try:
            return original(function, *args, **kwargs)
        finally:
            self._depth -= 1

    def _call_jax(self, function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A compiled function of JAX is called by the loop, or a gradient is taken eagerly."""
        if self._seen is None:
            return function.made(*args, **kwargs)
        if function.kind == GRADIENT:
            self._gradient()
        elif self.dataset is None and function.code is not None and function.code is self._compiled:
            self._tell(function.code)
        return function.made(*args, **kwargs)

    def _taped(self, original: Callable[..., Any], tape: Any) -> Any:
        """A gradient tape is used, eagerly."""
        self._gradient()
        return original(tape)

    def _gradient(self) -> None:
        """A gradient is taken eagerly: in a function of the user's, or in the loop itself."""
        self.eager = True
        if self.eager_step is None and self._reader is not None:
            found = called_by(sys._getframe(2), self._reader)
            self.eager_step = Step.of(*found) if found is not None else None
        step, frame = self.eager_step, users_frame(sys._getframe(2))
        while step is not None and frame is not None:
            if (names := step.given(frame)) is not None:
                known = {**frame.f_globals, **frame.f_locals}
                self._record(Call(step.function, tuple(known.get(name) for name in names), {}))
                break
            frame = users_frame(frame.f_back)
        if self.dataset is None and self.step is None:
            self._tell(GRADIENT)

    def _tell(self, by: Any) -> None:
        """A step is over, as a call tells, where what was seen first of its kinds tells them."""
        if self._telling in (None, by):
            self._telling = by
            self._tick()

    def _record(self, call: Call) -> None:
        if len(self.calls) < _LEAST:
            self.calls.append(call)


def _called_step(found: Found, statement: Statement, frame: FrameType) -> Step | None:
    """The eager function that makes the steps, where the loop calls it by a name; None where
    nothing shows that before a step runs.
    """
    if found.jax is None:
        names: Mapping[str, Any] = {**statement.frame.f_globals, **statement.frame.f_locals}
        called = _called([statement.node], names)
        return next((Step(name, each, None) for name, each in called if takes_gradients(each)), None)
    body = Body.around(frame)
    if isinstance(body, str):
        return None
    names = {**body.frame.f_globals, **body.frame.f_locals}
    return next((Step(name, each, None) for name, each in _called(body.steps, names) if differentiates(each)), None)


def _called(statements: Sequence[ast.AST], names: Mapping[str, Any]) -> list[tuple[str, FunctionType]]:
    """Plain functions that statements call, by name."""
    named = ((call.func.id, names.get(call.func.id)) for call in iter_calls(*statements) if isinstance(call.func, ast.Name))
    return [(name, each) for name, each in named if isinstance(each, FunctionType)]
