# SPDX-License-Identifier: Apache-2.0
"""Runs a script or module as `python SCRIPT` or `python -m MODULE` would: `__main__`, `sys.argv`,
`sys.path`, tracebacks.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

# folder of the whole package
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def run_as_main(
    script: str, argv: Sequence[str], module: bool, compile_source: Callable[[bytes, str], CodeType] | None = None
) -> None:
    """Execute the script in a fresh `__main__`; its exceptions pass through.

    compile_source: returns the code of a script's text and path; by default Python's own compiler.
    """
    main = ModuleType("__main__")
    vars(main).update(__builtins__=__builtins__, __file__=script, __cached__=None, __package__=None)
    if module:
        _set_path(os.getcwd())
        code = _module_code(script, main)
    else:
        _set_path(script if os.path.isdir(script) else os.path.dirname(os.path.realpath(script)))
        code = _script_code(script, main, compile_source or _plain_code)
    sys.argv = [main.__file__ or script if module else script, *argv]
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _set_path(folder: str) -> None:
    """Put the script's folder where the interpreter put Outpace's, unless a flag told it to put
    none.
    """
    if getattr(sys.flags, "safe_path", False):
        return
    sys.path[0] = folder


def _plain_code(text: bytes, path: str) -> CodeType:
    """Return the compiled source. No loader compiles it, so that a syntax error shows no frames of
    a loader.
    """
    return compile(text, path, "exec", dont_inherit=True)


def _script_code(script: str, main: ModuleType, compile_source: Callable[[bytes, str], CodeType]) -> CodeType:
    """Return the code of a script, or of a folder's `__main__.py`, and set the module's attributes
    as the interpreter would.
    """
    # an absolute path, as the interpreter sets it
    path = os.path.join(os.getcwd(), script.removeprefix("./"))
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    loader = SourceFileLoader("__main__", path)
    main.__loader__ = loader
    main.__spec__ = None
    main.__file__ = path
    return compile_source(loader.get_data(path), path)


def _module_code(name: str, main: ModuleType) -> CodeType:
    """Return the code of a module, or of a package's `__main__`, and set the attributes of `main`.
    Raises ImportError as `python -m` would.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or not hasattr(spec.loader, "get_code"):
        raise ImportError(f"No module named {name}")
    _set_spec(spec, main)
    loader: Any = spec.loader
    code: CodeType | None = loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"No code object available for {name}")
    return code


def _set_spec(spec: ModuleSpec, main: ModuleType) -> None:
    """Set the attributes of `main` from a module's spec."""
    main.__spec__, main.__loader__ = spec, spec.loader
    main.__file__, main.__package__ = spec.origin, spec.parent


def hide_own_frames() -> None:
    """Print an uncaught exception as plain Python would, whatever excepthook the script has set."""
    hook: Callable[..., Any] = sys.excepthook

    def print_clean(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        _strip_own_frames(error, set())
        return hook(kind, error, error.__traceback__)

    sys.excepthook = print_clean


def _strip_own_frames(error: BaseException | None, visited: set[int]) -> None:
    """Remove Outpace's frames from an exception, its causes and contexts."""
    if error is None or id(error) in visited:
        return
    visited.add(id(error))
    error.__traceback__ = _remove_own_frames(error.__traceback__)
    _strip_own_frames(error.__cause__, visited)
    _strip_own_frames(error.__context__, visited)


def _remove_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without Outpace's frames, and without runpy's above them."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    last = max((index for index, item in enumerate(frames) if _is_launcher(item)), default=-1)
    cleaned = None
    for item in reversed([item for item in frames[last + 1 :] if not item.tb_frame.f_code.co_filename.startswith(_ROOT)]):
        cleaned = TracebackType(cleaned, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return cleaned


def _is_launcher(item: TracebackType) -> bool:
    """Whether a traceback entry belongs to the functions that run the script."""
    code = item.tb_frame.f_code
    return code.co_filename.startswith(_ROOT) and code.co_name in ("run_as_main", "_script_code", "_module_code", "_plain_code")
