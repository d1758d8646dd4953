"""`outpace mcp` as clients use it: over stdio, with the SDK's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from bench.agents import ask
from outpace.mcp.answers import RunsAnswer
from outpace.mcp.size_limit import BYTES_PER_TOKEN, MAX_TOKENS
from tests.integration.programs import needs_tensorflow

KERAS = """
import numpy as np, keras, tensorflow as tf
x, y = np.zeros((320, 8), "float32"), np.zeros((320, 1), "float32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * 2.0, b)).batch(8)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, epochs=60, verbose=2)
open("written.txt", "w").write("by the script")
"""


def session(folders: tuple[str, ...], *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """(the server's tools, the results of some calls)."""

    async def asked() -> tuple[list[Any], list[Any]]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "outpace", "mcp", *folders], cwd=ask.ROOT)
        async with Client(stdio_client(server)) as client:
            return (await client.list_tools()).tools, [await client.call_tool(*call) for call in calls]

    tools, results = anyio.run(asked)
    return tools, results


def test_ten_of_ten_questions_are_answered() -> None:
    rows = ask.graded()
    assert len(rows) == 10
    assert not [(row.question, row.missing) for row in rows if row.missing]
    assert sum(not row.missing_in_report for row in rows) == 3  # bench/agents/README.md says so
    assert max(row.longest for row in rows) <= MAX_TOKENS * BYTES_PER_TOKEN


def test_tools_are_read_only_and_answers_fit_their_schemas() -> None:
    profile = str(ask.PROFILES / "custom_loop")
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("runs", {}),
        ("verdict", {"run": "custom_loop"}),
        ("tables", {"run": "custom_loop", "tool": "overview"}),
        ("table", {"run": "custom_loop", "table": "overview.steps"}),
        ("explain", {"run": "custom_loop"}),
        ("lint", {"path": "train_sounds.py"}),
        ("compare", {"before": "custom_loop", "after": "nothing"}),
        ("tune_dry_run", {"script": "train_sounds.py"}),
    )
    tools, results = session((profile, "examples"), *calls)
    known = {tool.name: tool for tool in tools}
    assert set(known) == {name for name, _ in calls}
    assert all(tool.annotations.read_only_hint and not tool.annotations.destructive_hint for tool in tools)
    for (name, _), result in zip(calls, results, strict=True):
        assert not result.is_error
        jsonschema.validate(result.structured_content, known[name].output_schema)
        assert json.loads(result.content[0].text) == result.structured_content
        abstains = name in ("compare", "tune_dry_run")
        assert result.structured_content["abstained"] == abstains == bool(result.structured_content["reason"])


def test_a_question_that_fails_has_the_same_shape() -> None:
    from outpace.mcp.server import _wrap_question

    def broken() -> RunsAnswer:
        raise ValueError("embedded null byte")

    answer = _wrap_question(broken)()
    assert not answer.is_error and answer.structured_content["abstained"]
    assert answer.structured_content["reason"] == "Outpace failed here (ValueError: embedded null byte)."


@needs_tensorflow
def test_a_dry_run_starts_the_script_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(KERAS)
    (tmp_path / "broken.py").write_text("raise SystemExit('no data here')\n")
    calls = (("tune_dry_run", {"script": "train.py"}), ("tune_dry_run", {"script": "broken.py"}))
    _, (dry, broken) = session(("--run-scripts", str(tmp_path)), *calls)
    told = dry.structured_content
    assert not told["abstained"] and any("would try" in line for line in told["would_try"])
    assert broken.structured_content["abstained"] and "exit code 1" in broken.structured_content["reason"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.py", "train.py"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [((), 2, "Give the folders"), (("missing",), 4, "There is no folder missing"), (("--skill",), 0, "")],
)
def test_the_command(tmp_path: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    command = [sys.executable, "-m", "outpace", "mcp", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code and says in done.stderr
    assert done.stdout.startswith("---\nname: outpace\n") == (code == 0)


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; sys.argv = ['outpace', 'mcp', '.']; import outpace.cli; outpace.cli.main()"
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False, env=environment
    )
    assert done.returncode == 1
    assert done.stderr == "outpace: 'outpace mcp' needs the protocol's SDK: pip install 'outpace[mcp]'\n"
