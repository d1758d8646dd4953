"""Hooks run once, right after the import, and leave the module as it would have been."""

from __future__ import annotations

import importlib
import importlib.resources
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from outpace.capture.imports import ImportHooks


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "outpace_hooked_sample"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("value = 1\n")
    (tmp_path / name / "data.txt").write_text("text")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield name
    sys.meta_path[:] = before
    sys.modules.pop(name, None)


def test_hook_sees_the_finished_module_once(package: str) -> None:
    seen: list[int] = []
    ImportHooks({package: lambda module: seen.append(module.value)}, lambda *_: None).install()
    importlib.import_module(package)
    importlib.import_module(package)
    assert seen == [1]


def test_two_finders_that_wait_for_one_module_both_hear_of_it(package: str) -> None:
    seen: list[str] = []
    for name in ("first", "second"):
        ImportHooks({package: lambda module, name=name: seen.append(name)}, lambda *_: None).install()  # type: ignore[misc]
    module = importlib.import_module(package)
    assert sorted(seen) == ["first", "second"] and type(module.__loader__).__name__ == "SourceFileLoader"


def test_module_keeps_its_own_loader(package: str) -> None:
    ImportHooks({package: lambda module: None}, lambda *_: None).install()
    module = importlib.import_module(package)
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__ is not None and module.__spec__.loader is module.__loader__
    assert importlib.resources.files(package).joinpath("data.txt").read_text() == "text"


def test_failing_hook_is_reported_and_the_import_works(package: str) -> None:
    reports: list[tuple[str, str]] = []

    def hook(module: ModuleType) -> None:
        raise LookupError("moved")

    ImportHooks({package: hook}, lambda name, error: reports.append((name, str(error)))).install()
    assert importlib.import_module(package).value == 1
    assert reports == [(package, "moved")]


def test_missing_module_stays_missing() -> None:
    hooks = ImportHooks({"outpace_no_such_module": lambda module: None}, lambda *_: None)
    before = list(sys.meta_path)
    hooks.install()
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("outpace_no_such_module")
    finally:
        sys.meta_path[:] = before
