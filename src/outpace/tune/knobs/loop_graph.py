"""A graph instead of eager operations for the step of a loop of the user's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.optimisations.optimisation import NotApplicable as NotHere

if TYPE_CHECKING:
    from outpace.tune.loop.stepper import LoopStepper
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopGraph:
    """Puts the function of an eager step into a `tf.function`, or `jax.jit`."""

    opt_in = False
    minor = False
    reads = False
    loops = True
    order = 5

    def __init__(self, id: str, maker: str, framework: str) -> None:
        self.id, self.title, self.maker, self.framework = id, maker, maker, framework
        self.practice = f"Decorate the step's function with @{maker}: it then runs as a whole, not op by op."

    @property
    def _jax(self) -> bool:
        return self.framework == "jax"

    def keywords(self, program: Program) -> dict[str, str]:
        """None: it is a decorator."""
        return {}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where a function of the user's makes the step eagerly, and nothing in it would be frozen in a graph."""
        from outpace.tune.loop.frozen import frozen
        from outpace.tune.loop.stepper import Calls

        loop = program.loop
        if loop is None or not loop.eager:
            return NotHere("the step is compiled already" if self._jax else "the step is a graph already")
        step = loop.eager_step
        if step is None:
            return NotHere(
                f"the step runs eagerly, but stands in the loop itself: put it into a function, and decorate that with @{self.maker}"
            )
        why = frozen(
            step.function, [call.args for call in loop.calls.made] if isinstance(loop.calls, Calls) and not self._jax else ()
        )
        if why is not None:
            return NotHere(f"the step, {step.place}, runs eagerly, and would change its meaning in a graph: it {why}")
        return Applies(f"the step, {step.place}, runs eagerly, one operation after the other", Risk.REORDERED)

    @contextlib.contextmanager
    def applied(self, program: Program) -> Iterator[None]:
        """Steppers that are made inside the block run a graph."""
        assert program.loop is not None
        before, program.loop.as_graph = program.loop.as_graph, True
        try:
            yield
        finally:
            program.loop.as_graph = before

    def proof(self, program: Program, stepper: LoopStepper) -> str | None:
        """How often the graph ran, and how often it was built."""
        graph = program.loop.graph if program.loop is not None else None
        if graph is None or not stepper.active.calls:
            return None
        traced = graph._cache_size() if self._jax else graph.experimental_get_tracing_count()
        return f"{stepper.active.calls} steps ran as a graph, which was traced {traced} times"

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the decorator. Raises Unpatchable where the function is not found."""
        from outpace.tune.patch.function_edit import decorate
        from outpace.tune.patch.outline_edit import write_outline

        assert program.loop is not None and program.loop.eager_step is not None
        step = program.loop.eager_step
        if step.outline is not None:
            write_outline(step.outline, edits_of)
        else:
            decorate(step.function.__code__, edits_of, self.maker)


KNOB = LoopGraph("loop_graph", "tf.function", "tensorflow")
