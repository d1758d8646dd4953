"""What reading an input pipeline once more does besides: one sentence per effect."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.tune.data.isolated import is_temporary
from outpace.tune.data.tree import Pipeline, Stage

_AGAIN = "what it writes to files goes to a private place, what it sends elsewhere is sent."


def effects(pipeline: Pipeline) -> tuple[str, ...]:
    """One sentence per effect, the end of the pipeline first; empty where another run leaves no trace."""
    return tuple(dict.fromkeys(sentence for stage in pipeline.stages() for sentence in _of(stage)))


def _of(stage: Stage) -> Iterator[str]:
    if stage.op == "from_generator":
        yield f"{stage.title} calls your Python generator again: {_AGAIN}"
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
            yield f"{where} runs Python code (py_function or numpy_function): {_AGAIN}"
        if facts.writes:
            yield f"{where} writes to state outside the function ({', '.join(facts.writes)})."
        if facts.captures_resources and not facts.writes:
            yield f"{where} reads state from outside the function (a variable, table or generator), which may change while training."
        if facts.random and not facts.random_seeded:
            yield f"{where} draws random numbers without a seed: they differ in every run anyway."
