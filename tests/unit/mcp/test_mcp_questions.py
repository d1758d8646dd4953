"""Questions and answers without the protocol: what may be opened, which rows come, and that no
answer is too long.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from outpace import api
from outpace.mcp import rows, skill
from outpace.mcp.answers import Cell
from outpace.mcp.folders import ServedFolders
from outpace.mcp.questions import Questions
from outpace.mcp.size_limit import MAX_TOKENS, Shape, count_tokens, render_json
from outpace.model import NotFoundError, Table, UsageError, parse_schema

PROFILES = Path(__file__).parents[2] / "data" / "profiles"
EVERY = sorted(path.name for path in PROFILES.iterdir())
FIELDS = parse_schema("""
    * name    | text  | name
    + self_ps | ps    | time
      share   | ratio | share
""")
TABLE = Table.build(
    "ops", "Ops", FIELDS, {"name": ["a/MatMul", "b/Relu", "c/MatMul"], "self_ps": [30, 10, 20], "share": [0.5, np.nan, 1 / 3]}
)


@pytest.fixture(scope="module")
def questions() -> Questions:
    return Questions(ServedFolders([str(PROFILES / name) for name in EVERY]))


def asked(answer: Shape) -> Shape:
    """The answer, which is no longer than any may be, and is JSON without NaN."""
    told = render_json(answer)
    assert count_tokens(told) <= MAX_TOKENS
    json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return answer


@pytest.mark.parametrize("name", EVERY)
def test_no_verdict_is_too_long(questions: Questions, name: str) -> None:
    answer = asked(questions.verdict(name))
    assert answer.headline and not answer.abstained
    asked(questions.tables(name))


@pytest.mark.parametrize("table", ["op_stats.ops", "tf_data.graph", "overview.steps"])
def test_pages_of_a_long_table_hold_every_row_once(questions: Questions, table: str) -> None:
    found: list[list[Cell]] = []
    while True:
        answer = asked(questions.table("tfdata_heavy", table, limit=100, offset=len(found)))
        assert answer.rows
        found += answer.rows
        assert bool(answer.more) == (len(found) < answer.total)
        if not answer.more:
            break
    assert len(found) == answer.total and len({str(row) for row in found}) == len(found)


@pytest.mark.parametrize("name", ["tfdata_heavy", "memory_heavy", "jax_h200_transformer", "multi_host"])
def test_no_table_has_rows_that_are_too_long(questions: Questions, name: str) -> None:
    for each in questions.tables(name).tables:
        answer = asked(questions.table(name, each.name, limit=100))
        assert len(answer.rows) == answer.total or (answer.rows and f"offset={len(answer.rows)}" in answer.more)


def test_rows_that_are_asked_for() -> None:
    def names(*where: str, sort: str = "") -> list[str]:
        return list(rows.select_rows(TABLE, where, sort)["name"].tolist())

    assert names() == ["a/MatMul", "b/Relu", "c/MatMul"]
    assert names(sort="self_ps") == ["a/MatMul", "c/MatMul", "b/Relu"]
    assert names(sort="-self_ps") == ["b/Relu", "c/MatMul", "a/MatMul"]
    assert names("self_ps > 1e1", "name ~ matmul", sort="self_ps") == ["a/MatMul", "c/MatMul"]
    assert names("name = b/Relu") == names("self_ps = 10") == names("self_ps <= 10.0") == ["b/Relu"]
    assert names("name != b/Relu", "share < 0.4") == ["c/MatMul"]
    assert rows.format_cells(TABLE, ("name", "share")) == [["a/MatMul", 0.5], ["b/Relu", None], ["c/MatMul", 0.333333]]
    for wrong in ("self > 1", "self_ps", "self_ps > many"):
        with pytest.raises(UsageError):
            names(wrong)
    with pytest.raises(UsageError, match="Did you mean 'self_ps'"):
        names(sort="self_p")


def test_nothing_outside_of_the_folders_is_opened(tmp_path: Path) -> None:
    served, other = tmp_path / "served", tmp_path / "other"
    for folder in (served, other):
        run = folder / "plugins" / "profile" / f"{folder.name}_run"
        run.mkdir(parents=True)
        shutil.copy(PROFILES / "custom_loop" / "vm.xplane.pb.gz", run / "vm.xplane.pb.gz")
    (other / "secret.py").write_text("import keras\n")
    (served / "train.py").write_text("import keras\n")
    (served / "plugins" / "profile" / "linked").symlink_to(other / "plugins" / "profile" / "other_run")
    (served / "plugins" / "profile" / "files").mkdir()
    (served / "plugins" / "profile" / "files" / "vm.xplane.pb.gz").symlink_to(PROFILES / "custom_loop" / "vm.xplane.pb.gz")
    (served / "linked.py").symlink_to(other / "secret.py")
    (served / "folder").symlink_to(other)
    questions = Questions(ServedFolders([str(served)]))
    found = questions.runs()
    assert [run.name for run in found.runs] == ["served_run"]
    assert not questions.verdict(found.runs[0].id).abstained and not questions.verdict("served_run").abstained
    for name in ("other_run", "linked", "files", str(other), "../other", "", "/"):
        with pytest.raises(NotFoundError):
            questions.verdict(name)
    assert not questions.lint("train.py").abstained and not questions.lint(str(served / "train.py")).abstained
    for path in ("linked.py", "../other/secret.py", str(other / "secret.py"), "folder/secret.py", "folder", "missing.py"):
        with pytest.raises(NotFoundError):
            questions.lint(path)
    with pytest.raises(NotFoundError):
        ServedFolders([str(tmp_path / "missing")])


def test_a_folder_of_scripts_is_checked_without_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "secret.py").write_text("import keras\nkeras.Model().compile('sgd', run_eagerly=True)\n")
    (tmp_path / "served" / "linked.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "served" / "train.py").write_text("import keras\n")
    answer = Questions(ServedFolders([str(tmp_path / "served")])).lint(".")
    assert "secret" not in render_json(answer) and "LP111" not in render_json(answer)


def served(folder: Path, run: str = "run") -> Path:
    """A run in a log directory."""
    place = folder / "plugins" / "profile" / run
    place.mkdir(parents=True)
    shutil.copy(PROFILES / "custom_loop" / "vm.xplane.pb.gz", place / "vm.xplane.pb.gz")
    return place


def test_a_folder_that_becomes_a_link_after_it_was_checked_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = served(tmp_path / "served"), served(tmp_path / "other")
    questions, whole = Questions(ServedFolders([str(tmp_path / "served")])), api.open

    def swapped(folder: str) -> api.Profile:
        shutil.rmtree(folder)
        run.symlink_to(other)
        return whole(folder)

    monkeypatch.setattr(api, "open", swapped)
    with pytest.raises(NotFoundError, match="a link leads to it, out of the folders"):
        questions.verdict("run")
    monkeypatch.setattr(api, "open", whole)
    with pytest.raises(NotFoundError, match="no run"):
        questions.verdict("run")


def test_names_of_runs_and_rows_are_bounded_and_on_one_line(tmp_path: Path) -> None:
    served(tmp_path, "do\nas I say \u202e")
    (run,) = Questions(ServedFolders([str(tmp_path)])).runs().runs
    assert "\n" not in run.name and "\u202e" not in run.name
    table = Table.build("ops", "Ops", FIELDS, {"name": ["\x1b\n" * 500], "self_ps": [1], "share": [0.5]})
    ((cell,),) = rows.format_cells(table, ["name"])
    assert isinstance(cell, str) and len(cell) <= 120 and cell.isprintable()


def test_letters_of_other_scripts_count_for_more() -> None:
    assert count_tokens("漢" * 30) == 3 * count_tokens("a" * 30)


def test_columns_are_told_once(questions: Questions) -> None:
    assert len(asked(questions.table("custom_loop", "overview.steps", columns=["step"] * 5000)).columns) == 1


def test_what_is_no_file_is_not_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    questions = Questions(ServedFolders([str(tmp_path)]))
    for path in ("pipe.py", "a\0b", "."):
        with pytest.raises(NotFoundError):
            questions.lint(path)


def test_a_profile_that_changes_is_read_anew(tmp_path: Path) -> None:
    run = tmp_path / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    shutil.copy(PROFILES / "custom_loop" / "vm.xplane.pb.gz", run / "vm.xplane.pb.gz")
    questions = Questions(ServedFolders([str(tmp_path)]))
    before = questions.verdict("run")
    shutil.copy(PROFILES / "tfdata_heavy" / "vm.xplane.pb.gz", run / "vm.xplane.pb.gz")
    assert questions.verdict("run") != before


def test_what_cannot_be_answered_says_why(questions: Questions) -> None:
    with pytest.raises(NotFoundError, match="no events of a GPU"):
        questions.table("custom_loop", "kernel_stats.kernels")
    with pytest.raises(UsageError, match="There are: overview"):
        questions.table("custom_loop", "overview.nothing")
    with pytest.raises(UsageError, match="There is no tool"):
        questions.tables("custom_loop", "nothing")
    with pytest.raises(UsageError, match="--run-scripts"):
        questions.tune_dry_run("train.py")


def test_the_skill_file_names_every_question() -> None:
    _, head, body = skill().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    assert fields["name"] == "outpace" and 20 < len(fields["description"]) <= 1024
    public = {name for name in vars(Questions) if not name.startswith("_")}
    assert public == {name for name in public if f"`{name}`" in body}
