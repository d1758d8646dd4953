import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from outpace.model import Report, Saving, Unit
from outpace.model.text import repair_unicode
from outpace.report import json_
from tests.unit.report.report_samples import HOSTILE_NAMES, finding_bound, hostile, op_table, realistic


def strict(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"not JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("make", [realistic, hostile, lambda: realistic(0, 0)])
def test_it_is_strict_json_in_valid_utf_8(make: Callable[[], Report]) -> None:
    text = json_.render(make())
    assert strict(text.encode("utf-8").decode("utf-8"))["schema"] == 2


def test_values_are_exact_and_missing_ones_null() -> None:
    report = realistic()
    ops = strict(json_.render(report))["tools"]["ops"]["tables"]["ops"]
    names = [c["name"] for c in ops["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in ops["rows"]]
    assert rows[0]["node_id"] == 2**64 - 1
    assert rows[0]["total_ps"] == int(op_table()["total_ps"][0])
    assert rows[0]["eager"] is True
    assert rows[3]["intensity"] is None  # NaN
    assert rows[4]["intensity"] is None  # infinity


def test_names_are_whole_and_valid() -> None:
    rows = strict(json_.render(hostile()))["tools"]["hostile"]["tables"]["rows"]["rows"]
    assert [r[0] for r in rows] == [repair_unicode(n) for n in HOSTILE_NAMES]
    assert max(len(r[0]) for r in rows) == 1_000_000
    assert rows[0][3] == -4
    assert rows[1][1] is None


def test_findings_carry_their_proof() -> None:
    finding, bound = strict(json_.render(realistic()))["findings"][:2]
    saving = finding["saving"]
    assert saving["kind"] == "prediction"
    assert (saving["low"], saving["high"]) == (0.3, 0.5)
    assert (saving["low_ps"], saving["high_ps"], saving["step_ps"]) == (18e9, 30e9, 60e9)
    assert saving["base"] == "step without the profiler"
    assert saving["takes_from"] == ["input", "host_compute"]
    assert saving["assumes"].startswith("low end")
    assert finding["threshold"]["value"] == 0.2
    assert finding["evidence"][0]["table"] == "overview.average_step"
    assert (finding["certainty"], finding["effort"], finding["explains"]) == ("certain", "small", ["waits"])
    assert finding["symptom"] == "51.7% of the step time waits for input."
    assert (bound["saving"]["kind"], bound["saving"]["low"], bound["saving"]["high"]) == ("bound", 0.0, 0.052)
    assert strict(json_.render(hostile()))["findings"][0]["saving"]["takes_from"] == [repair_unicode(hostile().findings[0].id)]


def test_a_saving_without_a_base_is_a_share_alone() -> None:
    finding = dataclasses.replace(finding_bound(), saving=Saving(0.0, 0.2, ("input",), "if nothing waited"))
    saving = json_.encode_report(dataclasses.replace(realistic(), findings=(finding,)))["findings"][0]["saving"]
    assert (saving["high"], saving["low_ps"], saving["high_ps"], saving["step_ps"]) == (0.2, None, None, None)


def test_struck_findings_stand_apart_with_their_reason() -> None:
    document = strict(json_.render(realistic()))
    assert [f["id"] for f in document["struck"]] == ["thread-mode"]
    assert document["struck"][0]["struck"].endswith("the mode is set already")
    assert not any(f["struck"] for f in document["findings"])


def test_unavailable_and_hidden_tables_are_there() -> None:
    tools = strict(json_.render(realistic()))["tools"]
    assert tools["memory"]["unavailable"]["remedy"].startswith("Capture")
    assert tools["overview"]["unavailable"] is None
    assert tools["tf_data"]["tables"]["nothing"]["rows"] == []
    assert len(tools["tf_data"]["tables"]["nothing"]["columns"]) == 2


def documented() -> str:
    return (Path(__file__).parents[3] / "docs" / "json-schema.md").read_text(encoding="utf-8")


NAMED = ("tools", "tables", "colors")


def keys_of(value: Any) -> set[str]:
    """Keys of every object in `value`, without the names of tools, tables and parts of charts."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    named = [v for k in NAMED if k in value for v in value[k].values()]
    rest = [v for k, v in value.items() if k not in NAMED]
    return set(value) | keys_of(named) | keys_of(rest)


def test_every_field_and_unit_is_documented() -> None:
    words = set(re.findall(r"`\"?([a-z_]+)\"?`", documented()))
    assert keys_of(json_.encode_report(realistic())) - words == set()
    assert {u.value for u in Unit if u.value} - words == set()


def test_the_documented_example_has_the_real_shape() -> None:
    found = re.search(r"```json\n(.*?)```", documented(), re.DOTALL)
    assert found
    example = strict(found[1])
    real = json_.encode_report(realistic())
    assert set(example) == set(real)
    assert set(example["tools"]["overview"]) == set(real["tools"]["overview"])
    assert set(example["findings"][0]) == set(real["findings"][0])
    assert set(example["findings"][0]["saving"]) == set(real["findings"][0]["saving"])
    table = example["tools"]["overview"]["tables"]["average_step"]
    assert set(table) == set(real["tools"]["overview"]["tables"]["average_step"])
