import json
import re
from pathlib import Path

import pytest
from report_samples import HOSTILE_NAMES, hostile, op_table, realistic

from outpace.model import Unit
from outpace.report import json_
from outpace.report.text import valid


def strict(text: str):
    def refuse(constant):
        raise AssertionError(f"not JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("make", [realistic, hostile, lambda: realistic(0, 0)])
def test_it_is_strict_json_in_valid_utf_8(make):
    text = json_.render(make())
    assert strict(text.encode("utf-8").decode("utf-8"))["schema"] == 1


def test_values_are_exact_and_missing_ones_null():
    report = realistic()
    ops = strict(json_.render(report))["tools"]["ops"]["tables"]["ops"]
    names = [c["name"] for c in ops["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in ops["rows"]]
    assert rows[0]["node_id"] == 2**64 - 1
    assert rows[0]["total_ps"] == int(op_table()["total_ps"][0])
    assert rows[0]["eager"] is True
    assert rows[3]["intensity"] is None  # NaN
    assert rows[4]["intensity"] is None  # infinity


def test_names_are_whole_and_valid():
    rows = strict(json_.render(hostile()))["tools"]["hostile"]["tables"]["rows"]["rows"]
    assert [r[0] for r in rows] == [valid(n) for n in HOSTILE_NAMES]
    assert max(len(r[0]) for r in rows) == 1_000_000
    assert rows[0][3] == -4
    assert rows[1][1] is None


def test_findings_carry_their_proof():
    finding = strict(json_.render(realistic()))["findings"][0]
    assert finding["saving"]["low"] == 18.2e9
    assert finding["threshold"]["value"] == 0.2
    assert finding["evidence"][0]["table"] == "average_step"
    assert strict(json_.render(hostile()))["findings"][0]["saving"]["high"] is None


def test_unavailable_and_hidden_tables_are_there():
    tools = strict(json_.render(realistic()))["tools"]
    assert tools["memory"]["unavailable"]["remedy"].startswith("Capture")
    assert tools["overview"]["unavailable"] is None
    assert tools["tf_data"]["tables"]["nothing"]["rows"] == []
    assert len(tools["tf_data"]["tables"]["nothing"]["columns"]) == 2


def documented() -> str:
    return (Path(__file__).parents[3] / "docs" / "json-schema.md").read_text(encoding="utf-8")


def keys_of(value) -> set[str]:
    """Keys of every object in `value`, without the names of tools and tables."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    named = [v for k in ("tools", "tables") if k in value for v in value[k].values()]
    rest = [v for k, v in value.items() if k not in ("tools", "tables")]
    return set(value) | keys_of(named) | keys_of(rest)


def test_every_field_and_unit_is_documented():
    words = set(re.findall(r"`\"?([a-z_]+)\"?`", documented()))
    assert keys_of(json_.document(realistic())) - words == set()
    assert {u.value for u in Unit if u.value} - words == set()


def test_the_documented_example_has_the_real_shape():
    example = strict(re.search(r"```json\n(.*?)```", documented(), re.DOTALL).group(1))
    real = json_.document(realistic())
    assert set(example) == set(real)
    assert set(example["tools"]["overview"]) == set(real["tools"]["overview"])
    table = example["tools"]["overview"]["tables"]["average_step"]
    assert set(table) == set(real["tools"]["overview"]["tables"]["average_step"])
