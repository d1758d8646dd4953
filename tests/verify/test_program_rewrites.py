"""The twelve programs of the bench (make verify): every rewrite of their input is an edit of their
source, or left out with a reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outpace.tune.optimisations import all_rewrites
from tests.integration.programs import environment, needs_tensorflow

PROGRAMS = Path(__file__).parents[2] / "bench" / "programs"
TRIED, ADVICE, OPT_IN = "would try", "advice", "would try, kept only with --allow statistical"
ANY_ORDER = "would try, kept only with --allow order"
# What is said of each rewrite; what is not named is not applicable.
SAID: dict[str, dict[str, str]] = {
    "functional": {"cache_any_order": ANY_ORDER, "thread_pool": TRIED},
    "generator_fed": {"cache": TRIED, "thread_pool": TRIED},
    "interleave": {"cache": TRIED, "parallel_interleave": TRIED, "thread_pool": TRIED},
    "mixed_precision": {},
    "multi_input": {"split_map": TRIED, "thread_pool": TRIED},
    "ragged": {"cache": TRIED, "thread_pool": TRIED},
    "segmentation": {
        "cache": TRIED,
        "parallel_map": OPT_IN,
        "thread_pool": TRIED,
    },
    "subclassed": {"cache": TRIED, "shuffle_before_map": TRIED, "thread_pool": TRIED},
    "tabular": {},
    "text": {"batch_before_map": TRIED, "cache": TRIED, "parallel_map": TRIED, "thread_pool": TRIED},
    "tfrecord": {"cache": TRIED, "shuffle_before_map": TRIED, "thread_pool": TRIED},
    "windowed": {"cache": TRIED, "shuffle_before_map": TRIED, "thread_pool": TRIED},
}


@pytest.mark.verify
def test_every_program_of_the_bench_is_here() -> None:
    assert sorted(SAID) == sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.mark.verify
@needs_tensorflow
@pytest.mark.parametrize("name", sorted(SAID))
def test_every_rewrite_is_an_edit_or_left_out_with_a_reason(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "outpace", "tune", "--dry-run", str(PROGRAMS / f"{name}.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, tuple[str, str]] = {}
    for rewrite in all_rewrites():
        (line,) = [line for line in done.stdout.splitlines() if f": {rewrite.title}: " in line]
        word, _, why = line.partition(f": {rewrite.title}: ")
        found[rewrite.id] = (word, why)
        assert len(why) > 20, line
        assert word != ADVICE or "No edit makes it: " in why, line
    assert {id: word for id, (word, _) in found.items() if word != "not applicable"} == SAID[name]
