"""Where a cache is advised, beside the caches that are there."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.input_pipelines import Pipeline
from tests.advice_cases import tf_data as cases
from tests.advice_cases.build import MS, STEPS


def said(*kinds: str) -> str:
    """The actions on a pipeline of these stages, whose map takes nearly all of a step."""
    work = {"resize:ResizeBilinear": int(8 * MS * STEPS)}
    stages = [
        cases.staged(
            kind, 9.0 * ("Map" in kind), at - 1, is_async="Map" in kind, function_threads=2, op_ps=work if "Map" in kind else {}
        )
        for at, kind in enumerate(kinds)
    ]
    pipeline: Pipeline = cases.pipeline_of(stages, 9.0)
    return " ".join(found.action or "" for found in cases._context(0.5, [pipeline])())


def test_a_cache_behind_the_stage_is_enough() -> None:
    assert "cache" not in said("Prefetch", "MemoryCache", "BatchV2", "ParallelMapV2", "TensorSlice")


def test_a_cache_before_the_stage_is_to_be_moved() -> None:
    action = said("Prefetch", "BatchV2", "ParallelMapV2", "MemoryCache", "TensorSlice")
    assert "move .cache() behind .map()" in action
    assert "put .cache()" not in action


@pytest.mark.parametrize("kinds", [("Prefetch", "BatchV2", "ParallelMapV2", "TensorSlice")])
def test_without_one_it_is_to_be_put_behind_the_stage(kinds: tuple[str, ...]) -> None:
    assert "put .cache() right after .map()" in said(*kinds)


def test_a_cache_in_a_file_gets_a_new_name_where_it_is_moved() -> None:
    assert "new file name" in said("Prefetch", "BatchV2", "ParallelMapV2", "FileCache", "TensorSlice")
    assert "new file name" not in said("Prefetch", "BatchV2", "ParallelMapV2", "MemoryCache", "TensorSlice")


@pytest.mark.parametrize(
    ("before", "said_of_it"),
    [
        (["ForeverRepeat"], "before .repeat(), and put .cache() between the two"),
        (["ForeverRepeat", "MemoryCache"], "before .repeat(), and .cache() between the two"),
        (["Shuffle"], "before the shuffle, and put"),
        (["ForeverRepeat", "Shuffle"], "before the shuffle and .repeat(), and put"),
    ],
)
def test_a_cache_stands_before_what_repeats_and_shuffles(before: list[str], said_of_it: str) -> None:
    action = said("Prefetch", "BatchV2", "ParallelMapV2", *before, "TensorSlice")
    assert said_of_it in action
    assert "right after" not in action
    assert "behind .map()," not in action


def test_a_snapshot_keeps_the_results() -> None:
    assert "cache" not in said("Prefetch", "Snapshot", "BatchV2", "ParallelMapV2", "TensorSlice")
