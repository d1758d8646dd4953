"""Positions, comments that switch rules off, broken files, selection, and that every rule explains
itself.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from outpace.lint import RULES, Edit, find_files, lint_file, lint_text
from outpace.lint.runner import select_messages
from outpace.model import NotFoundError, UsageError

ROOT = Path(__file__).parents[3]
HEAD = "import tensorflow as tf\n"


def edited(text: str, edits: list[Edit]) -> str:
    """The text with the edits made, the last first."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column), reverse=True):
        assert edit.line == edit.end_line
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column] + edit.text + line[edit.end_column :]
    return "\n".join(lines)


def test_there_are_31_rules_and_each_says_why_with_a_source() -> None:
    assert len(RULES) == 32
    for rule in RULES.values():
        assert re.fullmatch(r"(DS|JX|LP|TF|PF|KR)\d{3}", rule.id)
        assert "https://" in rule.reference
        assert rule.fix.endswith((".", ")"))
        assert rule.why.endswith(".")
        assert rule.harmless and not rule.harmless.endswith(".")


def test_every_rule_is_documented() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([A-Z]{2}\d{3})` \|", page, re.MULTILINE)) == sorted(RULES)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("ds = tf.data.Dataset.range(9).batch(2).shuffle(3)", "shuffle"),
        ("ds = (tf.data.Dataset.range(9)\n  .batch(2)\n  .shuffle(3))", "shuffle"),
        ("größe = 'ä'; ds = tf.data.Dataset.range(9).batch(2).shuffle(3)", "shuffle"),
        ("\tds = tf.data.Dataset.range(9).batch(2).shuffle(3)".lstrip(), "shuffle"),
    ],
)
def test_a_message_marks_the_method_it_is_about(text: str, marked: str) -> None:
    (message,) = (item for item in lint_text(HEAD + text) if item.rule == "DS109")
    line = (HEAD + text).splitlines()[message.line - 1]
    assert line[message.column - 1 : message.end_column - 1] == marked


LATE = "ds = tf.data.Dataset.range(9).batch(2).shuffle(3)"


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        (f"{LATE}  # outpace: ignore[DS109]", True),
        (f"{LATE}  # outpace: ignore", True),
        (f"{LATE}  # outpace:ignore[ds101, ds109]", True),
        (f"# outpace: ignore[DS109]\n{LATE}", True),
        ("ds = (tf.data.Dataset.range(9)\n  .batch(2)\n  .shuffle(3)  # outpace: ignore[DS109]\n)", True),
        (f"{LATE}  # outpace: ignore[DS108]", False),
        (f"{LATE}\n# outpace: ignore[DS109]", False),
        (f"{LATE}; text = '# outpace: ignore[DS109]'", False),
    ],
)
def test_comments_switch_rules_off(text: str, silent: bool) -> None:
    assert ("DS109" not in {message.rule for message in lint_text(HEAD + text)}) is silent


def test_a_broken_file_is_one_sentence_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import tensorflow as tf\nfor x in\n")
    with pytest.raises(UsageError, match=r"broken\.py:2:\d+ cannot be parsed: invalid syntax"):
        lint_file(str(path))
    path.write_bytes(b"x = '\xff'\n")
    with pytest.raises(UsageError, match="no readable Python text"):
        lint_file(str(path))
    path.write_text("x = 1\0")
    with pytest.raises(UsageError, match="cannot be parsed"):
        lint_file(str(path))
    with pytest.raises(NotFoundError):
        lint_file(str(tmp_path / "missing.py"))


def test_a_declared_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\nimport tensorflow as tf\nn = '\xe4'; " + LATE.encode() + b"\n")
    messages, lines = lint_file(str(path))
    assert [message.rule for message in messages] == ["DS109"]
    assert lines[2][messages[0].column - 1 :].startswith("shuffle")


def test_folders_are_searched_for_python_files(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "sub/__pycache__/c.py", ".hidden/d.py", "venv/e.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert find_files([str(tmp_path)]) == [str(tmp_path / "a.py"), str(tmp_path / "sub" / "b.py")]
    assert find_files([str(tmp_path / "notes.txt")]) == [str(tmp_path / "notes.txt")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no Python file"):
        find_files([str(tmp_path / "empty")])


OFF = "options.experimental_optimization.inject_prefetch = False\n"


def test_rules_are_selected_by_the_start_of_their_name() -> None:
    messages = lint_text(HEAD + "@tf.function\ndef f(x): print(x)\n" + LATE)
    assert {message.rule for message in messages} == {"TF201", "DS109"}
    assert {message.rule for message in select_messages(messages, ["DS"], [])} == {"DS109"}
    assert {message.rule for message in select_messages(messages, [], ["DS109"])} == {"TF201"}
    with pytest.raises(UsageError, match="no rule 'XX'"):
        select_messages(messages, ["XX"], [])


@pytest.mark.parametrize(
    "text",
    [
        "ds = tf.data.Dataset.range(9).interleave(\n    tf.data.TFRecordDataset\n)",
        "ds = tf.data.Dataset.range(9).interleave(\n    tf.data.TFRecordDataset,\n)",
        "ds = tf.data.Dataset.range(9).interleave(lambda x: (tf.data.TFRecordDataset(x)))",
        "ds = tf.data.Dataset.range(9).interleave(tf.data.TFRecordDataset, deterministic=False)",
        "ds = tf.data.Dataset.range(9).interleave(tf.data.TFRecordDataset)",
        f"{OFF}model.fit((tf.data.Dataset.range(9).batch(32)))",
        "model.compile('adam', run_eagerly=True)",
        f"{OFF}ä = tf.data.Dataset.range(9).map(lambda ö: ö + 1, 2).batch(32); model.fit(ä)",
    ],
)
def test_an_edit_can_be_made_as_it_stands(text: str) -> None:
    before = lint_text(HEAD + text)
    edits = {message.rule: message.edit for message in before if message.edit is not None}
    assert edits or text.endswith(",\n)")
    after = edited(HEAD + text, list(edits.values()))
    ast.parse(after)
    assert not {message.rule for message in lint_text(after)} & set(edits)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# -*- coding: rot13 -*-\nimport os\n", "no readable Python text"),
        (b"# -*- coding: nonsense -*-\nimport os\n", "no readable Python text"),
        (b"x = 1\0\n", "cannot be parsed"),
        (b"\xff\xfe\x00", "no readable Python text"),
        (b"x = " + b"-" * 40_000 + b"1\n", "cannot be (checked|parsed)"),
        (b"x = " + b"(" * 150 + b"1" + b")" * 150 + b"\n", None),
        (b"x = " + b"(" * 5000 + b"1" + b")" * 5000 + b"\n", "cannot be (checked|parsed)"),
        (b"x = a" + b".b()" * 20_000 + b"\n", "nested too deeply"),
        (b"x = " + b"1 + " * 20_000 + b"1\n", "nested too deeply"),
        (b"if x:\n" + b"".join(b" " * n + b"if x:\n" for n in range(1, 99)) + b" " * 99 + b"pass\n", None),
        (b"", None),
        (b"\xef\xbb\xbfimport os\r\n", None),
    ],
)
def test_an_odd_file_is_checked_or_refused_in_a_sentence(content: bytes, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(content)
    if said is None:
        assert lint_file(str(path))[0] == []
        return
    with pytest.raises(UsageError, match=said) as error:
        lint_file(str(path))
    assert str(path) in str(error.value) and str(error.value).endswith(".")
