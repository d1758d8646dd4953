"""The twelve programs of the bench (make verify): every rewrite on each is equal to the original, or refused with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_tensorflow
from tests.verify.program_rewriting import agree

PROGRAMS = Path(__file__).parents[2] / "bench" / "programs"
EXACT, REORDERED, STATISTICAL = "exact", "reordered", "statistical"
# Which rewrites each program accepts, by risk; all others are refused with a reason.
ACCEPTED: dict[str, dict[str, str]] = {
    "functional": {"any_order": REORDERED, "thread_pool": EXACT},
    "generator_fed": {"cache": EXACT, "generator_chunks": EXACT, "thread_pool": EXACT},
    "interleave": {"cache": EXACT, "parallel_interleave": EXACT, "thread_pool": EXACT},
    "mixed_precision": {},
    "multi_input": {"split_map": EXACT, "thread_pool": EXACT},
    "ragged": {"cache": EXACT, "thread_pool": EXACT},
    "segmentation": {"any_order": STATISTICAL, "cache": EXACT, "parallel_map": STATISTICAL, "thread_pool": EXACT},
    "subclassed": {"cache": EXACT, "shuffle_before_map": EXACT, "thread_pool": EXACT},
    "tabular": {},
    "text": {"cache": EXACT, "parallel_map": EXACT, "thread_pool": EXACT},
    "tfrecord": {"any_order": REORDERED, "cache": EXACT, "shuffle_before_map": EXACT, "thread_pool": EXACT},
    "windowed": {"cache": EXACT, "shuffle_before_map": EXACT, "thread_pool": EXACT},
}


@pytest.mark.verify
def test_every_program_of_the_bench_is_here() -> None:
    assert sorted(ACCEPTED) == sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.mark.verify
@needs_tensorflow
@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_every_rewrite_is_equal_or_refused(name: str, tmp_path: Path) -> None:
    helper = str(Path(__file__).with_name("program_rewriting.py"))
    command = [sys.executable, helper, str(PROGRAMS / f"{name}.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("repeats itself") is True
    assert found.pop("steps") >= 25
    accepted = {rewrite: one["risk"] for rewrite, one in found.items() if "refused" not in one}
    assert accepted == ACCEPTED[name]
    for rewrite, one in found.items():
        where = f"{rewrite} on {name}: {one}"
        if "refused" in one:
            assert one["refused"].endswith(".") and len(one["refused"]) > 20, where
        else:
            assert one["equal"] is True, where


BATCHES = [[["a", "b"], ["c", "d"], ["e"]]]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("after", "agreeing"),
    [
        ([[["a", "b"], ["c", "d"], ["e"]]], [EXACT, REORDERED, STATISTICAL]),
        ([[["c", "b"], ["a", "e"], ["d"]]], [REORDERED, STATISTICAL]),
        ([[["a", "b"], ["c", "d"], ["x"]]], [STATISTICAL]),
        ([[["a", "b"], ["c", "d"], ["d"]]], [STATISTICAL]),
        ([[["a", "b", "c"], ["d", "e"]]], []),
        ([[["a", "b"], ["c", "d"]]], []),
    ],
)
def test_the_comparison_sees_what_differs(after: list[list[list[str]]], agreeing: list[str]) -> None:
    assert [risk for risk in (EXACT, REORDERED, STATISTICAL) if agree(risk, BATCHES, after)] == agreeing
