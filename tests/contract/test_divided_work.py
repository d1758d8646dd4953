"""Answers are the same however the work is divided: among one thread or many, and with every block
as small as it can be.
"""

from __future__ import annotations

import pytest

from outpace import _native, api
from outpace.metrics.facts import step_breakdown
from outpace.report import json_
from outpace.trace import algorithms, content_reader, trace
from tests.support import opened, profile_path

pytestmark = pytest.mark.slow

NAMES = ("custom_loop", "jax_rocm_gemm", "keras_fit_multi_step", "multi_host", "tf_gpu_v100_bert", "unicode_names")


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_the_same(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json_.render(opened(name).report())
    monkeypatch.setattr(_native, "thread_count", lambda: threads)
    monkeypatch.setattr(api, "available_cpus", lambda: threads)
    monkeypatch.setattr(algorithms, "_BLOCK", 1)
    monkeypatch.setattr(content_reader, "_BLOCK", 1000)
    monkeypatch.setattr(trace, "BLOCK_EVENTS", 50)
    monkeypatch.setattr(step_breakdown, "BLOCK_EVENTS", 50)
    assert json_.render(api.open(profile_path(name)).report()) == expected
