"""A parallel map of tiny elements: what it costs to call its function, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from outpace.metrics.facts.input_pipelines import Pipeline
from tests.advice_cases import tf_data as cases
from tests.advice_cases.build import MS, STEPS

RECORDS = {"parse:ParseExampleV2": 0.1, "cast:Cast": 0.05}


def said(parts: Mapping[str, float], batched: bool) -> tuple[str, str]:
    """What is said of a map whose ops take these parts of its function's time."""
    work = 9 * MS * STEPS
    ops = {name: int(part * work) for name, part in parts.items()}
    kinds = ["Prefetch", "BatchV2" if batched else "Shuffle", "ParallelMapV2"]
    stages = [
        cases.staged(kind, 9.0 if at == 2 else 0.0, at - 1, is_async=at != 1, function_threads=2, op_ps=ops if at == 2 else {})
        for at, kind in enumerate(kinds)
    ]
    pipeline: Pipeline = cases.pipeline_of(stages, 9.0)
    found = next(each for each in cases._context(0.5, [pipeline])() if each.id == "slow_stage")
    return found.sentence, found.action or ""


def test_a_function_that_is_called_too_often_takes_batches() -> None:
    sentence, action = said(RECORDS, batched=True)
    assert "85% of it to call it and to start its ops" in sentence and "ParseExampleV2" not in sentence
    assert "once per batch" in action and "(tf.io.parse_example takes a batch of records)" in action and "images" not in action


def test_random_draws_may_become_those_of_the_batch() -> None:
    drawn = "one draw for the batch"
    assert drawn in said({**RECORDS, "crop:RandomUniformInt": 0.05}, batched=True)[1]
    assert drawn not in said(RECORDS, batched=True)[1]


@pytest.mark.parametrize(("share", "batches"), [(0.45, True), (0.55, False)])
def test_calls_must_take_more_than_ops(share: float, batches: bool) -> None:
    assert ("once per batch" in said({"resize:ResizeBilinear": share}, batched=True)[1]) is batches


@pytest.mark.parametrize(("parts", "batched"), [(RECORDS, False), ({"parse:ParseExampleV2": 0.9}, True)])
def test_else_the_function_itself_is_to_be_cheaper(parts: Mapping[str, float], batched: bool) -> None:
    assert "ake ParseExampleV2" in said(parts, batched)[1]


@pytest.mark.parametrize(("op", "images"), [("DecodeJpeg", True), ("ResizeBilinear", True), ("ReadFile", False)])
def test_smaller_images_are_for_images(op: str, images: bool) -> None:
    sentence, action = said({f"x:{op}": 0.8}, batched=True)
    assert f"most of it in {op}" in sentence and ("smaller images" in action) == images
