"""What made a function build another graph."""

from __future__ import annotations

import dataclasses

import pytest

from outpace import api
from outpace.store.record import FunctionTrace
from outpace.testing import training_run
from outpace.timeline import Run, Timeline
from outpace.tools.functions.retracing import DTYPE, FIRST, SAME_ARGUMENTS, SHAPE, STRUCTURE, VALUE, diff_arguments
from outpace.trace import read_trace
from tests.support import opened

X = "TensorSpec(shape=(16, 64), dtype=tf.float32)"


@pytest.mark.parametrize(
    ("before", "now", "text", "kind"),
    [
        (None, {"x": X}, "first graph", FIRST),
        ({"x": X, "rate": "Literal[0.1]"}, {"x": X, "rate": "Literal[0.05]"}, "rate: 0.1 → 0.05", VALUE),
        ({"rate": "Literal[0.1]"}, {"rate": "Literal[0.0999989]"}, "rate: 0.1 → 0.0999989", VALUE),
        ({"x": X}, {"x": X.replace("16", "7")}, "x: float32(16,64) → float32(7,64)", SHAPE),
        ({"x": X}, {"x": X.replace("32", "16")}, "x: float32(16,64) → float16(16,64)", DTYPE),
        ({"x": X}, {"x": X, "mask": X}, "mask: nothing → float32(16,64)", STRUCTURE),
        ({"x": X}, {"x": X}, "same arguments", SAME_ARGUMENTS),
        ({"x": "int32[16,119]"}, {"x": "int32[16,118]"}, "x: int32[16,119] → int32[16,118]", SHAPE),
        ({"x": "float32[]"}, {"x": "float32[] weakly typed"}, "x: float32[] → float32[] weakly typed", DTYPE),
        ({"x": "float32[]"}, {"x": "Python float"}, "x: float32[] → Python float", DTYPE),
        ({"n": "Literal['a']"}, {"n": "Literal['b']"}, "n: 'a' → 'b'", VALUE),
        ({"xs": f"({X}, {X})"}, {"xs": f"({X}, {X.replace('16', '7')})"}, "(float32(7,64))", SHAPE),
    ],
)
def test_difference(before: dict[str, str] | None, now: dict[str, str], text: str, kind: str) -> None:
    said, found = diff_arguments(before, now)
    assert found == kind
    assert text.strip("()") in said


def test_without_a_record_the_cause_is_unknown_and_the_first_graph_known() -> None:
    page = opened("retracing").functions()
    rows = list(page.table("traces").records())
    assert [row["kinds"] for row in rows] == [FIRST, *["unknown"] * 7]
    assert [row["step"] for row in rows] == list(range(8))
    (finding,) = page.findings
    assert finding.id == "expensive_tf_function"
    assert finding.evidence[0].value > 0.99


def test_a_record_names_the_argument_and_the_line() -> None:
    """The trace of step 3 began 1 ms into its call; the one before, in the warm-up, had another
    rate.
    """
    timeline = opened("retracing").run.hosts[0]
    origin, stat = timeline.unix_origin_ns, timeline.trace.stat("tf_function_call")
    assert origin is not None
    begin = origin + int(timeline.trace.start[stat.rows[3]]) // 1000 + 1_000_000
    noted = [
        FunctionTrace("step", "/home/u/train.py", 12, begin - 10**12, 10**7, {"rate": "Literal[0.2]"}),
        FunctionTrace("step", "/home/u/train.py", 12, begin, 10**7, {"rate": "Literal[0.1]"}),
    ]
    records = {timeline.host: {"traces": [dataclasses.asdict(trace) for trace in noted]}}
    run = Run("", opened("retracing").run.hosts, records)
    page = api.Profile(run).functions()
    row = list(page.table("traces").records())[3]
    assert (row["source"], row["cause"], row["kinds"]) == ("train.py:12", "rate: 0.2 → 0.1", VALUE)
    (finding,) = page.findings
    assert finding.location == "train.py:12"
    assert "tf.constant" in finding.action


def test_steady_functions_are_said_to_be_steady() -> None:
    page = api.Profile(Run.from_traces([read_trace(training_run().to_bytes())])).functions()
    assert "No retracing" in page.headline or page.unavailable is not None
    assert page.findings == ()


def test_without_absolute_time_graphs_are_counted() -> None:
    """Profiles of TensorFlow 2.16 do not say when they began; the third graph of a function is the
    third that was noted.
    """
    trace = dataclasses.replace(
        opened("retracing").run.hosts[0].trace, planes=opened("retracing").run.hosts[0].trace.planes[:1]
    )
    noted = [FunctionTrace("step", "t.py", 12, 0, 1, {"rate": f"Literal[{i}]"}) for i in range(1, 9)]
    run = Run("", (Timeline(trace),), {trace.host: {"traces": [dataclasses.asdict(t) for t in noted]}})
    assert run.hosts[0].unix_origin_ns is None
    causes = [row["cause"] for row in api.Profile(run).functions().table("traces").records()]
    assert causes[1:3] == ["rate: 1 → 2", "rate: 2 → 3"]
