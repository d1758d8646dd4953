from collections.abc import Sequence

import numpy as np
import pytest

from outpace.model import Chart, ChartKind, Field, Table, Unit
from outpace.report import chart_data, palette
from outpace.report.terminal_charts import render_chart
from tests.unit.report.report_samples import MS, average_step, hostile, pipeline, step_graph


def chart(kind: ChartKind, values: Sequence[float | None], names: list[str] | None = None) -> Chart:
    fields = (Field("name", Unit.TEXT, "a name"), Field("size", Unit.PS, "a size"))
    names = names or [f"n{i}" for i in range(len(values))]
    return Chart("c", kind, Table.from_rows("t", "T", fields, list(zip(names, values, strict=True))), "name", ("size",))


def test_parts_keep_table_order_and_share_the_whole() -> None:
    parts = chart_data.compute_parts(average_step())
    assert [p.color_key for p in parts][:2] == ["compilation", "input"]
    assert sum(p.share for p in parts) == pytest.approx(1)
    assert next(p for p in parts if p.color_key == "input").label == "31.6 ms"


@pytest.mark.parametrize("values", [[None, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [-5.0, 1.0]])
def test_sizes_that_cannot_be_drawn_are_zero(values: list[float | None]) -> None:
    assert [p.value for p in chart_data.compute_parts(chart(ChartKind.BARS, values))] == [0.0, 1.0]


def test_a_chart_of_nothing_has_no_shares() -> None:
    assert [p.share for p in chart_data.compute_parts(chart(ChartKind.PIE, [0.0, 0.0]))] == [0.0, 0.0]


def test_parts_of_a_whole_come_by_size_and_the_rest_last_without_a_bar() -> None:
    names = [*(f"n{i}" for i in range(9)), "all others", ""]
    parts = chart_data.compute_parts(chart(ChartKind.PIE, [*range(1, 10), 100, 50], names))
    assert [p.name for p in parts] == ["(no name)", *(f"n{i}" for i in range(8, -1, -1)), "all others"]
    assert parts[-1].color_key == palette.OTHERS_KEY
    assert chart_data.max_bar_value(parts) == 50
    assert sum(p.share for p in parts) == pytest.approx(1)


def test_columns_average_neighbours_when_there_is_no_room() -> None:
    source = step_graph(121)
    data = chart_data.compute_columns(source, 40)
    assert data.rows_per_column == 4
    assert data.heights.shape == (10, 31)
    assert data.labels[0] == "0"
    assert data.labels[-1] == "120"
    assert data.heights[1, 30] == source.table["input_ps"][120]
    assert data.heights[1, 0] == pytest.approx(source.table["input_ps"][:4].mean())


def test_one_giant_step_does_not_flatten_the_others() -> None:
    data = chart_data.compute_columns(step_graph(50), 80)
    assert data.clipped == (0,)
    assert data.axis_end < 150 * MS
    assert data.maximum is not None
    label, height = data.maximum
    assert (label, height > 900 * MS) == ("0", True)


def test_the_giant_step_is_reported_even_if_averaging_hides_it() -> None:
    data = chart_data.compute_columns(step_graph(5000), 50)
    assert data.clipped == ()
    assert data.maximum is not None
    assert data.maximum[0] == "0"


def test_ordinary_columns_fill_the_axis() -> None:
    assert chart_data.compute_axis_end(np.array([1.0, 2.0, 3.0])) == 3.0
    assert chart_data.compute_axis_end(np.array([])) == 1.0
    assert chart_data.compute_axis_end(np.zeros(3)) == 1.0


def test_tree_is_in_reading_order_with_exact_64_bit_ids() -> None:
    tree = chart_data.build_tree(pipeline())
    assert [(n.depth, n.label.split()[0]) for n in tree.nodes] == [
        (0, "Prefetch"), (1, "BatchV2"), (2, "ParallelMapV2"), (3, "Shuffle"), (4, "TFRecord"), (2, "Range"),
    ]  # fmt: skip
    assert [f.name for f in tree.fields] == ["self_ps", "calls", "busy"]
    assert tree.nodes[2].role == "bottleneck"


def test_a_cycle_shows_every_node_once() -> None:
    source = next(s for s in hostile().page("hostile").sections if isinstance(s, Chart) and s.kind is ChartKind.GRAPH)
    assert len(chart_data.build_tree(source).nodes) == len(source.table)


def test_a_deep_tree_needs_no_stack() -> None:
    fields = tuple(Field(n, Unit.NONE, n) for n in ("id", "parent", "label", "role"))
    rows = [(i, i - 1, f"n{i}", "other") for i in range(5000)]
    nodes = chart_data.build_tree(
        Chart("c", ChartKind.GRAPH, Table.from_rows("t", "T", fields, rows), "id", ("parent", "label", "role"))
    ).nodes
    assert nodes[-1].depth == 4999


def nodes(*rows: tuple[str, str, str, float]) -> Chart:
    fields = (*(Field(n, Unit.TEXT, n) for n in ("id", "parent", "label")), Field("size", Unit.PS, "a size"))
    return Chart("c", ChartKind.ICICLE, Table.from_rows("t", "T", fields, rows), "id", ("parent", "label", "size"))


def test_an_icicle_puts_children_below_their_parents_side_by_side() -> None:
    chart = nodes(("a", "", "a", 60.0), ("a/x", "a", "x", 40.0), ("a/y", "a", "y", 20.0), ("b", "", "b", 40.0))
    cells = {c.path: (c.depth, c.left, c.width, c.color_key) for c in chart_data.layout_icicle(chart, 0.01)}
    assert cells == {
        "a": (0, 0.0, 0.6, "cycle-0"),
        "a/x": (1, 0.0, 0.4, "cycle-0"),
        "a/y": (1, pytest.approx(0.4), 0.2, "cycle-0"),
        "b": (0, 0.6, 0.4, "cycle-1"),
    }


def test_what_has_no_name_is_grey() -> None:
    (cell,) = chart_data.layout_icicle(nodes(("a", "", "(no scope)", 1.0)), 0.05)
    assert cell.color_key == "all_others"


def told() -> Chart:
    """Nodes in states; one of them is drawn only on request."""
    fields = (
        *(Field(n, Unit.TEXT, n) for n in ("id", "parent", "label", "state")),
        *(Field("size", Unit.PS, "a size"), Field("old", Unit.BOOL, "o", "What is old")),
    )
    rows = [
        ("a", "", "a", "more", 60.0, False),
        ("a/x", "a", "x", "", 60.0, False),
        ("a/y", "a", "y", "gone", 30.0, True),
        ("b", "", "b", "more", 40.0, False),
    ]
    table, series = Table.from_rows("t", "T", fields, rows), ("parent", "label", "size", "size")
    colors = {"gone": "output", "more": "input", "less": "host_compute"}
    return Chart("c", ChartKind.ICICLE, table, "id", series, colors, state="state", aside="old")


def test_nodes_in_a_state_have_its_colour_and_what_is_aside_takes_no_room() -> None:
    cells = {c.path: (c.left, c.width, c.color_key, c.state) for c in chart_data.layout_icicle(told(), 0.01)}
    assert cells["a"] == (0.0, 0.6, "input", "more")
    assert cells["b"] == (0.6, 0.4, "input", "more")
    assert "a/y" not in cells and cells["a/x"][3] == ""
    assert chart_data.find_states(told()) == (("output", "gone"), ("input", "more"))


def test_an_icicle_leaves_out_what_is_too_thin_but_keeps_its_room() -> None:
    chart = nodes(("a", "", "a", 1.0), ("a/x", "a", "x", 1.0), ("b", "", "b", 99.0))
    (cell,) = chart_data.layout_icicle(chart, 0.05)
    assert cell.name == "b"
    assert cell.left == pytest.approx(0.01)


def test_a_chart_with_a_choice_draws_the_first() -> None:
    fields = (Field("step", Unit.TEXT, "s"), Field("host", Unit.TEXT, "h"), Field("n", Unit.PS, "n"))
    rows = [("average", "a", 1.0), ("average", "b", 2.0), ("1", "a", 9.0)]
    source = Chart("c", ChartKind.STACK_SERIES, Table.from_rows("t", "T", fields, rows), "host", ("n",), select="step")
    data = chart_data.compute_columns(source, 10)
    assert (data.labels, data.heights.tolist()) == (("a", "b"), [[1.0, 2.0]])


def test_a_graph_shows_the_first_of_every_choice_and_the_columns_that_it_names() -> None:
    names = ("id", "parent", "label", "role", "host", "call", "left_out")
    fields = (*(Field(n, Unit.TEXT, n) for n in names), Field("self_ps", Unit.PS, "self"))
    choices = (("b", "2"), ("b", "1"), ("a", "1"), ("a", "2"))
    rows = [(str(i), "", f"{host} {call}", "other", host, call, "x", 1.0) for i, (host, call) in enumerate(choices)]
    series = ("parent", "label", "role", "self_ps")
    source = Chart("c", ChartKind.GRAPH, Table.from_rows("t", "T", fields, rows), "id", series, select="host", then=("call",))
    tree = chart_data.build_tree(source)
    assert [node.label for node in tree.nodes] == ["b 2"]
    assert [field.name for field in tree.fields] == ["self_ps"]


def events(*rows: tuple[int, float, str]) -> Chart:
    fields = (
        *(Field("time_ps", Unit.PS, "t"), Field("free", Unit.BYTES, "f"), Field("step", Unit.COUNT, "s")),
        *(Field("broken", Unit.FRACTION, "b"), Field("heap", Unit.BYTES, "h"), Field("who", Unit.TEXT, "w")),
    )
    data = [(time, None, None, None, heap, who) for time, heap, who in rows]
    series = ("free", "step", "broken", "heap")
    return Chart("c", ChartKind.AREA, Table.from_rows("t", "T", fields, data), "time_ps", series, select="who")


def test_a_slice_of_time_shows_the_most_that_was_in_use_in_it_or_what_was_left_before() -> None:
    data = chart_data.compute_area_columns(
        events((0, 1.0, "a"), (10, 9.0, "a"), (11, 2.0, "a"), (39, 1.0, "a"), (5, 99.0, "b")), 4
    )
    assert data.heights.tolist() == [[1.0, 9.0, 2.0, 2.0]]
    assert data.axis_end == 9.0
    assert data.names == ("Heap",)


def test_an_area_of_nothing_has_no_slices() -> None:
    assert chart_data.compute_area_columns(events(), 4).labels == ()


@pytest.mark.parametrize(
    ("letters", "width", "lines", "bar"), [(10, 80, 2, 26), (50, 80, 2, 19), (60, 80, 4, 26), (110, 160, 2, 39)]
)
def test_bars_leave_names_their_room_where_one_line_holds_both(letters: int, width: int, lines: int, bar: int) -> None:
    names = ["a" * (letters - 1) + end for end in "12"]
    shown = [line.plain for line in render_chart(chart(ChartKind.BARS, [2.0 * MS, 1.0 * MS], names), width, colored=False)]
    assert len(shown) == lines and max(line.count("█") for line in shown) == bar, shown
