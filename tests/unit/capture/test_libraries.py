"""Whose file it is: a library's wherever it was installed to, or the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from outpace.capture import frames
from outpace.capture.stacks import owner_of


def test_a_library_that_was_installed_to_any_folder_of_the_path_owns_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = tmp_path / "libraries"
    for name, listed in {"optax": "optax/transform.py,sha256=x,1\n", "Six": "six.py,,\n../../bin/tool,,\n"}.items():
        (libraries / f"{name}-1.0.dist-info").mkdir(parents=True)
        (libraries / f"{name}-1.0.dist-info" / "RECORD").write_text(listed)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(libraries), *sys.path])
    named = {"optax/src/transform.py": "optax", "six.py": "six", "mine.py": "", "optax_of_mine/a.py": ""}
    assert {file: owner_of(str(libraries / file)) for file in named} == named
    assert not frames.is_user_file(str(libraries / "six.py")) and frames.is_user_file(str(libraries / "mine.py"))
    assert owner_of(str(tmp_path / "optax" / "transform.py")) == ""  # the user's own folder of that name
