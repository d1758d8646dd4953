"""Advice on programs that are described by hand: it comes only where it fits, and its numbers follow from the formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outpace.model import Rows
from outpace.tune.optimisations.advice import Advice, advice_on, least_bandwidth, listed, scaled, separable, whole
from outpace.tune.optimisations.facts import Facts, Layer
from outpace.tune.pages.tuning import advice_section

LAST: dict[str, Any] = {"data_format": "channels_last", "groups": 1}
WIDE = Layer("wide", "Conv2D", LAST, (3, 3, 64, 128), (10, 10, 128))
POINT = Layer("point", "Conv2D", LAST, (1, 1, 128, 64), (10, 10, 64))
HEAD = Layer("head", "Dense", {}, (64, 10), (10,))
IMAGES = Facts(
    layers=(WIDE, POINT, Layer("flat", "Flatten", {}, None, (6400,)), HEAD), parameters=83_000, parameter_bytes=332_000
)
TEXT = Facts(layers=(Layer("words", "Embedding", {}, None, (20, 8)), HEAD), parameters=5_000, parameter_bytes=20_000)


def on(facts: Facts, name: str) -> Advice | None:
    found = [advice for advice in advice_on(facts) if advice.id == name]
    assert len(found) < 2
    return found[0] if found else None


def said(facts: Facts, name: str) -> str:
    advice = on(facts, name)
    assert advice is not None
    assert advice.title and advice.reason.endswith(".") and advice.sentence.endswith(".") and advice.source
    return advice.sentence


def test_work_is_counted_per_place_of_the_output() -> None:
    assert WIDE.work == 100 * 9 * 64 * 128
    assert HEAD.work == 640
    assert Layer("first", "Conv2D", {"data_format": "channels_first"}, (3, 3, 4, 8), (8, 5, 6)).positions == 30
    assert Layer("text", "Conv1D", LAST, (3, 4, 8), (None, 8)).work is None
    assert Layer("subclassed", "Conv2D", LAST, (3, 3, 4, 8)).work is None


def test_separable_convolutions_and_the_most_that_they_save() -> None:
    assert (whole(WIDE), separable(WIDE)) == (73_728, 9 * 64 + 64 * 128)
    assert (WIDE.work, POINT.work, HEAD.work) == (7_372_800, 819_200, 640)
    left = 8_192_640 - 100 * (73_728 - 8_768)
    sentence = said(IMAGES, "depthwise_separable")
    assert sentence.startswith("1 Conv2D layer (wide) could be SeparableConv2D, with 8.4 times fewer weights")
    assert (
        f"of the 8,192,640 multiply-adds per example that convolutions and dense layers make in the forward pass, {left:,} would be left"
        in sentence
    )
    assert sentence.endswith("save 79% of its time at most, if time follows them.")
    assert "if time follows them, 7.93 ms of 10.0 ms." in said(replace(IMAGES, step_seconds=0.010), "depthwise_separable")


def test_separable_convolutions_without_shapes_have_no_share() -> None:
    sentence = said(replace(IMAGES, layers=(replace(WIDE, output=None), HEAD)), "depthwise_separable")
    assert sentence.endswith("with 8.4 times fewer weights.")


@pytest.mark.parametrize(
    "layers", [(HEAD,), (POINT,), (replace(WIDE, config={**LAST, "groups": 64}),), (replace(WIDE, kernel=(3, 3, 64, 1)),)]
)
def test_no_advice_on_convolutions_that_are_cheap_already(layers: tuple[Layer, ...]) -> None:
    assert on(Facts(layers=layers), "depthwise_separable") is None


def test_smaller_models_pay_at_inference() -> None:
    assert on(Facts(), "pruning") is None
    assert on(Facts(), "quantisation") is None
    assert on(TEXT, "distillation") is None
    assert said(TEXT, "pruning").startswith("The kernels of 1 layer could be pruned")
    assert "take 19.5 KiB, and would take 4.88 KiB in 8 bits" in said(TEXT, "quantisation")
    assert "2,000,000 trainable parameters" in said(replace(TEXT, parameters=2_000_000), "distillation")


def test_the_scaling_model() -> None:
    assert scaled(0.1, 1e9, 1, 1e9) == 0.1
    assert scaled(0.1, 4e8, 2, 1e10) == pytest.approx(0.05 + 0.04)
    assert scaled(0.1, 4e8, 4, 1e10) == pytest.approx(0.025 + 0.06)
    for devices in (2, 5, 64):
        assert scaled(0.1, 4e8, devices, least_bandwidth(0.1, 4e8)) == pytest.approx(0.1)


def test_several_devices_pay_from_a_bandwidth_on() -> None:
    facts = Facts(parameter_bytes=400_000_000, step_seconds=0.1, gpus=4, input_bound=False)
    sentence = said(facts, "distribution")
    assert sentence.startswith("4 GPUs are visible, and the model trains on one.")
    assert "links carry more than 7.45 GiB/s" in sentence
    assert "4 devices would be 1.18 times at 9.31 GiB/s and 3.23 times at 93.1 GiB/s as fast" in sentence
    assert "more than 2 * 381 MiB in the time of one step" in said(replace(facts, step_seconds=None), "distribution")
    assert said(replace(facts, gpus=0), "distribution").startswith("No GPU is visible here.")


def test_several_devices_would_wait_for_a_slow_input() -> None:
    facts = Facts(parameter_bytes=400, step_seconds=0.1, input_bound=True)
    assert on(facts, "distribution") is None
    assert "would wait for it" in said(replace(facts, gpus=2), "distribution")
    assert on(replace(facts, gpus=2, replicas=2), "distribution") is None


def test_dali_only_where_a_gpu_waits_for_jpeg_files() -> None:
    facts = Facts(gpus=1, input_bound=True, decodes_jpeg=True)
    assert "decodes JPEG files on the CPU" in said(facts, "dali")
    for change in ({"gpus": 0}, {"input_bound": False}, {"input_bound": None}, {"decodes_jpeg": False}):
        assert on(replace(facts, **change), "dali") is None


def test_unrolling_only_where_calls_of_several_steps_drive_a_gpu() -> None:
    assert "over the 8 steps of a call" in said(Facts(gpus=1, steps_per_call=8), "unrolled_steps")
    assert on(Facts(gpus=1), "unrolled_steps") is None
    assert on(Facts(steps_per_call=8), "unrolled_steps") is None


def test_layers_with_channels_first_are_named() -> None:
    first = {"data_format": "channels_first"}
    layers = (Layer("a", "Conv2D", first), Layer("b", "MaxPooling2D", first), Layer("c", "GlobalAveragePooling2D", first))
    assert said(Facts(layers=layers), "channels_last") == (
        "Channels come first in 3 layers (a, b, c). On a CPU Keras puts 2 transposes around 1 pooling layer of them."
    )
    assert said(Facts(layers=layers[:1]), "channels_last") == "Channels come first in 1 layer (a)."
    assert on(IMAGES, "channels_last") is None


def test_metrics_are_counted() -> None:
    assert on(IMAGES, "metrics") is None
    assert "updates 2 metrics besides the loss (AUC, Mean)" in said(Facts(metrics=("AUC", "Mean")), "metrics")


def test_a_program_of_which_nothing_is_known_gets_nothing_but_the_scaling_model() -> None:
    assert [advice.id for advice in advice_on(Facts())] == ["distribution"]


def test_the_section_has_a_row_for_each() -> None:
    assert advice_section(()) is None
    found = advice_on(IMAGES)
    rows = advice_section(found)
    assert isinstance(rows, Rows)
    assert [row["practice"] for row in rows.table.records()] == [advice.title for advice in found]
    assert {"depthwise_separable", "distribution", "pruning", "quantisation"} == {advice.id for advice in found}


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
