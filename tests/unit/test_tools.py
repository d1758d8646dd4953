"""A tool is found by its id and by the names that TensorBoard and XProf have for it."""

from __future__ import annotations

import pytest

from outpace.model import UsageError
from outpace.tools import discover, find

TENSORBOARD = {
    "overview_page": "Overview",
    "overview_page@": "Overview",
    "input_pipeline_analyzer": "Input pipeline",
    "tensorflow_stats": "Op statistics",
    "framework_op_stats^": "Op statistics",
    "kernel_stats": "GPU kernels",
    "memory_profile": "Memory profile",
    "pod_viewer": "Pod viewer",
    "tf_data_bottleneck_analysis": "tf.data pipelines",
    "op_profile": "Name scopes",
    "inference_profile": "Inference",
}


@pytest.mark.parametrize(("name", "title"), TENSORBOARD.items())
def test_tensorboards_names_mean_ours(name: str, title: str) -> None:
    assert find(name).title.startswith(title)


def test_no_name_means_two_tools() -> None:
    names = [name for tool in discover() for name in (tool.id, *tool.aliases)]
    assert len(names) == len(set(names))


def test_the_timeline_is_no_tool_and_leads_to_its_command() -> None:
    with pytest.raises(UsageError, match="outpace trace"):
        find("trace_viewer")
