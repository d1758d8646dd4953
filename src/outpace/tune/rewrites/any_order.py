"""`deterministic = False`: parallel stages hand elements over as they are ready, and a slow one holds up none."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.options import with_option
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of


class AnyOrder:
    """See the module's docstring."""

    id = "any_order"
    title = "Hand elements over in any order"
    practice = "Options: deterministic = False where the order does not matter"
    holds_when = "the training may see its elements in an order that differs from run to run"
    opt_in = True
    minor = True
    options_change = True

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A pipeline with a stage that is parallel by its arguments and keeps the order."""
        if not pipeline.keeps_order:
            return Refusal("The options allow any order already.")
        stage = _candidate(pipeline)
        if stage is None:
            return Refusal("No stage of the pipeline has num_parallel_calls and an order to give up.")
        drawn = any(not facts.repeatable for other in pipeline.stages() for facts in other.functions)
        risk = Risk.STATISTICAL if drawn else Risk.REORDERED  # in another order, other elements get the same random numbers
        return Reason(f"{stage.title} waits for its slowest call to keep the order.", risk, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """One options stage behind the pipeline."""

        def change(options: Any) -> None:
            options.deterministic = False

        return with_option(pipeline.dataset, change)

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The options in force."""
        return None if rewritten.keeps_order else "The options in force allow any order."

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The option, set on the data set."""
        note = "options = tf.data.Options(); options.deterministic = False"
        options = {"deterministic": "False"}
        return (Patch(call_of(pipeline.root), insert=".with_options(options)", note=note, options=options),)


def _candidate(pipeline: Pipeline) -> Stage | None:
    parallel = [stage for stage in pipeline.stages() if "num_parallel_calls" in stage.arguments]
    return next((stage for stage in parallel if stage.arguments.get("deterministic") in (None, "default")), None)


REWRITE = AnyOrder()
