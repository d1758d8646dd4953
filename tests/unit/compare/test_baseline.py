"""A side of a comparison in a file: the same afterwards, whatever it holds; and what is no baseline is told in a sentence."""

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
from outpace.compare import Side, baseline, baseline_page, compare, places
from outpace.compare.evidence import Machine
from outpace.compare.side import BESIDE, Capture
from outpace.model import Category, NotFoundError, OutputError, ProfileError, UsageError
from outpace.report import json_, terminal
from tests.strange import STRANGE
from tests.support import opened, profile_path
from tests.unit.compare.sides import program, side, sides
from tests.unit.compare.test_compare import rng
from tests.unit.compare.test_lines import sampled


def simulated(captures: int = 3, seed: int = 2) -> Side:
    """Times are whole picoseconds, as those of profiles."""
    times = program(rng(1))
    made, _ = sides(rng(seed), times, times, captures)
    whole = [
        Capture(
            {p: np.rint(t) for p, t in c.parts.items()},
            np.rint(c.steps),
            {k: np.rint(t) for k, t in c.categories.items()},
            machine=Machine({loop: round(ns) for loop, ns in c.machine.loops.items()}, 0.25),
        )
        for c in made.captures
    ]
    return side("main", whole, cores="2", script="träin.py")


def kept(made: Side, folder: Path) -> Path:
    path = places.path_of("main", str(folder))
    baseline.save(made, path)
    return path


def assert_same(one: Side, two: Side) -> None:
    assert (one.facts, one.parts, len(one.captures)) == (two.facts, two.parts, len(two.captures))
    for a, b in zip(one.captures, two.captures, strict=True):
        assert np.array_equal(a.steps, b.steps) and a.parts.keys() == b.parts.keys()
        assert all(np.array_equal(a.parts[part], b.parts[part]) for part in a.parts)
        assert all(np.array_equal(a.categories[each], b.categories[each]) for each in Category)
        rounded = [replace(line, time=round(line.time), error=round(line.error)) for line in a.lines]
        assert rounded == list(b.lines)


@pytest.mark.parametrize("name", ["keras_fit", "tpu_v6e_inference", "jax_h200_transformer", "unicode_names"])
def test_a_profile_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    made = Side.of(name, opened(name).run)
    path = kept(made, tmp_path)
    assert_same(made, baseline.load(path))
    assert path.read_bytes() == kept(Side.of("another", opened(name).run), tmp_path / "again").read_bytes()


def test_lines_of_python_come_back(tmp_path: Path) -> None:
    made = Side.of("sampled", sampled(0.3, 0.4))
    assert made.captures[0].lines
    assert_same(made, baseline.load(kept(made, tmp_path)))


def test_several_captures_come_back(tmp_path: Path) -> None:
    made = simulated()
    part, hostile = list(made.captures[0].parts)[3], ("Host", "a\x00\u202e", "\udc80\n")
    del made.captures[1].parts[part]
    made.captures[2].parts[hostile] = made.captures[2].steps / 2 // 1
    again = baseline.load(kept(made, tmp_path), "main")
    assert_same(made, again)
    assert not again.times(part)[1].any() and again.name == "main"


def test_it_is_compared_as_what_it_was_made_of(tmp_path: Path) -> None:
    made, other = simulated(), simulated(seed=3)
    again = baseline.load(kept(made, tmp_path), "main")
    one, two = compare(made, other), compare(again, other)
    assert (one.verdict, one.ratio, one.changes) == (two.verdict, two.ratio, two.changes) and one.changes
    itself = compare(again, again)
    assert itself.ratio == 1 and not itself.own and not itself.differs


def test_times_that_are_no_whole_nanoseconds_come_back(tmp_path: Path) -> None:
    made = simulated()
    for unit in (1, 7, 1000):
        scaled = [
            Capture({p: t * unit for p, t in c.parts.items()}, c.steps * unit, {k: t * unit for k, t in c.categories.items()})
            for c in made.captures
        ]
        path = kept(side("main", scaled), tmp_path / str(unit))
        assert_same(baseline.load(path), side("main", scaled))
        assert f'"unit_ps":{unit},' in path.read_text(encoding="ascii")


def test_one_part_stands_on_one_line(tmp_path: Path) -> None:
    made = simulated()
    lines = kept(made, tmp_path).read_text(encoding="ascii").splitlines()
    assert sum(line.startswith(('["Host",', '["Input",')) for line in lines) == sum(part[0] != BESIDE for part in made.parts)
    assert len(lines) < len(made.parts) + len(made.captures) + 10


def changed(at: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets what stands at a path such as `captures.0.steps`."""

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
        baseline.load(path)


def test_a_part_that_is_there_twice(tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    document = json.loads(path.read_text(encoding="ascii"))
    document["parts"].append(document["parts"][0])
    path.write_text(json.dumps(document), encoding="ascii")
    with pytest.raises(ProfileError, match="a part is there twice"):
        baseline.load(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_is_a_sentence(share: float, tmp_path: Path) -> None:
    path = kept(simulated(), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ProfileError, match=r"main\.json is no JSON: "):
        baseline.load(path)


def test_flipped_bytes_are_a_sentence_or_another_baseline(tmp_path: Path) -> None:
    path = kept(simulated(1), tmp_path)
    content, chosen = path.read_bytes(), rng(3)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        damaged[int(chosen.integers(len(content)))] = int(chosen.integers(256))
        path.write_bytes(damaged)
        try:
            compare(baseline.load(path), simulated(1))
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
        baseline.load(path)
    assert len(str(told.value)) < 300 + len(str(path))


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(NotFoundError, match="cannot be read"):
            baseline.load(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(OutputError, match="The baseline cannot be written to"):
        baseline.save(simulated(1), tmp_path / "file" / "main.json")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/b", "/etc/a", "-x", ".a", "a b", "a\n", "ä", "a.json", "a" * 101, "a\x00"]
)
def test_names_that_could_lead_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a baseline"):
        places.path_of(name, str(tmp_path))


def test_names_are_found_before_paths_and_never_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert places.find("main") is None and places.find("logs/run") is None and places.find("gs://a/b.json") is None
    kept(simulated(1), Path(places.FOLDER))
    assert places.find("main") == Path(places.FOLDER, "main.json")
    assert places.find("elsewhere/main.json") == Path("elsewhere/main.json")
    (tmp_path / "main").mkdir()
    with pytest.raises(UsageError, match=r"main is a path and a baseline\. Give \./main or outpace-baselines/main\.json"):
        places.find("main")


def test_one_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    kept(simulated(1), tmp_path)
    with pytest.raises(UsageError, match="--force"):
        places.free("main", str(tmp_path))
    assert places.free("main", str(tmp_path), force=True) == places.existing("main", str(tmp_path))
    with pytest.raises(NotFoundError, match=r"There is no baseline mian in .* Did you mean 'main'\?"):
        places.existing("mian", str(tmp_path))
    with pytest.raises(NotFoundError, match="'outpace baseline save' makes one"):
        places.existing("main", str(tmp_path / "none"))


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
    every = baseline_page.all_of(str(tmp_path))
    assert every.headline == f"1 baseline in {tmp_path}." and ["damaged.json" in each for each in every.warnings] == [True]
    (row,) = every.pages[0].table("baselines").records()
    assert (row["baseline"], row["captures"], row["steps"], row["script"]) == ("main", 3, 90, "träin.py")
    made = baseline.load(path, "main")
    report = baseline_page.report_of(made)
    parts = report.pages[0].table("parts")
    assert len(parts) == len(made.parts) and float(parts["share"].sum()) == pytest.approx(1, rel=0.1)
    assert list(parts["ps"]) == sorted(parts["ps"], reverse=True)
    for text in (terminal.render(report, width=80, details=True), json_.render(report)):
        assert "90 steps of 3 captures" in text


def test_captures_of_two_programs_are_no_side() -> None:
    made = simulated(1)
    with pytest.raises(UsageError, match="they differ in cores"):
        Side.joined("main", [made, side("other", simulated(2).captures[1:], cores="8")])
    with pytest.raises(UsageError, match="A capture of main is given twice"):
        Side.joined("main", [made, made])
    assert len(Side.joined("main", [made, side("other", simulated(2).captures[1:], cores="2")]).captures) == 2
