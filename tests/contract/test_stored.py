"""A report as JSON: it follows its schema, and everything can be made from it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from outpace import api
from outpace.cli import app
from outpace.model import NotFoundError, OutpaceError, ProfileError, Report, UsageError
from outpace.report import csv_, html, json_, json_reader, terminal
from tests.support import SOME, opened, profile_path

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=SOME)
def report(request: pytest.FixtureRequest) -> Report:
    return opened(request.param).report()


def test_it_follows_the_schema(report: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json_.render(report)))


def test_everything_is_made_from_it_again(report: Report, tmp_path: Path) -> None:
    again = json_reader.decode_report(json.loads(json_.render(report)))
    assert json_.render(again) == json_.render(report)
    assert html.render(again) == html.render(report)
    assert terminal.render(again, width=100, details=True) == terminal.render(report, width=100, details=True)
    first, second = (csv_.write(each, tmp_path / name) for each, name in ((report, "a"), (again, "b")))
    assert [(p.name, p.read_bytes()) for p in first] == [(p.name, p.read_bytes()) for p in second]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_line_reads_what_it_printed(tmp_path: Path) -> None:
    profile, file = str(profile_path("keras_fit")), tmp_path / "report.json"
    file.write_text(run("report", profile, "--json"), encoding="utf-8")
    assert run("report", str(file), "--json") == file.read_text(encoding="utf-8")
    assert run("report", str(file), "--width", "100") == run("report", profile, "--width", "100")
    run("report", profile, "--html", str(tmp_path / "a.html"))
    run("report", str(file), "--html", str(tmp_path / "b.html"))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    alone = json.loads(run("report", str(file), "--tool", "tf_data", "--json"))
    assert list(alone["tools"]) == ["tf_data"]


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(key)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (without("schema"), ProfileError, "is no report of Outpace"),
        (lambda document: document.update(schema=1), ProfileError, "has schema 1, and this version of Outpace reads 2"),
        (without("headline"), ProfileError, "is damaged: TypeError: Report misses the argument 'headline'"),
        (lambda document: document["tools"]["overview"].update(tables={}), ProfileError, "is damaged"),
        (lambda document: document.update(tools={"overview": 3}), ProfileError, "is damaged"),
    ],
)
def test_another_file_is_refused_in_a_sentence(
    change: Callable[[dict[str, Any]], None], kind: type[OutpaceError], says: str, tmp_path: Path
) -> None:
    document = json_.encode_report(opened("keras_fit").report(["overview"]))
    change(document)
    (tmp_path / "report.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(kind, match=says):
        api.stored(tmp_path / "report.json")


def test_json_of_other_programs_is_named_as_before(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "op"}]}', encoding="utf-8")
    result = CliRunner().invoke(app, ["report", str(tmp_path / "trace.json")])
    assert isinstance(result.exception, ProfileError)
    assert "a Chrome trace (JSON)" in str(result.exception)
    pretty = json.dumps(json_.encode_report(opened("keras_fit").report(["overview"])), indent=2)
    (tmp_path / "pretty.json").write_text(pretty, encoding="utf-8")
    assert "Steady step time" in run("report", str(tmp_path / "pretty.json"))


def test_what_is_no_json_or_not_there_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{", encoding="utf-8")
    with pytest.raises(ProfileError, match="is no JSON"):
        api.stored(tmp_path / "report.json")
    with pytest.raises(NotFoundError, match="cannot be read"):
        api.stored(tmp_path / "missing.json")
    (tmp_path / "report.json").write_text(json_.render(opened("keras_fit").report(["overview"])), encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds no page of pod. There are: overview\."):
        api.stored(tmp_path / "report.json", ["pod"])
