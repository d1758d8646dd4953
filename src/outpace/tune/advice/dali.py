"""NVIDIA's data loading library."""

from __future__ import annotations

from outpace.tune.advice.advice import PROFILER, Advice
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where a GPU waits for an input that decodes JPEG files."""
    if not (facts.gpus and facts.input_bound and facts.decodes_jpeg):
        return None
    return Advice(
        "dali",
        "NVIDIA DALI",
        "The input decodes JPEG files on the CPU and is slower than the model; DALI can decode them on the GPU.",
        "It is another library with operations of its own, so the pipeline has to be rewritten; first see what caching and "
        "parallel decoding reach.",
        PROFILER,
    )
