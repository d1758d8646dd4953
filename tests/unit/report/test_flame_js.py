"""What the flame graph's script shows of a tree: merged replicas, what is drawn, found and written
into a cell.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import outpace.report
from outpace.report.labels import shorten_name

TREE = Path(outpace.report.__file__).parent / "assets" / "flame_tree.js"
pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="needs node")

ROWS = [  # id, parent, name, size
    ("a", "", "replica_1", 60),
    ("a/m", "a", "model", 50),
    ("a/m/1", "a/m", "layer_1", 20),
    ("a/m/10", "a/m", "layer_10", 30),
    ("m", "", "model", 40),
    ("m/1", "m", "layer_1", 40),
    ("n", "", "(no scope)", 300),
]


def node(script: str, rows: Sequence[tuple[str, str, str, float]] = ROWS) -> Any:
    columns = dict(zip(("ids", "parents", "names", "sizes"), map(list, zip(*rows, strict=True)), strict=True))
    program = f"{TREE.read_text(encoding='utf-8')}\nconst rows = {json.dumps(columns)};\n{script}"
    out = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True, timeout=60).stdout
    return json.loads(out)


DRAWN = """
const { root, replicas } = FlameTree.grow(rows, MERGE);
const cells = FlameTree.layout(root, 400, 0.5).map((c) => [FlameTree.path(c.one).join("/"), c.depth, Math.round(c.left), c.width, c.one.self]);
console.log(JSON.stringify([replicas, cells]));
"""


def test_replicas_add_up_and_what_has_no_name_is_last() -> None:
    replicas, cells = node(DRAWN.replace("MERGE", "true"))
    assert replicas == ["replica_1"]
    assert {path: tuple(numbers) for path, *numbers in cells} == {
        "": (0, 0, 400, 10),  # the 10 that replica_1 spends outside of the model
        "model": (1, 0, 90, 0),
        "model/layer_1": (2, 0, 60, 60),
        "model/layer_10": (2, 60, 30, 30),
        "(no scope)": (1, 90, 300, 300),
    }


def test_replicas_stand_side_by_side_on_request() -> None:
    _, cells = node(DRAWN.replace("MERGE", "false"))
    assert [path for path, *_ in cells if path.count("/") < 1] == ["", "replica_1", "model", "(no scope)"]


def test_sizes_add_up_where_a_replica_is_merged() -> None:
    _, cells = node(DRAWN.replace("MERGE", "true"))
    below = sum(width for _, depth, _, width, _ in cells if depth == 1)
    assert below == 390
    assert sum(own for *_, own in cells) == 400


def test_a_match_inside_of_a_match_counts_once() -> None:
    script = """
    const { root } = FlameTree.grow(rows, true), sum = (text) => { const f = FlameTree.search(root, text); return [f.hits.size, f.size]; };
    console.log(JSON.stringify([sum("MODEL"), sum("l"), sum("model/layer_10"), sum("none")]));
    """
    assert node(script) == [[1, 90], [3, 90], [1, 30], [0, 0]]


def test_a_zoomed_cell_takes_the_whole_width_below_what_is_around_it() -> None:
    script = """
    const { root } = FlameTree.grow(rows, true), model = root.children[0];
    console.log(JSON.stringify(FlameTree.layout(model, 90, 0.5).map((c) => [c.one.name, c.depth, c.width])));
    """
    assert node(script) == [["all", 0, 90], ["model", 1, 90], ["layer_1", 2, 60], ["layer_10", 2, 30]]


@pytest.mark.parametrize(
    ("name", "others", "room", "text"),
    [
        ("layer_1", ["layer_10", "layer_2"], 7, "layer_1"),
        ("layer_1", ["layer_10", "layer_2"], 5, "…1"),
        ("layer_10", ["layer_1", "layer_11"], 5, "…10"),
        ("layer_10", ["layer_1", "layer_11"], 2, ""),
        ("embeddings", ["transformer"], 6, "embed…"),
        ("random_uniform", ["random_normal"], 9, "random_u…"),
        ("random_uniform", ["random_normal"], 8, "…uniform"),
        ("random_uniform", ["random_normal"], 5, "…uni…"),
        ("layer_100", ["layer_101"], 4, "…100"),
        ("layer_1000", ["layer_1001"], 4, ""),
    ],
)
def test_a_name_is_cut_where_it_agrees_with_its_neighbours(name: str, others: list[str], room: int, text: str) -> None:
    assert shorten_name(name, others, room) == text
    assert node(f"console.log(JSON.stringify(FlameTree.label({json.dumps(name)}, {json.dumps(others)}, {room})))") == text


def test_the_static_picture_writes_names_as_the_script_does() -> None:
    random = Random(3)
    words = ["layer", "dropout", "self_attention", "conv2d", "block", "_1", "_10", "_", "7", "/", "é", "12"]
    names = ["".join(random.choices(words, k=random.randint(1, 4))) for _ in range(60)]
    cases = [(name, random.sample(names, 5), random.randint(0, 20)) for name in names for _ in range(10)]
    script = f"const cases = {json.dumps(cases)}; console.log(JSON.stringify(cases.map((c) => FlameTree.label(...c))));"
    assert node(script) == [shorten_name(*case) for case in cases]


def test_what_is_aside_adds_to_all_around_it_once_it_is_asked_for() -> None:
    rows = [
        *(("a", "", "a", 50), ("a/x", "a", "x", 50)),
        *(("a/y", "a", "y", 30), ("a/y/z", "a/y", "z", 30)),
        ("b", "", "b", 10),
    ]
    script = """
    rows.aside = [false, false, true, true, true];
    const sizes = (whole) => {
      const found = {};
      FlameTree.each(FlameTree.grow(rows, true, whole).root, (one) => { found[FlameTree.path(one).join("/")] = [one.size, one.self]; });
      return found;
    };
    console.log(JSON.stringify([sizes(false), sizes(true)]));
    """
    without, whole = node(script, rows)
    assert without == {"": [50, 0], "a": [50, 0], "a/x": [50, 50]}
    assert whole == {"": [90, 0], "a": [80, 0], "a/x": [50, 50], "a/y": [30, 0], "a/y/z": [30, 30], "b": [10, 10]}


def test_rows_that_are_no_tree_are_left_out() -> None:
    rows = [("a", "b", "a", 1), ("b", "a", "b", 1), ("c", "c", "c", 1), ("d", "", "d", 5), ("d", "", "again", 5)]
    _, cells = node(DRAWN.replace("MERGE", "true"), rows)
    assert [path for path, *_ in cells] == ["", "d"]


def test_twenty_thousand_nodes_draw_what_can_be_seen() -> None:
    rows = [
        ("r", "", "r", 20_000),
        *((str(i), "r" if i % 100 == 0 else str(i - 1), f"n{i}", 100 - i % 100) for i in range(20_000)),
    ]
    _, cells = node(DRAWN.replace("MERGE", "true"), rows)
    assert 400 < len(cells) < 20_000
    assert all(width >= 0.5 for _, _, _, width, _ in cells)
