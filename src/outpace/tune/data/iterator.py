"""TensorFlow's own model of a running iterator (`get_model_proto`): which stages really run, and with which parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outpace.model.errors import NotFoundError
from outpace.tune.data.tree import describe


@dataclass(frozen=True)
class Parameter:
    """A parameter of a stage in the running iterator: its value now, and whether autotune sets it."""

    value: float
    tunable: bool


def model_of(iterator: Any) -> Any:
    """TensorFlow's model of an iterator that gave at least one element.

    Raises NotFoundError when there is none: autotune is off, or this TensorFlow does not tell.
    """
    import tensorflow as tf

    read = getattr(tf.data.experimental, "get_model_proto", None)
    if read is None:
        raise NotFoundError(
            f"TensorFlow {tf.__version__} does not tell what a pipeline's stages cost (2.21 does). A profile does: outpace profile."
        )
    try:
        return read(iterator)
    except tf.errors.NotFoundError as error:
        raise NotFoundError(
            "This iterator has no performance model because autotune is off, so the cost of its stages is not known. Switch it on "
            "(options.autotune.enabled = True), or read the stages from a profile (outpace profile)."
        ) from error


def parameter_of(iterator: Any, stage: str, name: str) -> Parameter | None:
    """A parameter of the first stage of that type in the running iterator; None where there is no such stage, or no model."""
    try:
        model = model_of(iterator)
    except NotFoundError:
        return None
    for node in _walk(model):
        if node.name == stage:
            for parameter in node.parameters:
                if parameter.name == name:
                    return Parameter(float(parameter.value), bool(parameter.tunable))
    return None


def stages_of(iterator: Any) -> tuple[str, ...]:
    """Types of the stages that really run, the end first; empty where there is no model."""
    try:
        return tuple(node.name for node in _walk(model_of(iterator)))
    except NotFoundError:
        return ()


def proved_cache(iterator: Any, kind: str) -> str | None:
    """Evidence of a cache in a running iterator: its model, or (a stage whose input has ended leaves the model, as behind a shuffle that holds
    all elements) the data set that the iterator keeps. `kind` is `MemoryCache` or `FileCache`."""
    found = [name for name in stages_of(iterator) if name.startswith(kind)]
    if found:
        return f"{found[0]} runs in the iterator."
    whole = getattr(iterator, "_dataset", None)
    caches = (
        [s for s in describe(whole).find("cache") if bool(s.arguments.get("filename")) is (kind == "FileCache")]
        if whole is not None
        else []
    )
    return "The data set that the iterator runs has the cache; its input has ended in this epoch." if caches else None


def _walk(model: Any) -> list[Any]:
    """The nodes from the output down, parents first."""
    nodes = dict(model.nodes)
    found: list[Any] = []

    def visit(number: int) -> None:
        if number in nodes and len(found) < 10_000:
            found.append(nodes[number])
            for child in nodes[number].inputs:
                visit(child)

    visit(model.output)
    return found
