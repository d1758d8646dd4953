"""Points and lines on logarithmic axes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from outpace.model import Chart, ChartKind, Field, ScatterColumns, Table, Unit
from outpace.report import svg
from outpace.report.scatter import ScatterPlot, layout_scatter
from outpace.report.terminal_charts import render_chart

NAN = float("nan")
Place = tuple[float, float, float, str, str]  # x, y, size, name, line


def chart(*rows: Place) -> Chart:
    numbers = (Field(name, Unit.RATIO, name.upper()) for name in ("x", "y", "size"))
    fields = (*numbers, *(Field(name, Unit.TEXT, name) for name in ("name", "line")))
    numbered = [(*row, 0 if row[-1] else number) for number, row in enumerate(rows, 1)]
    table = Table.from_rows("plane", "Plane", (*fields, Field("row", Unit.COUNT, "row")), numbered)
    return Chart("Plane", ChartKind.SCATTER, table, "x", ScatterColumns("y", "size", "name", "line", "row").series)


def laid_out(*rows: Place) -> ScatterPlot:
    plot = layout_scatter(chart(*rows))
    assert plot is not None
    return plot


def test_equal_factors_are_equal_distances() -> None:
    plot = laid_out((1.0, 1.0, 1.0, "a", ""), (10.0, 100.0, 1.0, "b", ""), (100.0, 1e4, 1.0, "c", ""))
    places = {point.name: (point.x, point.y) for point in plot.points}
    for axis in (0, 1):
        a, b, c = (places[name][axis] for name in "abc")
        assert 0 < a < b < c < 1
        assert b - a == pytest.approx(c - b)
    assert [label for _, label in plot.x_ticks] == ["1", "10", "100"]


def test_the_largest_points_come_first_with_their_shares() -> None:
    plot = laid_out((1.0, 1.0, 1.0, "small", ""), (2.0, 2.0, 3.0, "large", ""), (2.0, 2.0, NAN, "none", ""))
    assert [(point.name, point.share) for point in plot.points] == [("large", 0.75), ("small", 0.25), ("none", 0.0)]


def test_a_line_runs_from_left_to_right_and_has_no_points() -> None:
    plot = laid_out((5.0, 1.0, 1.0, "p", ""), (10.0, 2.0, 0.0, "", "roof"), (1.0, 1.0, 0.0, "", "roof"))
    ((name, places),) = plot.lines
    assert name == "roof" and places == tuple(sorted(places)) and len(places) == 2
    assert [point.name for point in plot.points] == ["p"]


def test_points_lead_to_their_rows() -> None:
    plot = laid_out((1.0, 1.0, 1.0, "small", ""), (2.0, 2.0, 3.0, "large", ""), (10.0, 2.0, 0.0, "", "roof"))
    assert re.findall(r'<a href="(.*?)"><circle', str(svg.scatter(plot, "t", "ops"))) == ["#ops/2", "#ops/1"]
    assert "<a " not in str(svg.scatter(plot, "t"))


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, float("inf")])
def test_what_has_no_place_on_the_axes_is_not_drawn(value: float) -> None:
    assert [
        p.name for p in laid_out((value, 1.0, 1.0, "x", ""), (1.0, value, 1.0, "y", ""), (1.0, 1.0, 1.0, "z", "")).points
    ] == ["z"]
    assert layout_scatter(chart((value, 1.0, 1.0, "x", ""))) is None


def test_one_point_alone_lies_inside() -> None:
    (point,) = laid_out((3.0, 3.0, 1.0, "p", "")).points
    assert 0 < point.x < 1 and 0 < point.y < 1


def test_names_of_lines_do_not_cover_each_other() -> None:
    plot = laid_out(*((x, y, 0.0, "", name) for name, y in (("a", 1.0), ("b", 1.01), ("c", 1.02)) for x in (1.0, 10.0)))
    heights = [float(y) for y in re.findall(r'<text class="roof" x="[\d.]+" y="([\d.]+)"', str(svg.scatter(plot, "t")))]
    assert len(heights) == 3 and all(later - earlier >= 14 for earlier, later in pairwise(heights))


def test_a_terminal_names_the_lines() -> None:
    lines = [
        str(line) for line in render_chart(chart((1.0, 1.0, 1.0, "p", ""), (1.0, 2.0, 0.0, "", "roof: 5 TFLOP/s")), 80, False)
    ]
    assert lines[0] == "roof: 5 TFLOP/s" and "1 point in the HTML report: Y over X" in " ".join(lines)
    assert [str(line) for line in render_chart(chart(), 80, False)] == ["nothing to draw"]
