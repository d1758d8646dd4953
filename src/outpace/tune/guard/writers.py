# SPDX-License-Identifier: Apache-2.0
"""What frameworks write by code of their own, which no function of Python's sees: switched off by
name. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from outpace.capture.imports import ImportHooks
from outpace.frameworks import keras, tensorflow
from outpace.frameworks.private import PrivateName

_ORBAX = ("CheckpointManager", "PyTreeCheckpointer", "StandardCheckpointer", "Checkpointer")
# Functions that write files.
WRITERS = (
    *(*tensorflow.WRITERS, *keras.WRITERS),
    *(PrivateName([], "orbax", "checkpoint", f"{kind}.save") for kind in _ORBAX),
)
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "orbax.checkpoint")


class Writers:
    """Switches them off, in all threads or in one. off: those that were called."""

    def __init__(self, off: set[str]) -> None:
        self.off = off
        self._replaced: set[tuple[int, str]] = set()

    def switch_off(self, muted: Callable[[], bool] = lambda: True) -> None:
        """Those of the modules that are imported by now; `muted` is asked at each call."""
        for writer in WRITERS:
            owner, name = writer.owner, writer.name
            if owner is not None and name in vars(owner) and (id(owner), name) not in self._replaced:
                self._replaced.add((id(owner), name))
                said = writer.path if "." in writer.path else f"{writer.module.split('.')[-2]}.{name}"
                writer.replace(self._instead(writer.value, said, muted))

    def _instead(self, original: Any, said: str, muted: Callable[[], bool]) -> Any:
        def method(*args: Any, **kwargs: Any) -> Any:
            if not muted():
                return original(*args, **kwargs)
            self.off.add(said)
            return str(args[1]) if len(args) > 1 and isinstance(args[1], (str, os.PathLike)) else ""

        return method

    def switch_off_on_import(self) -> None:
        """All of them as soon as their frameworks are imported, and TensorFlow's files of
        summaries.
        """

        def imported(module: ModuleType) -> None:
            self.switch_off()
            summary = getattr(module, "summary", None)
            if module.__name__ == "tensorflow" and summary is not None:
                summary.create_file_writer = self._no_summaries(module)

        ImportHooks(dict.fromkeys(_FRAMEWORKS, imported), lambda name, error: None).install()

    def _no_summaries(self, tensorflow: Any) -> Any:
        def create_file_writer(*args: Any, **kwargs: Any) -> Any:
            self.off.add("summary.create_file_writer")
            return tensorflow.summary.create_noop_writer()

        return create_file_writer
