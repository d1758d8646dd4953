"""A side of a comparison in a file: the same afterwards, whatever it holds; and what is no baseline
is told in a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace.cli import baseline as commands
from outpace.compare import Side, baseline, baseline_page, baseline_store, compare
from outpace.compare.evidence import Machine
from outpace.compare.side import STEP_SIDE, CaptureTimes
from outpace.model import Category, NotFoundError, OutputError, ProfileError, UsageError
from outpace.report import json_, terminal
from tests.strange import STRANGE
from tests.support import opened, profile_path
from tests.unit.compare.sides import program, side, sides
from tests.unit.compare.test_compare import rng
from tests.unit.compare.test_line_changes import sampled


def simulated(captures: int = 3, seed: int = 2) -> Side:
    """Times are whole picoseconds, as those of profiles."""
    times = program(rng(1))
    made, _ = sides(rng(seed), times, times, captures)
    whole = [
        CaptureTimes(
            {p: np.rint(t) for p, t in c.part_ps.items()},
            np.rint(c.step_ps),
            {k: np.rint(t) for k, t in c.category_ps.items()},
            machine=Machine({loop: round(ns) for loop, ns in c.machine.loop_ns.items()}, 0.25),
        )
        for c in made.captures
    ]
    return side("main", whole, cores="2", script="träin.py")


def kept(made: Side, folder: Path) -> Path:
    path = baseline_store.baseline_path("main", str(folder))
    baseline.write_baseline(made, path)
    return path


def assert_same(one: Side, two: Side) -> None:
    assert (one.facts, one.parts, len(one.captures)) == (two.facts, two.parts, len(two.captures))
    for a, b in zip(one.captures, two.captures, strict=True):
        assert np.array_equal(a.step_ps, b.step_ps) and a.part_ps.keys() == b.part_ps.keys()
        assert all(np.array_equal(a.part_ps[part], b.part_ps[part]) for part in a.part_ps)
        assert all(np.array_equal(a.category_ps[each], b.category_ps[each]) for each in Category)
        rounded = [replace(line, time_ps=round(line.time_ps), error_ps=round(line.error_ps)) for line in a.lines]
        assert rounded == list(b.lines)


@pytest.mark.parametrize("name", ["keras_fit", "tpu_v6e_inference", "jax_h200_transformer", "unicode_names"])
def test_a_profile_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    made = Side.from_runs(name, opened(name).run)
    path = kept(made, tmp_path)
    assert_same(made, baseline.read_baseline(path))
    assert path.read_bytes() == kept(Side.from_runs("another", opened(name).run), tmp_path / "again").read_bytes()


def test_lines_of_python_come_back(tmp_path: Path) -> None:
    made = Side.from_runs("sampled", sampled(0.3, 0.4))
    assert made.captures[0].lines
    assert_same(made, baseline.read_baseline(kept(made, tmp_path)))


def test_several_captures_come_back(tmp_path: Path) -> None:
    made = simulated()
    part, hostile = list(made.captures[0].part_ps)[3], ("Host", "a\x00\u202e", "\udc80\n")
    del made.captures[1].part_ps[part]
    made.captures[2].part_ps[hostile] = made.captures[2].step_ps / 2 // 1
    again = baseline.read_baseline(kept(made, tmp_path), "main")
    assert_same(made, again)
    assert not again.part_times(part)[1].any() and again.name == "main"


def test_it_is_compared_as_what_it_was_made_of(tmp_path: Path) -> None:
    made, other = simulated(), simulated(seed=3)
    again = baseline.read_baseline(kept(made, tmp_path), "main")
    one, two = compare(made, other), compare(again, other)
    assert (one.verdict, one.ratio, one.changes) == (two.verdict, two.ratio, two.changes) and one.changes
    itself = compare(again, again)
    assert itself.ratio == 1 and not itself.own_changes and not itself.differences


def test_times_that_are_no_whole_nanoseconds_come_back(tmp_path: Path) -> None:
    made = simulated()
    for unit in (1, 7, 1000):
        scaled = [
            CaptureTimes(
                {p: t * unit for p, t in c.part_ps.items()}, c.step_ps * unit, {k: t * unit for k, t in c.category_ps.items()}
            )
            for c in made.captures
        ]
        path = kept(side("main", scaled), tmp_path / str(unit))
        assert_same(baseline.read_baseline(path), side("main", scaled))
        assert f'"unit_ps":{unit},' in path.read_text(encoding="ascii")


def test_one_part_stands_on_one_line(tmp_path: Path) -> None:
    made = simulated()
    lines = kept(made, tmp_path).read_text(encoding="ascii").splitlines()
    assert sum(line.startswith(('["Host",', '["Input",')) for line in lines) == sum(part[0] != STEP_SIDE for part in made.parts)
    assert len(lines) < len(made.parts) + len(made.captures) + 10


def changed(at: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets what stands at a path such as `captures.0.step_ps`."""

    def change(document: dict[str, Any]) -> None:
        *way, last = [int(key) if key.isdigit() else key for key in at.split(".")]
        place: Any = document
        for key in way:
            place = place[key]
        place[last] = value

    return change


def removed(*keys: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in keys[:-1]:
            place = place[int(key) if key.isdigit() else key]
        place.pop(int(keys[-1]) if keys[-1].isdigit() else keys[-1])

    return change


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no captures": changed("captures", []),
    "captures that are none": changed("captures", {"a": 1}),
    "a capture that is none": changed("captures.0", [1]),
    "no facts": removed("facts"),
    "facts that are no texts": changed("facts.cores", 2),
    "no unit": removed("unit_ps"),
    "a unit of nothing": changed("unit_ps", 0),
    "a unit that is none": changed("unit_ps", 1.5),
    "no parts": removed("parts"),
    "no steps": changed("captures.0.steps", []),
    "a step of no time": changed("captures.0.steps.0", 0),
    "a negative step": changed("captures.0.steps.0", -1),
    "NaN": changed("captures.0.steps.0", float("nan")),
    "infinity": changed("captures.0.steps.0", float("inf")),
    "a fraction": changed("captures.0.steps.0", 1.5),
    "a huge number": changed("captures.0.steps.0", 10**30),
    "a text": changed("captures.0.steps.0", "1"),
    "yes": changed("captures.0.steps.0", True),
    "one step less": removed("captures", "0", "steps", "0"),
    "one category less": removed("captures", "0", "categories", "input"),
    "times of a category that are none": changed("captures.0.categories.input", None),
    "a negative part": changed("parts.0.3.0", -5),
    "a part of NaN": changed("parts.0.3.0", float("nan")),
    "a part of fewer steps": removed("parts", "0", "3", "0"),
    "a part of fewer captures": removed("parts", "0", "5"),
    "a part without a name": removed("parts", "0", "2"),
    "a name that is no text": changed("parts.0.2", 7),
    "a part that is none": changed("parts.0", None),
    "a part of nothing": changed("parts.0", []),
    "a capture less than parts have": removed("captures", "2"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_a_sentence(damage: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    document = json.loads(path.read_text(encoding="ascii"))
    damage(document)
    path.write_text(json.dumps(document), encoding="ascii")
    with pytest.raises(ProfileError, match=r"^\S+main.json is damaged: .*\. Save it again from its profiles\.$"):
        baseline.read_baseline(path)


def test_a_part_that_is_there_twice(tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    document = json.loads(path.read_text(encoding="ascii"))
    document["parts"].append(document["parts"][0])
    path.write_text(json.dumps(document), encoding="ascii")
    with pytest.raises(ProfileError, match="a part is there twice"):
        baseline.read_baseline(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_is_a_sentence(share: float, tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ProfileError, match=r"main\.json is no JSON: "):
        baseline.read_baseline(path)


def test_flipped_bytes_are_a_sentence_or_another_baseline(tmp_path: Path) -> None:
    path = kept(simulated(1), tmp_path)
    content, chosen = path.read_bytes(), rng(3)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        damaged[int(chosen.integers(len(content)))] = int(chosen.integers(256))
        path.write_bytes(damaged)
        try:
            compare(baseline.read_baseline(path), simulated(1))
        except ProfileError:
            refused += 1
    assert 20 < refused < 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "is no baseline of Outpace"),
        ('{"schema":2,"tools":{}}', "is no baseline of Outpace"),
        ('{"baseline":2}', "has format 2, and this version of Outpace reads 1"),
        ('{"baseline":' + '"' + "x" * 1000 + '"}', "has format 'xxx"),
        ('{"baseline":1}', "is damaged: KeyError"),
        ("[" * 100_000, "is no JSON"),
        ("1" * 10_000, "is no JSON"),
        ("\xff", "is no JSON"),
    ],
)
def test_what_is_no_baseline(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ProfileError, match=re.escape(says)) as told:
        baseline.read_baseline(path)
    assert len(str(told.value)) < 300 + len(str(path))


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(NotFoundError, match="cannot be read"):
            baseline.read_baseline(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(OutputError, match="The baseline cannot be written to"):
        baseline.write_baseline(simulated(1), tmp_path / "file" / "main.json")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/b", "/etc/a", "-x", ".a", "a b", "a\n", "ä", "a.json", "a" * 101, "a\x00"]
)
def test_names_that_could_lead_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a baseline"):
        baseline_store.baseline_path(name, str(tmp_path))


def test_names_are_found_before_paths_and_never_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        baseline_store.find_baseline("main") is None
        and baseline_store.find_baseline("logs/run") is None
        and baseline_store.find_baseline("gs://a/b.json") is None
    )
    kept(simulated(1), Path(baseline_store.FOLDER))
    assert baseline_store.find_baseline("main") == Path(baseline_store.FOLDER, "main.json")
    assert baseline_store.find_baseline("elsewhere/main.json") == Path("elsewhere/main.json")
    (tmp_path / "main").mkdir()
    with pytest.raises(UsageError, match=r"main is a path and a baseline\. Give \./main or outpace-baselines/main\.json"):
        baseline_store.find_baseline("main")


def test_one_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    kept(simulated(1), tmp_path)
    with pytest.raises(UsageError, match="--force"):
        baseline_store.require_free("main", str(tmp_path))
    assert baseline_store.require_free("main", str(tmp_path), force=True) == baseline_store.require_existing(
        "main", str(tmp_path)
    )
    with pytest.raises(NotFoundError, match=r"There is no baseline mian in .* Did you mean 'main'\?"):
        baseline_store.require_existing("mian", str(tmp_path))
    with pytest.raises(NotFoundError, match="'outpace baseline save' makes one"):
        baseline_store.require_existing("main", str(tmp_path / "none"))


@pytest.mark.parametrize(("what", "is_a"), [("pipe", "a pipe"), ("device without content", "a device"), ("folder", "a folder")])
def test_what_is_no_file_is_no_baseline(tmp_path: Path, what: str, is_a: str) -> None:
    STRANGE[what](tmp_path / "b.json")
    refused = rf"b\.json is {is_a}, and a baseline is a file\."
    with pytest.raises(UsageError, match=refused):
        commands.save("b", [str(profile_path("custom_loop"))], str(tmp_path), force=True)
    for command in (commands.show_, commands.remove):
        with pytest.raises(UsageError, match=refused):
            command("b", str(tmp_path))


def test_pages_say_what_there_is(tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    (tmp_path / "damaged.json").write_text("{", encoding="ascii")
    for name in (".hidden.json", "a.json.json", "notes.txt"):  # none of them is called like a baseline
        (tmp_path / name).write_text("{", encoding="ascii")
    every = baseline_page.build_baselines_report(str(tmp_path))
    assert every.headline == f"1 baseline in {tmp_path}." and ["damaged.json" in each for each in every.warnings] == [True]
    (row,) = every.pages[0].table("baselines").records()
    assert (row["baseline"], row["captures"], row["steps"], row["script"]) == ("main", 3, 90, "träin.py")
    made = baseline.read_baseline(path, "main")
    report = baseline_page.build_baseline_report(made)
    parts = report.pages[0].table("parts")
    assert len(parts) == len(made.parts) and float(parts["share"].sum()) == pytest.approx(1, rel=0.1)
    assert list(parts["ps"]) == sorted(parts["ps"], reverse=True)
    for text in (terminal.render(report, width=80, details=True), json_.render(report)):
        assert "90 steps of 3 captures" in text


def test_captures_of_two_programs_are_no_side() -> None:
    made = simulated(1)
    with pytest.raises(UsageError, match="they differ in cores"):
        Side.merge("main", [made, side("other", simulated(2).captures[1:], cores="8")])
    with pytest.raises(UsageError, match="A capture of main is given twice"):
        Side.merge("main", [made, made])
    assert len(Side.merge("main", [made, side("other", simulated(2).captures[1:], cores="2")]).captures) == 2
