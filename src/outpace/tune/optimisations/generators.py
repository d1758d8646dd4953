"""What Python generators give: kept by item where it is the same in every epoch, and handed over several elements at a time."""

from __future__ import annotations

import math
from typing import Any

from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import generators, kept_items
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.optimisation import Answer, Applies
from outpace.tune.optimisations.rewrite import Patch, Rewrite, call_of, first_refusal
from outpace.tune.purity import evidence

MOST, FEWEST = 32, 4  # elements at a time
BYTES = 16 << 20  # of them together


class KeptItems(Rewrite):
    """Keeps what a generator computes for each item, and leaves to it what differs from epoch to epoch."""

    id = "kept_items"
    title = "Keep the generator's items in memory"
    practice = "Cache data after time-consuming operations, before random augmentation"
    holds_when = evidence.CONDITION

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where the source of a generator shows a part that is a function of its item, and which gives the same twice."""
        refusals: list[str] = []
        for stage in pipeline.find("from_generator"):
            try:
                plain = generators.generated(stage)
                if plain.kept is not None:
                    continue
                found = kept_items.keeping(plain)
            except RebuildError as error:
                refusals.append(str(error))
                continue
            assert found.kept is not None and found.split is not None
            count = len(found.kept.items)
            each = humanize(found.kept.bytes / count, Unit.BYTES)
            return Applies(
                f"{plain.user.__name__} computes the same for an item ({', '.join(found.split.given)}) in every epoch: {each} each, the same "
                f"twice for {count} items, with no source of change in the code.",
                Risk.EXACT,
                stage,
            )
        return first_refusal(refusals, "The pipeline has no Python generator whose items are computed anew.")

    def apply(self, pipeline: Pipeline) -> Any:
        """The pipeline with a generator that looks its items up."""
        stage = _applied(self, pipeline)
        kept = kept_items.keeping(generators.generated(stage))
        return rebuild(pipeline.dataset, [(stage.dataset, lambda old, inputs: generators.source(kept, old))])

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """Items came from memory."""
        hits = sum(found.kept.hits for found in generators.kept_of(rewritten.dataset) if found.kept is not None)
        return f"{hits} items came from memory" if hits else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The part becomes a function with `functools.cache`."""
        stage = _stage(self.applies(pipeline))
        if stage is None:
            return ()
        kept = kept_items.keeping(generators.generated(stage))
        assert kept.split is not None
        note = f"put what {kept.user.__name__} does for an item into a function of {', '.join(kept.split.given)}, with @functools.cache"
        return (Patch(call_of(stage), note=note, generator=kept),)


class GeneratorChunks(Rewrite):
    """Calls Python once for several elements."""

    id = "generator_chunks"
    title = "Several elements per call of the generator"
    practice = "Call Python once for many elements: a generator that yields stacks of them, and flat_map behind it that takes them apart"
    holds_when = "the generator's elements depend on nothing that happens while it is read"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where a generator gives single elements of one shape."""
        refusals: list[str] = []
        for stage in pipeline.find("from_generator"):
            try:
                plain = generators.generated(stage)
                if plain.chunk:
                    continue
                count = _count(stage)
            except RebuildError as error:
                refusals.append(str(error))
                continue
            return Applies(
                f"TensorFlow calls {plain.user.__name__} for every element, which takes Python's lock each time; {count} at a time need one "
                "call.",
                Risk.EXACT,
                stage,
            )
        return first_refusal(refusals, "The pipeline has no Python generator of single elements.")

    def apply(self, pipeline: Pipeline) -> Any:
        """The pipeline with a generator of stacks, which `flat_map` takes apart."""
        stage = _applied(self, pipeline)
        wanted = generators.in_chunks(generators.generated(stage), _count(stage))
        return rebuild(pipeline.dataset, [(stage.dataset, lambda old, inputs: generators.source(wanted, old))])

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The stage in the pipeline that runs."""
        found = [stage for stage in rewritten.find("flat_map") if stage.inputs and stage.inputs[0].op == "from_generator"]
        return f"{generators.generated(found[0].inputs[0]).chunk} elements per call" if found else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """A second generator, and `flat_map` behind the call."""
        stage = _stage(self.applies(pipeline))
        if stage is None:
            return ()
        plain = generators.generated(stage)
        count, name = _count(stage), plain.user.__name__
        note = f"yield stacks of {count} elements of {name}, and take them apart by {generators.apart(plain.spec)}"
        wanted = generators.in_chunks(plain, count)
        return (Patch(call_of(stage), note=note, generator=wanted, insert=generators.apart(plain.spec)),)


def _count(stage: Stage) -> int:
    """How many elements at a time. Raises RebuildError where they cannot be stacked, or are so large that their calls cost nothing."""
    specs = generators.flat(stage.dataset.element_spec)
    if specs is None or any(not spec.shape.is_fully_defined() or spec.dtype.is_numpy_compatible is False for spec in specs):
        raise RebuildError(f"The elements of {stage.title} have no fixed shapes, or are nested: they cannot be stacked.")
    if any(not (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool) for spec in specs):
        raise RebuildError(f"The elements of {stage.title} are no numbers.")
    each = sum(spec.dtype.size * math.prod(spec.shape.as_list()) for spec in specs)
    count = min(MOST, BYTES // max(each, 1))
    if count < FEWEST:
        raise RebuildError(f"The elements of {stage.title} are so large that a call for each costs little.")
    return int(count)


def _stage(answer: Answer) -> Stage | None:
    return answer.stage if isinstance(answer, Applies) else None


def _applied(rewrite: Rewrite, pipeline: Pipeline) -> Stage:
    answer = rewrite.applies(pipeline)
    stage = _stage(answer)
    if stage is None:
        raise RebuildError(answer.sentence)
    return stage


OPTIMISATIONS = (KeptItems(), GeneratorChunks())
