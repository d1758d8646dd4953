import io
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from outpace.model import Chart, ChartKind, Field, Report, Table, Unit
from outpace.report import terminal
from outpace.report.terminal_bar import split_cells
from outpace.report.terminal_cells import truncate, wrap_cells
from outpace.report.terminal_charts import render_chart
from outpace.report.terminal_grid import TextColumn, layout_grid, layout_rows
from tests.unit.report.report_samples import hostile, realistic


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize(
    "make", [realistic, hostile, lambda: realistic(0, 0), lambda: realistic(1, 1), lambda: realistic(3000)]
)
def test_no_line_is_wider_than_the_terminal(make: Callable[[], Report], width: int) -> None:
    lines = terminal.render(make(), width=width, details=True).splitlines()
    assert lines
    assert [line for line in lines if cell_len(line) > width] == []


def test_nothing_from_a_profile_reaches_the_terminal_as_a_control_character() -> None:
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028\ud800-\udfff]", terminal.render(hostile(), width=80, details=True)
    )
    colored = terminal.render(hostile(), width=80, color=True, details=True)
    assert "\\x1b[31mred" in colored
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", colored)  # nothing but the colours that rich writes
    assert "\x1b[31mred" not in colored


def test_tools_chooses_pages_and_keeps_the_warnings() -> None:
    text = terminal.render(realistic(), width=80, tools=["memory"])
    assert "12,345 events" in text
    assert "Memory profile" in text
    assert "Operations" not in text
    assert "Confidence" not in text


def test_an_unavailable_page_says_why_and_what_to_do() -> None:
    assert "memory  the profile holds no allocation events" in terminal.render(realistic(), width=80, details=True)
    text = terminal.render(realistic(), width=80, tools=["memory"])
    assert "Not measurable in this profile: the profile holds no allocation events" in text
    assert "→ Capture with host_tracer_level=2" in text


def test_a_finding_shows_its_proof() -> None:
    text = terminal.render(realistic(), width=160, tools=["overview"])
    for part in (
        "evidence: mean wait for input per step: 31.6 ms  (table overview.average_step)",
        "threshold: HIGHLY_INPUT_BOUND = 20.0% (TensorFlow Profiler guide)",
        "caveat: CPU cores are already 88% busy",
        "where: train.py:41",
        "causes: 51.7% of the step time waits for input.",
        "saves: 18.0 to 30.0 ms per step (30.0 to 50.0% of the 60.0 ms step without the profiler)",
    ):
        assert part in text


def test_a_bound_is_no_prediction() -> None:
    text = terminal.render(realistic(), width=160, tools=["ops"])
    assert "saves: at most 3.12 ms per step (5.2% of the 60.0 ms step without the profiler)" in text


def test_what_was_struck_is_no_advice() -> None:
    assert "TF_GPU_THREAD_MODE" not in terminal.render(realistic(), width=160, details=True)


def test_tables_stop_at_their_limit_and_say_so() -> None:
    text = terminal.render(realistic(), width=80, tools=["tf_data"])
    assert "… and 5 more rows (use --csv or --html)" in text
    assert "no rows" in text


def test_columns_without_room_are_named_not_wrapped() -> None:
    narrow = terminal.render(realistic(), width=80, tools=["ops"])
    said = " ".join(narrow.split())
    assert re.search(
        r"Hidden columns \(terminal too narrow; --csv and --html have them\): .*Operational intensity, Eager, Node ID", said
    )
    assert "18446744073709551615" in terminal.render(realistic(), width=220, tools=["ops"])


def test_numbers_are_never_cut() -> None:
    for width in (40, 80, 120):
        for line in terminal.render(realistic(), width=width, tools=["ops"]).splitlines():
            assert not re.search(r"\d…\d|…\s*(ms|%)", line)


def test_the_critical_path_reads_without_colours() -> None:
    text = terminal.render(realistic(), width=100, tools=["tf_data"])
    assert re.search(r"ParallelMapV2.*◀ bottleneck +29\.1 ms", text)
    assert re.search(r"└ BatchV2 +● critical path", text)


def test_print_report_writes_no_colours_to_a_file() -> None:
    out = io.StringIO()
    terminal.print_report(realistic(), file=out, width=80)
    assert out.getvalue() == terminal.render(realistic(), width=80)


@pytest.mark.parametrize("values", [[1, 1, 1], [1000, 1, 1, 1], [0, 5], [1] * 30, [0.0], [1e-9, 1]])
def test_split_cells_is_exact(values: list[float]) -> None:
    cells = split_cells(values, 20)
    assert sum(cells) == (20 if sum(values) else 0)
    assert all(c == 0 for c, v in zip(cells, values, strict=True) if v == 0)
    if sum(1 for v in values if v) <= 20:
        assert all(c >= 1 for c, v in zip(cells, values, strict=True) if v > 0)


def test_grid_aligns_numbers_right_and_counts_wide_characters() -> None:
    lines, dropped = layout_grid([TextColumn("Name", ("日本語", "ab")), TextColumn("Time", ("1 ms", "10 ms"), right=True)], 40)
    assert dropped == []
    assert {cell_len(line.plain) for line in lines} == {13}
    assert lines[1].plain.endswith(" 1 ms")


LAYERS = tuple(f"replica_6/bert_span_labeler/encoder/layer_{i}/dropout_3/random_uniform/RandomUniform" for i in range(20))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_names_that_differ_inside_are_told_apart(width: int) -> None:
    numbers = [TextColumn(title, ("76.8 µs",) * len(LAYERS), right=True) for title in ("Self", "Total")]
    found = layout_rows([*numbers, TextColumn("Name", LAYERS)], width)
    texts = ["".join(line.plain for line in row) for row in found]
    for i, text in enumerate(texts):
        assert re.search(rf"layer_{i}\b", re.sub(r"\s", "", text)), text
    assert len(set(texts)) == len(LAYERS)
    assert max(line.cell_len for row in found for line in row) <= width


def test_a_name_is_never_left_out_for_a_number() -> None:
    name = TextColumn("Name", ("Iterator::Root::Prefetch::ParallelBatch::Map::Filter::Zip::FlatMap::Generator " * 3,))
    lines, dropped = layout_grid(
        [*[TextColumn(f"n{i}", ("12.3 ms",), right=True) for i in range(6)], name, TextColumn("Last", ("1",), right=True)], 80
    )
    assert "Name" not in dropped
    assert "Generator" in lines[-1].plain


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (("experimental/users/somebody/stress/stress_test.py:29", "x"), "…/stress_test.py:29"),
        (("Reading data from files on demand", "Reading data from files in advance"), "Reading data from"),
        (("[4,16,384,384]", "[30522,1024]"), "[4,16,384,384]"),
    ],
)
def test_what_matters_of_a_cell_is_kept(cells: tuple[str, ...], shown: str) -> None:
    assert wrap_cells(cells, 20, False)[0][0] == shown


def test_headings_and_words_are_not_broken() -> None:
    told = TextColumn("Why", ("Gradients need more than eight bits, so that it pays at inference alone, and not here.",))
    lines, _ = layout_grid([TextColumn("Optimisation", ("Quantisation",)), told, told], 44)
    assert lines[0].plain.startswith("Optimisation  ")
    assert lines[1].plain.startswith("Quantisation  ")


def test_sentences_keep_every_word() -> None:
    advice = ("Set num_parallel_calls on map, cache what does not change, or preprocess offline.", "Combine small transfers.")
    for told in (advice, (" ".join(advice * 9),)):
        assert " ".join(wrap_cells(told, 24, True)[0]) == told[0]


@pytest.mark.parametrize("width", [38, 48, 58])
def test_what_is_said_below_a_chart_is_wrapped_and_never_cut(width: int) -> None:
    names = ["worker_of_a_long_name_7010"] * 61 + ["worker_of_a_long_name_7011"]
    fields = (Field("host", Unit.TEXT, "", "Host"), Field("step", Unit.COUNT, ""), Field("input_ps", Unit.PS, ""))
    rows = [(name, step, (70 if step == 60 else 1) * 10**9) for step, name in enumerate(names)]
    table = Table.from_rows("steps", "Steps", fields, rows)
    chart = Chart("Step time", ChartKind.STACK_SERIES, table, "step", ("input_ps",), select="host")
    lines = [line.plain.rstrip() for line in render_chart(chart, width, colored=False)]
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    assert "beyond the axis; the highest (60) is 70.0 ms" in said
    assert "Host: worker_of_a_long_name_7010; 1 other in the HTML report" in said


@pytest.mark.parametrize("width", range(3, 20))
def test_fit_cuts_by_cells(width: int) -> None:
    assert cell_len(truncate("日本語の名前/Größe/MatMul", width)) <= width


def test_details_are_every_page_behind_the_first_screen() -> None:
    report = realistic()
    text = terminal.render(report, width=200, details=True)
    assert text.startswith(terminal.render(report, width=200))
    for page in report.pages:
        if page.unavailable is None:
            assert page.question in " ".join(text.split())
