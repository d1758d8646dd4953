"""Advice on programs that are described by hand: it comes where it fits, by its formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outpace.model import TableView
from outpace.tune.optimisations.advice import PRACTICES, Advice, advice_on, least_bandwidth, listed
from outpace.tune.optimisations.facts import Facts, Layer
from outpace.tune.pages.tuning import advice_section

WIDE = Layer("wide", "Conv2D", (3, 3, 64, 128))
POINT = Layer("point", "Conv2D", (1, 1, 128, 64))
HEAD = Layer("head", "Dense", (64, 10))
IMAGES = Facts(layers=(WIDE, POINT, Layer("flat", "Flatten"), HEAD), parameters=83_000, parameter_bytes=332_000)
TEXT = Facts(layers=(Layer("words", "Embedding"), HEAD), parameters=5_000, parameter_bytes=20_000)


def on(facts: Facts, name: str) -> Advice | None:
    found = [advice for advice in advice_on(facts) if advice.id == name]
    assert len(found) < 2
    return found[0] if found else None


def said(facts: Facts, name: str) -> str:
    advice = on(facts, name)
    assert advice is not None
    assert advice.title and advice.reason.endswith(".") and advice.sentence.endswith(".") and advice.source
    return advice.sentence


def test_each_practice_has_a_name_of_its_own() -> None:
    assert len({each.id for each in PRACTICES}) == len({each.title for each in PRACTICES}) == len(PRACTICES)


def test_separable_convolutions_have_fewer_weights() -> None:
    assert pytest.approx(8.41, abs=0.01) == (9 * 64 * 128) / (9 * 64 + 64 * 128)
    separable = "1 Conv2D layer (wide) could be SeparableConv2D, with 8.4 times fewer weights."
    assert said(IMAGES, "depthwise_separable") == separable


@pytest.mark.parametrize("layers", [(HEAD,), (POINT,), (replace(WIDE, groups=64),), (replace(WIDE, kernel=(3, 3, 64, 1)),)])
def test_no_advice_on_convolutions_that_are_cheap_already(layers: tuple[Layer, ...]) -> None:
    assert on(Facts(layers=layers), "depthwise_separable") is None


def test_smaller_models_pay_at_inference() -> None:
    assert on(Facts(), "pruning") is None
    assert on(Facts(), "quantisation") is None
    assert on(TEXT, "distillation") is None
    assert said(TEXT, "pruning").startswith("The kernels of 1 layer could be pruned")
    assert "take 19.5 KiB, and would take 4.88 KiB in 8 bits" in said(TEXT, "quantisation")
    assert "2,000,000 trainable parameters" in said(replace(TEXT, parameters=2_000_000), "distillation")


def test_several_devices_pay_from_a_bandwidth_on() -> None:
    for devices in (2, 5, 64):  # where a step takes as long as on one
        sent = 2 * (devices - 1) / devices * 4e8
        assert 0.1 / devices + sent / least_bandwidth(0.1, 4e8) == pytest.approx(0.1)
    facts = Facts(parameters=1, parameter_bytes=400_000_000, step_seconds=0.1, gpus=4, input_bound=False)
    sentence = said(facts, "distribution")
    assert sentence.startswith("4 GPUs are visible, and the model trains on one.")
    assert "links carry more than 7.45 GiB/s" in sentence
    assert "more than 2 * 381 MiB in the time of one step" in said(replace(facts, step_seconds=None), "distribution")
    assert said(replace(facts, gpus=0), "distribution").startswith("No GPU is visible here.")


def test_several_devices_would_wait_for_a_slow_input() -> None:
    facts = Facts(parameters=1, parameter_bytes=400, step_seconds=0.1, input_bound=True)
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
    layers = tuple(Layer(name, "Conv2D", channels_first=name < "c") for name in "abc")
    assert said(Facts(layers=layers), "channels_last") == "Channels come first in 2 layers (a, b)."
    assert on(IMAGES, "channels_last") is None


def test_mixed_precision_where_nothing_computes_in_16_bits() -> None:
    assert said(IMAGES, "mixed_precision").startswith("3 layers compute in float32: keras.mixed_precision.")
    half = Layer("half", "Dense", (64, 10), dtype="bfloat16")
    assert on(replace(IMAGES, layers=(half, HEAD)), "mixed_precision") is None  # those of the outputs stay in 32 bits
    assert on(Facts(layers=(Layer("flat", "Flatten"),)), "mixed_precision") is None


def test_the_input_is_spoken_of_by_its_stage() -> None:
    facts = Facts(casts_early="map(load) at train.py:3", keeps_order="map(read) at train.py:2", batches_between=True)
    assert said(facts, "keep_uint8").startswith("map(load) at train.py:3 casts bytes to floats and then moves pixels")
    assert said(facts, "any_order").startswith("map(read) at train.py:2 waits for its slowest call")
    assert "jax.device_put" in said(facts, "batches_ahead")


def test_metrics_are_counted() -> None:
    assert on(IMAGES, "metrics") is None
    assert "updates 2 metrics besides the loss (AUC, Mean)" in said(Facts(metrics=("AUC", "Mean")), "metrics")


def test_a_program_of_which_nothing_is_known_gets_none() -> None:
    assert advice_on(Facts()) == ()


def test_the_section_has_a_row_for_each() -> None:
    assert advice_section(()) is None
    found = advice_on(IMAGES)
    rows = advice_section(found)
    assert isinstance(rows, TableView)
    assert [row["practice"] for row in rows.table.records()] == [advice.title for advice in found]
    assert {"depthwise_separable", "distribution", "mixed_precision", "pruning", "quantisation"} == {
        advice.id for advice in found
    }


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
