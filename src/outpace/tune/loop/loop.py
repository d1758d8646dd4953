"""A training loop as it runs: what it reads and what it calls, and how both are given to one variant or another."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from outpace.capture.frames import code_of, in_keras
from outpace.capture.iterators import iterator_class
from outpace.tune.loop.found import Found
from outpace.tune.loop.frozen import frozen
from outpace.tune.loop.jax_calls import GRADIENT, JaxFunction, static_arguments
from outpace.tune.loop.later import Kept, Syncs
from outpace.tune.loop.reads import Reads
from outpace.tune.loop.step import PLAIN, Plain, Step, called_by, users_frame
from outpace.tune.loop.stepper import Active, Call, Calls, CallStepper, Clock, LoopStepper, finished
from outpace.tune.loop.weave import AHEAD, DONATED, SEVERAL
from outpace.tune.program.program import compiled_at, keras_model
from outpace.tune.program.state import Variables
from outpace.tune.reason import reason_of

if TYPE_CHECKING:
    from outpace.tune.loop.donation import Donation
    from outpace.tune.loop.models import Models
    from outpace.tune.loop.replayed import Replayed, ReplayStepper
    from outpace.tune.loop.statement import Statement
    from outpace.tune.loop.woven import Woven
    from outpace.tune.program.source import Feed

OBSERVED = 3  # steps
WATCHED = 6  # steps, in which values must be let go of that are given away
EARLY = 4  # steps whose inputs may be made before the loop gets there


class Loop:
    """One loop."""

    def __init__(self, found: Found, eager_step: Step | None = None, clock: Clock | None = None) -> None:
        """`eager_step`: the function that makes the steps, where nothing else shows them. clock: by default one that stops it."""
        self.reads = Reads(found.dataset)
        self.step, self.jax = found.step, found.jax
        self.clock = clock or Clock(finished)
        self.plain = self.active = Active()
        self.compiled = False  # what is prepared now shall be compiled by XLA
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()  # that the loop calls
        self.values: list[float] = []  # numbers that the functions of the step returned, while `keeps`
        self.keeps = False
        self.eager = eager_step is not None  # steps, or parts of them, run eagerly
        self.eager_step = eager_step
        self.calls: Calls | Replayed = Calls(())  # of the step's function, as they were observed
        self.recorded: list[Call] = []  # calls of the step's function, while they are `recording`
        self.recording = False
        self.graph: Any = None  # of the eager step
        self.static: tuple[str, ...] = ()  # parameters of an eager step of JAX whose values a compiled one must know
        self.as_graph = False  # what is prepared now shall run it
        self.turned: frozenset[str] = frozenset()  # what else shall be on in what is prepared now
        self.syncs: Syncs | None = None  # where it reads values; None where that is not known
        self.kept = Kept()  # what reads them later
        self.woven: Woven | None = None  # the innermost loop around the steps, where variants can be put into it
        self.began: Variables | None = None  # what variables of TensorFlow held when it was observed
        self.unwoven = "the loop's source is not at hand"  # why not
        self.donation: Donation | None = None
        self.eager_models: Models | None = None
        self._tf: Any = sys.modules.get("tensorflow")
        self._undo = contextlib.ExitStack()
        self._main = threading.get_ident()
        self._depth = 0
        self._observing = self._switching = False
        self._plain = Plain()
        self._reader: CodeType | None = None  # what reads the data set
        self._variants: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._by_reads = found.dataset is not None  # else steps are calls
        self._by_calls = not self._by_reads  # steps are calls of the compiled function
        self._by_switch = not self._by_reads and found.step is None  # steps are calls of the eager function

    @property
    def dataset(self) -> Any:
        """What it, or the function of its steps, reads in each of them; None where that is nothing of tf.data."""
        return self.reads.dataset

    def weave(self, made: Woven | str, statement: Statement) -> None:
        """Put into a loop what lets its steps run with one variant or another; a string says why there is nothing."""
        self.unwoven = made if isinstance(made, str) else made.put(statement)
        if not isinstance(made, str) and not self.unwoven:
            self.woven, self._by_calls, self._by_switch = made, False, False

    def prepared(self) -> Active:
        """What steppers that are made now run with."""
        return Active(compiled=self.compiled, graph=self.as_graph, turned=self.turned)

    def per_call(self, active: Active) -> int:
        """Steps that one call makes then."""
        return self.woven.per_call if self.woven is not None and SEVERAL in active.turned else 1

    def early(self, following: Active) -> int:
        """Steps whose inputs the variant that ran last may have left, or the next one makes."""
        return EARLY if {SEVERAL, AHEAD} & (self.active.turned | following.turned) else 0

    def reads_later(self) -> bool:
        """Whether values that a step reads shall be read later; those of steps before are read where they shall not."""
        later = "loop_reads" in self.active.turned and threading.get_ident() == self._main
        if self.kept.statements and not later:
            self.kept.keep(None)
        return later

    def stepper(self, feed: Feed) -> LoopStepper | CallStepper | ReplayStepper:
        """What makes its steps on a feed, or calls again."""
        from outpace.tune.loop.replayed import Replayed, ReplayStepper

        if isinstance(feed.dataset, Replayed):
            return ReplayStepper(feed.dataset, self.prepared())
        return CallStepper(self, feed.dataset) if isinstance(feed.dataset, Calls) else LoopStepper(self, feed)

    @property
    def framework(self) -> str:
        """What it trains with."""
        return "tensorflow" if self.jax is None else "jax"

    def observe(self) -> None:
        """Let it make some steps, and see which function of the user's makes them eagerly."""
        self.observing(True)
        made, woven = Calls(tuple(self.record(OBSERVED))), self.woven
        self.calls = (woven.record(OBSERVED) if woven is not None else None) or made
        self.observing(False)
        self.began = Variables.here()
        if self.jax is not None and self.eager_step is not None:
            self.clock.perform(self.inside(self.see_static))
        if self.donation is not None:
            self.donation.watch()
            self.clock.advance(WATCHED)
            self.donation.watched()

    def see_static(self) -> None:
        """See what a compiled step must know, from the recorded calls; in the script's thread."""
        assert self.jax is not None and self.eager_step is not None
        calls, function = [(call.args, call.kwargs) for call in self.recorded], self.eager_step.traced
        if frozen(function) is None:  # else its trace would reach Python's state
            self.static = static_arguments(self.jax.jax, function, calls)

    def observing(self, on: bool) -> None:
        """From now on see which function makes its steps, or no longer."""
        self._observing = on

    def record(self, steps: int) -> list[Call]:
        """Let it make some steps; the calls of the function that makes them."""
        self.recorded, self.recording = [], True
        self.clock.advance(steps)
        self.recording = False
        return self.recorded

    def inside(self, job: Callable[[], None]) -> Callable[[], None]:
        """A job for the script's thread in which its functions are called as they are, and make no steps."""

        def done() -> None:
            depth, self._depth = self._depth, self._depth + 1
            switching, self._switching = self._switching, True
            try:
                job()
            finally:
                self._depth, self._switching = depth, switching

        return done

    def as_prepared(self, function: Any) -> Any:
        """A function of recorded calls as steppers would run it that are made now."""
        if self.eager_step is not None:
            plain: Any = self.eager_step.function
            if self.as_graph:
                return self.graph_of(plain)
            return self.variant(plain) if self.compiled and hasattr(plain, "_clone") else plain
        return self.variant(function) if self.compiled else function

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
        """The functions that it calls, without those of Keras models which nobody compiled: they predict."""
        models = ((function, keras_model(function)) for function in self.functions)
        return [function for function, model in models if model is None or compiled_at(model) is not None]

    def places(self) -> list[str]:
        """Where the functions of the step, and the statements that become one, stand."""
        if self.woven is not None and self.jax is not None:
            return [self.woven.place(self.woven.body.loop.lineno)]
        step = self.eager_step
        outlined = step is not None and step.outline is not None
        found = [
            f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"
            for code in self.codes()
            if "#" not in code.co_filename and not in_keras(code)
        ]
        return [step.place, *found] if step is not None and outlined else found

    def install(self) -> None:
        """Take the loop's reads and calls over, in the script's thread."""
        owned = iterator_class()
        if owned is not None:
            self.hook(owned, "__next__", self._next)
        if self._tf is not None:
            self.hook(type(self._tf.function(_nothing)), "__call__", self._call)
            self.hook(self._tf.GradientTape, "__enter__", self._taped)
        if self.jax is not None:
            self.jax.hand_over(self._call_jax)
        if self.eager_step is not None and self.eager_step.outline is None:
            self.eager_step.replace(self._switched(self.eager_step.function))

    def remove(self) -> None:
        """Give the frameworks' reads and calls back."""
        self._undo.close()

    def hook(self, kind: Any, name: str, ours: Callable[..., Any]) -> None:
        """Take over calls of a method that the script's thread makes itself, outside of graphs; `ours` is given the original one first."""
        original = getattr(kind, name)
        self._undo.callback(setattr, kind, name, original)

        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._main or self._depth or self._tf.inside_function():
                return original(this, *args, **kwargs)
            return ours(original, this, *args, **kwargs)

        setattr(kind, name, method)

    def _next(self, original: Callable[..., Any], iterator: Any) -> Any:
        """A batch is read."""
        if not self._by_reads or not self.reads.trains(iterator):
            if self.reads.evaluates(iterator, self.clock.ticks):
                self.clock.aside()
            return original(iterator)
        if self.reads.begins(iterator):
            self.clock.aside()  # what lies between two epochs
        if self._observing:
            reader = users_frame(sys._getframe(2))
            self._reader = reader.f_code if reader is not None else None
        if self.woven is None:
            self.clock.tick()
        given = self.active.iterator
        return original(iterator) if given is None else original(given) if isinstance(given, type(iterator)) else next(given)

    def _call(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        """A `tf.function` is called by the loop."""
        if code_of(function) is self.step:
            if not self._by_reads and not self.clock.ticks:
                self.reads.look_at(args)
            if self._by_calls:
                self.clock.tick()
            self._record(function, args, kwargs)
        self.functions.add(function)
        args = tuple(self.reads.given(each, self.active.iterator) for each in args)
        self._depth += 1
        try:
            compiled = self.active.compiled and (function in self._variants or function in self.compilable)
            variant = (lambda *a, **k: original(self.variant(function), *a, **k)) if compiled else None
            result = self._tried(variant, functools.partial(original, function), args, kwargs)
        finally:
            self._depth -= 1
        return self.noted(result)

    def flat(self, result: Any) -> Sequence[Any]:
        """The leaves of what a function returned."""
        if self.jax is not None:
            leaves: list[Any] = self.jax.jax.tree_util.tree_leaves(result)
            return leaves
        return self._tf.nest.flatten(result) if self._tf is not None else ()

    def _call_jax(self, function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A compiled function of JAX is called by the loop, or a gradient is taken eagerly."""
        if function.kind == GRADIENT:
            self._eager_part()
            return function.made(*args, **kwargs)
        if self.step is not None and function.code is self.step and not self._depth:
            if self._by_calls:
                self.clock.tick()
            if self.recording:
                call = Call(function.made, args, kwargs)
                self.recorded.append(call.copied() if function.gives_away else call)
        if self.donation is not None:
            return self.donation.call(function, args, kwargs, DONATED in self.active.turned and not self.active.failure)
        return function.made(*args, **kwargs)

    def _taped(self, original: Callable[..., Any], tape: Any) -> Any:
        """A gradient tape is used, eagerly."""
        self._eager_part()
        return original(tape)

    def _eager_part(self) -> None:
        """Gradients are taken eagerly: in a function of the user's, which is called through a switch from now on, or in the loop itself."""
        if self._observing and self._reader is not None and not self._switching:
            found = called_by(sys._getframe(1), self._reader)
            self.eager = True
            if found is not None and self.eager_step is None:
                self.eager_step = Step.of(*found)
                if self.eager_step is not None:
                    self.eager_step.replace(self._switched(self.eager_step.function))

    def _switched(self, function: Any) -> Any:
        """The function, or a graph of it where that is active."""

        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._main or self._switching:
                return function(*args, **kwargs)
            if self._by_switch:
                self.clock.tick()
            self._record(step, args, kwargs)
            self._switching = True
            try:
                return self.noted(self._as_active(function, args, kwargs))
            finally:
                self._switching = False

        return step

    def on(self) -> bool:
        """Whether what stands for statements of the loop shall run in their place; where nothing else shows the steps, one begins."""
        if threading.get_ident() != self._main:
            return False
        if self._by_switch:
            self.clock.tick()
        return self.recording or (self.active.graph and not self.active.failure)

    def running(self, function: Any) -> Callable[..., Any]:
        """The function that makes the steps, as the active variant runs it."""

        def step(*args: Any, **kwargs: Any) -> Any:
            self._record(function, args, kwargs)
            return self._as_active(function, args, kwargs)

        return step

    def _as_active(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        variant = (lambda *a, **k: self.graph_of(function)(*a, **k)) if self.active.graph else None
        result = self._tried(variant, function, args, kwargs)
        first = self.active.graph and self.active.calls == 1
        if (self.recording or first) and self._plain.differs(self.flat(result), self.recording):
            self.active.failure = self.active.failure or PLAIN
        return result

    def _tried(self, variant: Any, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The variant's result; the plain function's without a variant, and where that fails, which the loop must not meet."""
        if variant is None or self.active.failure:
            return plain(*args, **kwargs)
        try:
            result = variant(*args, **kwargs)
        except Exception as error:
            self.active.failure = reason_of(error)
            return plain(*args, **kwargs)
        self.active.calls += 1
        return result

    def graph_of(self, function: Any) -> Any:
        """The eager function as a graph, made once; what its `return` reads is read of what that returns."""
        step = self.eager_step
        peeled = step.peeled if step is not None and function is step.function else None
        if self.graph is None:
            traced = function if peeled is None else peeled.function
            static = {"static_argnames": self.static} if self.static else {}
            self.graph = self._tf.function(traced) if self.jax is None else self.jax.original["jit"](traced, **static)
        graph = self.graph
        return graph if peeled is None else lambda *args, **kwargs: peeled.read(graph(*args, **kwargs))

    def _record(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.recording:
            self.recorded.append(Call(function, args, kwargs))

    def variant(self, function: Any) -> Any:
        """A function compiled by XLA; made once."""
        if function not in self._variants:
            made = function._clone(None)
            made._jit_compile = True
            self._variants[function] = made
        return self._variants[function]

    def noted(self, result: Any) -> Any:
        """Keep the first number that a function of the step returns, where they are kept; the result itself."""
        given = result
        if isinstance(result, dict) and "loss" in result:  # of Keras' own step, beside the metrics
            result = result["loss"]
        for value in self.flat(result) if self.keeps else ():
            if getattr(value, "shape", None) == () and "float" in str(getattr(value, "dtype", "")):
                self.values.append(float(value))
                break
        return given


def _nothing() -> None:
    """A body for the one tf.function whose class is wanted; never called."""
