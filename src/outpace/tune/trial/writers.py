"""Keras' callbacks that write files: switched off while a script is raced, which trains for the race alone. Standard library only."""

from __future__ import annotations

from typing import Any

# A checkpoint of a race would stand in the place of the user's own; BackupAndRestore would even begin with it.
WRITERS = ("ModelCheckpoint", "BackupAndRestore", "CSVLogger", "TensorBoard", "RemoteMonitor")


def without_writers(callbacks: Any, keras: Any) -> tuple[Any, list[str]]:
    """The callbacks of a `fit` that write no files, and the names of those that do (also of classes derived from Keras')."""
    kinds = tuple(kind for name in WRITERS if (kind := getattr(keras.callbacks, name, None)) is not None)
    held = getattr(callbacks, "callbacks", None)  # a CallbackList
    given = list(
        held if held is not None else callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    )
    names = [type(each).__name__ for each in given if isinstance(each, kinds)]
    if not names:
        return callbacks, []
    kept = [each for each in given if not isinstance(each, kinds)]
    if held is None:
        return kept, names
    callbacks.callbacks = kept
    return callbacks, names
