"""The part of a run that is one device: every page speaks of that device, and of the memory that is
its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from outpace import api
from outpace.model import Chart, Figures
from outpace.report import json_
from outpace.timeline import Run
from outpace.timeline.allocators import parse_device_ordinal
from outpace.timeline.run_part import RunPart
from tests.support import opened

pytestmark = pytest.mark.slow

SEVERAL = ("tf_gpu_v100_bert", "jax_rocm_conv_8gpu", "tpu_v6e_inference")


def number(device: str) -> int:
    return int(device.rpartition(":")[2])


def devices(run: Run) -> list[str]:
    return [plane.name for plane in run.hosts[0].device_planes]


def told(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(tool, text) of all that its page says of the run: what columns mean, which is the same in
    each, is left out.
    """
    for tool, page in document["tools"].items():
        rows = {name: table["rows"] for name, table in page["tables"].items()}
        yield tool, json.dumps({**page, "tables": rows})


@pytest.mark.parametrize("name", SEVERAL)
def test_every_page_of_a_devices_part_speaks_of_that_device(name: str) -> None:
    run = opened(name).run
    for device in devices(run)[:3]:
        others = "|".join(str(number(each)) for each in devices(run) if each != device)
        document = json_.encode_report(api.Profile(RunPart(devices=(device,)).select_from(run)).report())
        found = {
            tool: re.findall(rf"(?i).{{0,40}}\b[gt]pu[:_](?:{others})(?!\d).{{0,20}}", text) for tool, text in told(document)
        }
        assert {tool: texts for tool, texts in found.items() if texts} == {}, device
        assert "GPU" in name or str(number(device)) in json.dumps(document["tools"]["memory_profile"])


@pytest.mark.parametrize("name", SEVERAL)
def test_its_memory_is_that_of_the_device(name: str) -> None:
    run = opened(name).run
    whole = api.Profile(run).memory_profile().table("memories")
    for device in devices(run):
        page = api.Profile(RunPart(devices=(device,)).select_from(run)).memory_profile()
        own = [row for row in whole.records() if parse_device_ordinal(row["memory"]) == number(device)]
        assert len(own) == 1 and [row["memory"] for row in page.table("memories").records()] == [own[0]["memory"]]
        for what in ("allocations", "deallocations", "capacity_bytes", "peak_bytes", "heap_bytes"):
            assert next(page.table("memories").records())[what] == own[0][what]
        for table in page.tables():
            assert "memory" not in [f.name for f in table.fields] or set(table["memory"]) <= {own[0]["memory"]}


def test_the_memory_of_the_host_is_of_no_device() -> None:
    names = (
        "GPU_4_bfc",
        "gpu_async_0",
        "3",
        "gpu_host_bfc",
        "xla_gpu_host_bfc",
        "mklcpu",
        "cpu_0",
        "host_1_x",
        "unnamed",
        "gpu4x",
    )
    assert [parse_device_ordinal(each) for each in names] == [4, 0, 3, -1, -1, -1, -1, -1, -1, -1]


@pytest.mark.parametrize("name", [*SEVERAL, "jax_h100_columns", "multi_host", "retracing"])
def test_every_memory_that_can_be_chosen_has_its_numbers(name: str) -> None:
    """The cards follow the picker of the chart: a block for each of its choices, with the numbers
    of that row, its first choice first.
    """
    page = opened(name).memory_profile()
    figures = next(section for section in page.sections if isinstance(section, Figures))
    chart = next(section for section in page.sections if isinstance(section, Chart))
    blocks = (figures, *figures.others)
    assert figures.choice == next(iter(chart.iter_choices()))[0]
    assert sorted(block.choice for block in blocks) == sorted(choice for choice, _ in chart.iter_choices())
    rows = {(row["host"], row["memory"]): row for row in page.table("memories").records()}
    for block in blocks:
        shown = {item.label: item.value for item in block.items}
        row = rows[block.choice]  # type: ignore[index]  # two
        assert (shown["Allocations"], shown["Peak in the capture"], shown["Heap"]) == (
            *(row["allocations"], row["peak_bytes"], row["heap_bytes"]),
        )
