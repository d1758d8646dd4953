"""Chance follows the place that asks: seeds stay, and what has none gets one for its line."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SCRIPT = """
import sys, types
import numpy as np
from outpace.tune.same.chance import Chance

chance = Chance(lambda file: file == __file__, {})
chance.on_numpy(np)
import json

def two(make):
    return [int(make().integers(1 << 30)) for _ in range(2)]

rng = np.random.default_rng
print(json.dumps({
    "none": two(rng), "none by name": two(lambda: rng(seed=None)), "seed": two(lambda: rng(5)), "seed by name": two(lambda: rng(seed=5)),
    "entropy": [int(np.random.SeedSequence(entropy=3).generate_state(1)[0]) for _ in range(2)],
    "no entropy": [int(np.random.SeedSequence().generate_state(1)[0]) for _ in range(2)],
    "state": [int(np.random.RandomState(4).randint(1 << 30)) for _ in range(2)],
}))
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[int]]]:
    path: Path = tmp_path_factory.mktemp("chance") / "train.py"
    path.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    runs = [subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False) for _ in range(2)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    return [json.loads(run.stdout) for run in runs]


def test_two_runs_draw_the_same(drawn: list[dict[str, list[int]]]) -> None:
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", ["seed", "seed by name", "entropy", "state"])
def test_a_seed_stays_what_it_is(drawn: list[dict[str, list[int]]], name: str) -> None:
    assert len({*drawn[0][name]}) == 1


@pytest.mark.parametrize("name", ["none", "none by name", "no entropy"])
def test_what_has_no_seed_draws_other_numbers_each_time(drawn: list[dict[str, list[int]]], name: str) -> None:
    assert len({*drawn[0][name]}) == 2
