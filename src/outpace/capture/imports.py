# SPDX-License-Identifier: Apache-2.0
"""Calls a function right after the script has imported a module, without importing it itself.

A finder in front of `sys.meta_path` lets the other finders locate the module and wraps its loader
for the one moment of execution. Wrapping `builtins.__import__` instead would miss
`importlib.import_module` and slow every import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


class ImportHooks:
    """Meta path finder that calls a hook after each named module's first import. A hook that raises
    is reported and does not stop the import.
    """

    def __init__(
        self,
        hooks: dict[str, Hook],
        on_error: Callable[[str, Exception], None],
        on_import: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Create the finder.

        hooks: functions that get the module, by its name.
        on_error: called with the name of a module whose hook raised, and the exception.
        on_import: called with the name of a module that is about to be imported.
        """
        self._hooks = dict(hooks)
        self._on_error, self._on_import = on_error, on_import
        # names being looked up: another such finder may call this one back
        self._pending_names: set[str] = set()

    def install(self) -> None:
        """Put the finder in front of all others."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec that the other finders find, with its loader wrapped; None for a module
        without a hook. Part of the import protocol.
        """
        if name not in self._hooks or name in self._pending_names:
            return None
        self._pending_names.add(name)
        try:
            return self._find_wrapped_spec(name, path, target)
        finally:
            self._pending_names.discard(name)

    def _find_wrapped_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """Return the first spec of the other finders, with its loader wrapped."""
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    # The protocol asks for a loader. A subclass of Loader would have methods that
                    # the real loader lacks.
                    wrapped: Any = _CallbackLoader(spec.loader, self._run_hook)
                    spec.loader = wrapped
                    self._on_import(name)
                return spec
        return None

    def _run_hook(self, module: ModuleType) -> None:
        """Call a module's hook, once."""
        hook = self._hooks.pop(module.__name__, None)
        if hook is None:
            return
        try:
            hook(module)
        except Exception as error:
            self._on_error(module.__name__, error)


class _CallbackLoader:
    """Loader that executes a module with its real loader and then calls back; the module gets the
    real loader.
    """

    def __init__(self, real: Any, callback: Hook) -> None:
        self._loader = real
        self._callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            # for readers of resources and sources, which expect the real loader
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
