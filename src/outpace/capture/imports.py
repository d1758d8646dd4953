# SPDX-License-Identifier: Apache-2.0
"""Calls a function right after the script has imported a module, without importing it itself, and
measures how long imports take.

A finder in front of `sys.meta_path` lets the other finders locate the module and wraps its loader
for the one moment of execution. Wrapping `builtins.__import__` instead would miss
`importlib.import_module` and slow every import.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from outpace.capture.stacks import owner_of

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
        spec = _find_spec(self, name, path, target)
        if spec is not None and _wrap_loader(spec, self._run_hook):
            self._on_import(name)
        return spec

    def _run_hook(self, module: ModuleType) -> None:
        """Call a module's hook, once."""
        hook = self._hooks.pop(module.__name__, None)
        if hook is None:
            return
        try:
            hook(module)
        except Exception as error:
            self._on_error(module.__name__, error)


class ImportSpan(NamedTuple):
    """The import of a package, or what was imported of it later.

    start_ns, end_ns: Unix time, ns.
    package: its name.
    file, line: the user's line on whose behalf it is imported; "" and 0 where there is none.
    """

    start_ns: int
    end_ns: int
    package: str
    file: str
    line: int


class ImportTimes:
    """Meta path finder that measures the imports of other packages on the main thread. The user's
    own modules are their code, and so is not what they take.

    spans: measured imports; one inside of another is measured if it is of another package.
    """

    def __init__(self) -> None:
        """Create the finder."""
        self.spans: list[ImportSpan] = []
        self._depth = 0  # number of measured imports that run
        self._pending_names: set[str] = set()

    def install(self) -> None:
        """Put the finder in front of all others."""
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Measure no further import."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec that the other finders find, with its loader wrapped; None for a module
        that is not measured. Part of the import protocol.
        """
        package = name.partition(".")[0]
        if (
            name in self._pending_names
            or (self._depth and package != name)
            or package in sys.stdlib_module_names
            or threading.current_thread() is not threading.main_thread()
        ):
            return None
        start_ns = time.time_ns()
        self._pending_names.add(name)
        try:
            spec = _find_spec(self, name, path, target)
        finally:
            self._pending_names.discard(name)
        if spec is None or not isinstance(spec.origin, str) or not owner_of(spec.origin):
            return spec
        file, line = _find_user_line(sys._getframe(1))

        def end(_: object) -> None:
            self._depth -= 1
            self.spans.append(ImportSpan(start_ns, time.time_ns(), package, file, line))

        def begin() -> None:
            self._depth += 1

        _wrap_loader(spec, end, begin, always=True)
        return spec


def _find_user_line(frame: FrameType | None) -> tuple[str, int]:
    """Return the file and line of the innermost frame of the user's; "" and 0 without one."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not owner_of(name):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _find_spec(finder: Any, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """Return the first spec of the finders other than this one."""
    for other in sys.meta_path:
        find = getattr(other, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, target) if other is not finder and find is not None else None
        if spec is not None:
            return spec
    return None


def _wrap_loader(spec: ModuleSpec, callback: Hook, before: Callable[[], None] = lambda: None, always: bool = False) -> bool:
    """Let a spec's loader call back, and return whether it executes modules."""
    if spec.loader is None or not hasattr(spec.loader, "exec_module"):
        return False
    # The protocol asks for a loader. A subclass of Loader would have methods that the real loader
    # lacks.
    wrapped: Any = _CallbackLoader(spec.loader, callback, before, always)
    spec.loader = wrapped
    return True


class _CallbackLoader:
    """Loader that executes a module with its real loader and then calls back, also after an
    exception where `always`; the module gets the real loader.
    """

    def __init__(self, real: Any, callback: Hook, before: Callable[[], None], always: bool) -> None:
        self._loader = real
        self._callback, self._before, self._always = callback, before, always

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            # for readers of resources and sources, which expect the real loader
            module.__spec__.loader = self._loader
        self._before()
        try:
            self._loader.exec_module(module)
        except BaseException:
            if self._always:
                self._callback(module)
            raise
        self._callback(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
