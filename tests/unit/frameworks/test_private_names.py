"""Private names of frameworks: what they stand for, and which of them are missing. The installed
versions lack none.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

import pytest

from outpace.doctor.system import System
from outpace.frameworks.private import PrivateName
from outpace.frameworks.probe import NAMES, missing_names

READ = System().read
MODULE = "class Made:\n    def call(self):\n        self._state = 1\n\n_made = Made()\n"


def name(path: str, older: PrivateName | None = None) -> PrivateName:
    return PrivateName([], "framework.inner", "module", path, older)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(_made=SimpleNamespace(_state=1), none=None)
    monkeypatch.setitem(sys.modules, "framework.inner.module", made)
    return made


def test_a_name_stands_for_what_its_module_has(module: SimpleNamespace) -> None:
    assert name("_made").value is module._made
    assert name("_made._state").value == 1
    assert name("_made._gone.inner").value is None
    assert name("_state").of(module._made) == 1
    assert name("_gone").of(module._made, "nothing") == "nothing"


def test_nothing_is_imported() -> None:
    assert PrivateName([], "json", "tool", "main").value is None or "json.tool" in sys.modules
    assert name("_made").value is None


def test_a_name_is_replaced_only_where_it_is(module: SimpleNamespace) -> None:
    name("_made._state").replace(2)
    name("none").replace(3)
    assert (module._made._state, module.none) == (2, 3)
    with pytest.raises(AttributeError, match=r"framework\.inner\.module\._gone is not there"):
        name("_gone").replace(1)


@pytest.mark.parametrize("path", ["", "Made", "Made.call", "_state", "_made._state"])
def test_a_name_is_there_where_the_text_of_its_module_has_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "framework" / "inner").mkdir(parents=True)
    assert name(path).is_missing(str(tmp_path), READ)
    (tmp_path / "framework" / "inner" / "module.py").write_text(MODULE)
    assert not name(path).is_missing(str(tmp_path), READ)
    assert name(f"{path}_gone").is_missing(str(tmp_path), READ)


def test_what_older_versions_have_instead_serves(tmp_path: Path) -> None:
    (tmp_path / "framework" / "inner" / "module").mkdir(parents=True)
    (tmp_path / "framework" / "inner" / "module" / "__init__.py").write_text(MODULE)
    assert not name("_newer", name("_made")).is_missing(str(tmp_path), READ)
    assert name("_newer", name("_other")).is_missing(str(tmp_path), READ)


def test_a_framework_that_is_not_there_lacks_nothing(tmp_path: Path) -> None:
    assert missing_names(str(tmp_path), READ) == []
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    lacks = missing_names(str(tmp_path), READ)
    assert lacks == [str(each) for each in NAMES if each.package == "jax"]
    assert "jax._src.xla_bridge._backends" in lacks


@pytest.mark.parametrize("package", sorted({each.package for each in NAMES}))
def test_the_installed_version_has_all_of_them(package: str) -> None:
    found = PathFinder.find_spec(package)  # looks for files alone: `make fast` refuses to import a framework
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    lacks = missing_names(str(Path(found.origin).parents[1]), READ)
    assert [each for each in lacks if each.startswith(f"{package}.")] == []
