"""`prefetch(AUTOTUNE)` at the end, where TensorFlow does not add it by itself."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.iterator import stages_of
from outpace.tune.data.tree import Pipeline
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of

_AUTOTUNE = -1
_IDLE = ("with_options",)


class Prefetch:
    """See the module's docstring."""

    id = "prefetch"
    title = "Prepare the next batch while the model trains"
    practice = "Prefetch: prefetch(tf.data.AUTOTUNE) as the last stage"
    holds_when = "always"
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A pipeline that does not end in a prefetch, and for which TensorFlow's own is switched off."""
        last = next((stage for stage in pipeline.spine() if stage.op not in _IDLE), pipeline.root)
        if last.op == "prefetch":
            return Refusal("The pipeline ends in a prefetch already.")
        own = pipeline.options.experimental_optimization
        injected = own.apply_default_optimizations is not False and own.inject_prefetch is not False
        if injected and pipeline.options.autotune.enabled is not False:
            return Refusal(f"TensorFlow adds a prefetch with a tuned buffer behind {last.title} by itself.")
        return Reason(
            f"Nothing is prepared ahead behind {last.title}, and the options keep TensorFlow from adding it.", Risk.EXACT, last
        )

    def apply(self, pipeline: Pipeline) -> Any:
        """One more stage behind the pipeline; works on any class."""
        from tensorflow.python.data.ops import prefetch_op

        return prefetch_op._PrefetchDataset(pipeline.dataset, _AUTOTUNE, name="outpace_prefetch")

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The iterator's own last stage; where autotune is off there is no model, and the pipeline's last stage is what runs."""
        names = stages_of(iterator)[1:2] or (rewritten.root.class_name,)
        return f"The pipeline's last stage is {names[0]}." if "Prefetch" in names[0] else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """`.prefetch(...)` after the last call."""
        return (Patch(call_of(pipeline.root), insert=".prefetch(tf.data.AUTOTUNE)"),)


REWRITE = Prefetch()
