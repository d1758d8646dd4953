"""Inputs that Python makes. What generators give is kept by item where it is the same in every epoch, or handed over several elements at a
time; the batches of a `PyDataset` are kept in memory, or made by several threads ahead of the step."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from outpace.capture.notes import usable_cpus
from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import generators
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.size import SHARE, available_memory, element_bytes
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.knob import ReaderKnob, Turned, switched
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable, Patch, Rewrite, call_of, first_refusal
from outpace.tune.purity import evidence
from outpace.tune.purity.reading import doubt

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Reader, Stepper


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
                found = generators.keeping(plain)
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
        kept = generators.keeping(generators.generated(stage))
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
        kept = generators.keeping(generators.generated(stage))
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


_BY_EPOCH = ("on_epoch_begin", "on_epoch_end")


class KeptBatches(ReaderKnob):
    """Keeps what `__getitem__` returns, by its index; Keras shuffles the order of batches, not what they hold."""

    id = "kept_batches"
    title = "batches kept in memory"
    practice = (
        "Decorate __getitem__ of the PyDataset with functools.cache, so that each batch is made once and not in every epoch."
    )
    order = 1

    def decorators(self, program: Program) -> dict[str, str]:
        """`functools.cache` on `__getitem__`."""
        return {"__getitem__": "functools.cache"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset's batches are the same in every epoch, as its code shows, and fit into half of the free memory."""
        x = program.source.py_dataset
        if x is None:
            return NotApplicable("the input is no PyDataset")
        if program.batches is None:
            return NotApplicable("the number of its batches is not known")
        if x.use_multiprocessing:
            return NotApplicable("its batches are made in other processes, each of which would keep all of them")
        own = next((name for name in _BY_EPOCH if _overrides(x, name)), None)
        if own is not None:
            return NotApplicable(f"its {own} may change what a batch holds")
        against = doubt(x.__getitem__)
        if against is not None:
            return NotApplicable(f"its batches may be others in the next epoch: {against}")
        total, free = program.batches * element_bytes(program.spare), available_memory()
        if total > SHARE * free:
            return NotApplicable(
                f"its batches take {humanize(total, Unit.BYTES)}, more than half of the {humanize(free, Unit.BYTES)} that are free"
            )
        return Applies(
            f"{type(x).__name__}.__getitem__ makes the same batches in every epoch ({humanize(total, Unit.BYTES)})", Risk.EXACT
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Feeds that are made inside the block keep their batches, all in one memory."""

        def on(back: ExitStack) -> None:
            back.callback(setattr, program.source, "keeping", program.source.keeping)
            program.source.keeping = True

        return Turned(on)

    def proof(self, program: Program, runner: Stepper | Reader) -> str | None:
        """Batches came out of memory."""
        hits = program.source.kept.hits if program.source.py_dataset is not None else 0
        return f"{hits} batches were read from memory" if hits else None


def _overrides(x: Any, name: str) -> bool:
    import keras

    return getattr(type(x), name, None) is not getattr(keras.utils.PyDataset, name, None)


FEWEST_WORKERS = 2  # a single one runs in the thread that reads


class Workers(ReaderKnob):
    """As many threads as there are cores call `__getitem__`, where Keras would call it in one."""

    id = "workers"
    title = "workers of the PyDataset"
    practice = "Let several threads make the batches: super().__init__(workers=os.cpu_count()) in the PyDataset's constructor."
    order = 2

    def keywords(self, program: Program) -> dict[str, str]:
        """`workers=os.cpu_count()`."""
        return {"workers": "os.cpu_count()"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset is read by a single thread, and its code shows nothing that several threads could disturb."""
        x = program.source.py_dataset
        if x is None:
            return NotApplicable("the input is no PyDataset")
        if x.workers > 1 or x.use_multiprocessing:
            return NotApplicable(f"it has workers already ({x.workers})")
        against = doubt(x.__getitem__)
        if against is not None:
            return Applies(
                f"one thread makes its batches, and several would share what its code shows: {against}", Risk.STATISTICAL
            )
        return Applies("one thread makes its batches, one after the other", Risk.EXACT)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Feeds that are made inside the block have workers."""
        return switched(program.source.py_dataset, workers=max(FEWEST_WORKERS, usable_cpus()))

    def proof(self, program: Program, runner: Stepper | Reader) -> str | None:
        """Keras made workers for what is read."""
        return f"{runner.feed.workers} threads make batches" if runner.feed.workers > 1 else None


OPTIMISATIONS = (KeptItems(), GeneratorChunks(), KeptBatches(), Workers())
