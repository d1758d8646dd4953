"""`outpace.tune("train.py")` from Python: what comes back of a tuning, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import outpace
from outpace.model.errors import NotFoundError, TuneError, UsageError
from tests.integration.programs import needs_jax
from tests.integration.test_tune_loop_jax import SCRIPT

pytestmark = pytest.mark.verify


@needs_jax
def test_a_script_is_tuned_and_its_patch_and_race_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = outpace.tune("train.py", budget=60)
    assert result.gain is not None and result.gain.low > 1 and result.experiment is not None
    assert result.patch is not None and "+@jax.jit" in result.patch.diff()
    assert f"Speed-up {result.gain.ratio:.2f}x" in str(result) and "<" in result._repr_html_()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_what_is_no_script_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="this is a list: give its path"):
        outpace.tune([1, 2])  # type: ignore[arg-type]  # what a notebook would give
    with pytest.raises(NotFoundError):
        outpace.tune("train.py")
    (tmp_path / "train.py").write_text("print('no training')\n", encoding="utf-8")
    with pytest.raises(TuneError, match=r"Nothing of train\.py was tuned"):
        outpace.tune("train.py")
