"""The page of a compiled program: what it is told of a neighbourhood, its text, and the vendored
layout.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.model import UsageError
from outpace.ui import programs, worker
from outpace.ui.http import Request
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site
from tests.support import profile_path

FFT = str(profile_path("jax_h100_fft_odd"))
VENDOR = Path(programs.__file__).parent / "assets" / "vendor"


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    """The profiles that this process opened are closed at the end."""
    yield
    while worker._open:
        worker._open.popitem()[1].close()


def near(op: str = "", radius: int = 2, program: str = "") -> dict[str, Any]:
    return programs.describe_neighbours(FFT, "", program, op, radius)


def test_the_longest_instruction_is_the_centre_by_default() -> None:
    found = near()
    (centre,) = (node for node in found["nodes"] if node["distance"] == 0)
    assert found["op"] == centre["op"] == "fft.35.0"
    assert centre["time_ps"] == max(node.get("time_ps", 0.0) for node in found["nodes"])
    assert centre["source"].endswith("fft_odd.py:16") and 0.8 < centre["above_share"] <= 1


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_edges_lead_from_operands_to_users_and_reach_every_instruction(radius: int) -> None:
    found = near("fft.41.0", radius)
    names = {node["op"] for node in found["nodes"]}
    reached = {"fft.41.0"}
    for _ in range(radius):
        reached |= {
            edge[other] for edge in found["edges"] for one, other in (("from", "to"), ("to", "from")) if edge[one] in reached
        }
    assert reached == names and max(abs(node["distance"]) for node in found["nodes"]) == radius
    texts = {node["op"]: node["text"] for node in found["nodes"]}
    assert all(f"%{edge['from']}" in texts[edge["to"]].partition(" = ")[2] for edge in found["edges"])
    assert all(
        edge["shape"].rstrip("…") in texts[edge["from"]].replace("{2,1,0}", "").replace("{1,0}", "") for edge in found["edges"]
    )


def test_a_fusion_has_its_parts_and_others_have_none() -> None:
    nodes = near("loop_multiply_fusion.3", 1)["nodes"]
    assert all(bool(node["parts"]) == (node["opcode"] == "fusion") for node in nodes)
    assert any(": multiply c64[" in part for node in nodes if node["op"] == "loop_multiply_fusion.3" for part in node["parts"])


def test_what_there_is_not_is_said_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"No program has an instruction 'fft\.410'"):
        near("fft.410")
    with pytest.raises(UsageError, match="There is no program 'jit_step'"):
        programs.list_program_text(FFT, "", "jit_step")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("logs")
    shutil.copytree(FFT, folder / "plugins" / "profile" / "fft")
    made = Site([str(folder)], SummaryCache(tmp_path_factory.mktemp("cache")))
    yield made
    made.close()


def test_the_addresses_of_a_program(site: Site) -> None:
    def ask(place: str, **query: str) -> Any:
        answer = site.answer(Request(f"run/{run}/program/{place}", query=query))
        return answer.status, answer.body.decode() if isinstance(answer.body, bytes) else ""

    listed = site.answer(Request("runs")).body
    assert isinstance(listed, bytes)
    (line,) = json.loads(listed)
    run = line["id"]
    assert ask("")[0] == 200 and "Text of the program" in ask("")[1]
    assert json.loads(ask("near", op="fft.41.0", radius="1")[1])["op"] == "fft.41.0"
    assert json.loads(ask("text", program="jit_train_step")[1])[0] == "HloModule jit_train_step"
    assert ask("near", radius="4") == (400, "The radius is 1 to 3.\n")
    assert ask("near", op="nothing")[0] == 400
    report = site.answer(Request(f"run/{run}/", query={"whole": "1"}))
    assert isinstance(report.body, bytes) and b'data-programs="program/"' in report.body


def test_the_layout_is_the_packages_file() -> None:
    """Without its last line, a source map that is not shipped."""
    text = (VENDOR / "dagre.min.js").read_bytes() + b"//# sourceMappingURL=dagre.min.js.map\n"
    (recorded,) = re.findall(r"\b[0-9a-f]{64}\b", (VENDOR / "README.md").read_text(encoding="utf-8"))
    assert hashlib.sha256(text).hexdigest() == recorded
