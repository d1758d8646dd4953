"""A tool is found by its id and by the names that TensorBoard and XProf have for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outpace.cli import COMMANDS, app
from outpace.model import UsageError
from outpace.tools import discover_tools, require_tool

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
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
    "op_profile": "XLA programs",
    "hlo_op_profile": "XLA programs",
    "hlo_op_stats": "XLA programs",
    "roofline": "XLA programs",
    "hlo_stats": "XLA programs",
    "roofline_model": "XLA programs",
    "memory_viewer": "Memory of programs",
    "inference_profile": "Inference",
}


@pytest.mark.parametrize(("name", "title"), TENSORBOARD.items())
def test_tensorboards_names_mean_ours(name: str, title: str) -> None:
    assert require_tool(name).title.startswith(title)


@pytest.mark.parametrize("name", [*(name for name in TENSORBOARD if name.isidentifier()), "op_stats"])
def test_a_name_is_a_command_that_reports_on_the_tool(name: str) -> None:
    profile = str(PROFILES / "keras_fit")
    short = CliRunner().invoke(app, [name, profile, "--markdown"])
    long = CliRunner().invoke(app, ["report", profile, "--tool", require_tool(name).id, "--markdown"])
    assert short.exit_code == 0 and short.output == long.output


def test_the_timeline_by_its_name_elsewhere(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    done = CliRunner().invoke(app, ["trace_viewer", str(PROFILES / "keras_fit"), "--out", str(out)])
    assert done.exit_code == 0 and json.loads(out.read_text(encoding="utf-8"))["traceEvents"]


def test_a_command_is_before_a_tool_of_its_name() -> None:
    assert {tool.id for tool in discover_tools()} & set(COMMANDS) == {"explain"}
    done = CliRunner().invoke(app, ["explain", str(PROFILES / "custom_loop"), "step", "3"])
    assert done.exit_code == 0 and "Step 3 took" in done.output


def test_no_name_means_two_tools() -> None:
    names = [name for tool in discover_tools() for name in (tool.id, *tool.aliases)]
    assert len(names) == len(set(names))


def test_the_timeline_is_no_tool_and_leads_to_its_command() -> None:
    with pytest.raises(UsageError, match="outpace trace"):
        require_tool("trace_viewer")
