"""Builds a pipeline again with some stages changed, without tracing any function a second time.

The constructors of tf.data's own classes are called with the functions that the user's pipeline has already traced: captured
variables, tables and seeds stay what they are, and no Python side effect of a function runs again. A subtree without a change
stays the very same object.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.classes import construct, kind_of, unknown
from outpace.tune.data.graph import inputs_of

# An edit receives the old stage and its new inputs, and returns the stage to put in its place.
Edit = Callable[[Any, Sequence[Any]], Any]
_lock = threading.RLock()


@contextlib.contextmanager
def reused_functions() -> Iterator[None]:
    """While open, TensorFlow's constructors take an already traced function where they would trace a Python function.

    Calls by other threads with Python functions pass through unchanged; the class is put back in any case.
    """
    from tensorflow.python.data.ops import structured_function

    with _lock:
        original = structured_function.StructuredFunctionWrapper

        def wrapper(func: Any, *args: Any, **kwargs: Any) -> Any:
            traced = _traced(func, original)
            return original(func, *args, **kwargs) if traced is None else traced

        structured_function.StructuredFunctionWrapper = wrapper
        try:
            yield
        finally:
            structured_function.StructuredFunctionWrapper = original


def _traced(func: Any, kind: Any) -> Any:
    """The traced function itself, also inside the closure that a constructor put around it (group_by_window does)."""
    if isinstance(kind, type) and isinstance(func, kind):
        return func
    for cell in getattr(func, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            if isinstance(kind, type) and isinstance(cell.cell_contents, kind):
                return cell.cell_contents
    return None


def rebuild(dataset: Any, edits: Sequence[tuple[Any, Edit]]) -> Any:
    """The pipeline with each edit applied to its stage (a data set object inside the pipeline, compared by identity).

    Stages that are used twice stay shared. Raises RebuildError, and builds nothing that is kept, when a stage behind an edit is of
    an unknown class, or an edited stage is not part of the pipeline.
    """
    wanted = {id(node): edit for node, edit in edits}
    present = {id(node) for node in nodes(dataset)}
    if not wanted.keys() <= present:
        raise RebuildError("The stage to change is not part of this pipeline.")
    _check(dataset, wanted)
    with reused_functions():
        return _walk(dataset, lambda node: wanted.get(id(node)), {}, copy=False)


def copied(dataset: Any, edit: Callable[[Any], Edit | None] = lambda node: None) -> Any:
    """A faithful copy with state of its own: every stage behind a source is built anew (shuffles and caches start afresh).

    `edit` may answer an edit for a node, sources included. Raises RebuildError when a class is unknown.
    """
    for node in nodes(dataset):
        if inputs_of(node) and kind_of(node) is None and edit(node) is None:
            raise RebuildError(unknown(node))
    with reused_functions():
        return _walk(dataset, edit, {}, copy=True)


def nodes(dataset: Any) -> list[Any]:
    """Every stage once, from the end of the pipeline to its sources."""
    found: dict[int, Any] = {}
    todo = [dataset]
    while todo:
        node = todo.pop(0)
        if id(node) not in found:
            found[id(node)] = node
            todo += inputs_of(node)
    return list(found.values())


def _check(dataset: Any, wanted: dict[int, Edit]) -> None:
    """Refuse before anything is built: the stages from an edit to the end must be of known classes."""
    touched: dict[int, bool] = {}

    def visit(node: Any) -> bool:
        if id(node) not in touched:
            below = [visit(child) for child in inputs_of(node)]
            if any(below) and id(node) not in wanted and kind_of(node) is None:
                raise RebuildError(unknown(node))
            touched[id(node)] = any(below) or id(node) in wanted
        return touched[id(node)]

    visit(dataset)


def _walk(node: Any, edit: Callable[[Any], Edit | None], done: dict[int, Any], copy: bool) -> Any:
    if id(node) not in done:
        old = inputs_of(node)
        new = [_walk(child, edit, done, copy) for child in old]
        change = edit(node)
        if change is not None:
            made = change(node, new)
        elif not old or (not copy and all(a is b for a, b in zip(new, old, strict=True))):
            made = node
        else:
            made = construct(node, _same_structure(node, old, new))
        done[id(node)] = made
    return done[id(node)]


def _same_structure(node: Any, old: list[Any], new: list[Any]) -> list[Any]:
    """A traced function fits only elements of the structure that it was traced for."""
    for before, after in zip(old, new, strict=True):
        if before.element_spec != after.element_spec:
            raise RebuildError(
                f"{type(node).__name__} was built for elements {before.element_spec}, and the change before it makes {after.element_spec}."
            )
    return new
