"""The page about the memory of programs."""

from __future__ import annotations

from outpace import api
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import opened


def test_the_page_begins_with_the_program_that_needs_most() -> None:
    page = opened("jax_h100_sample_often").program_memory()
    assert page.headline.startswith(
        "jit_train_step(116517) needs 2.95 GiB at its peak, in input_add_reduce_fusion: 2.71 GiB are "
    )
    programs = list(page.table("programs").records())
    assert [row["peak_bytes"] for row in programs] == sorted((row["peak_bytes"] for row in programs), reverse=True)
    buffers = [row for row in page.table("buffers").records() if row["program"] == programs[0]["program"]]
    assert [row["size_bytes"] for row in buffers[:200]] == sorted((row["size_bytes"] for row in buffers[:200]), reverse=True)
    assert buffers[0]["kind"] == "temporary" and buffers[0]["source"].endswith("sample_often.py:23")
    assert sum(row["share"] for row in buffers) == 1.0 or abs(sum(row["share"] for row in buffers) - 1) < 1e-9
    assert buffers[-1]["op"].endswith("smaller ones)") and len(buffers) == 201


def test_an_argument_has_its_name_in_the_caller() -> None:
    rows = opened("jax_h100_fft_odd").program_memory().table("buffers").records()
    assert any(row["kind"] == "donated argument" and row["op"].startswith("dynamic_donate['rest']") for row in rows)


def test_a_profile_without_programs_says_what_to_do() -> None:
    space = SpaceBuilder("vm")
    space.plane("/host:CPU").line("python").event("train", 0, 1000)
    page = api.Profile(Run.from_traces([read_trace(space.to_bytes(), "vm")])).program_memory()
    assert page.unavailable is not None and "holds no compiled program" in page.unavailable.reason
