"""What is recorded of a start: measured spans, the rest by samples, and where it ends."""

from __future__ import annotations

import importlib
import random
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from outpace.capture.compilations import COMPILE_EVENT
from outpace.capture.imports import ImportTimes
from outpace.capture.startup import MAX_PARTS, OTHERS, PartKey, Span, StartupRecorder, divide, find_first_steady
from outpace.store.record import Compilation, FunctionTrace
from outpace.store.startup import Startup, StartupKind

MS = 10**6
CODE = PartKey(StartupKind.CODE, "")


def key(name: str, kind: StartupKind = StartupKind.IMPORT) -> PartKey:
    return PartKey(kind, name)


def test_a_span_is_without_what_is_inside_of_it() -> None:
    spans = [
        Span(10, 60, key("a")),
        Span(20, 30, key("b")),
        Span(25, 28, key("c")),
        Span(40, 50, key("b")),
        Span(70, 90, key("a")),
    ]
    times, gaps = divide(spans, 100)
    assert times == {key("a"): (10, 50), key("b"): (20, 17), key("c"): (25, 3)}
    assert gaps == [(0, 10), (60, 70), (90, 100)]


def test_what_is_not_nested_is_cut_at_the_outer_ones_end() -> None:
    times, gaps = divide([Span(0, 50, key("a")), Span(40, 70, key("b")), Span(60, 80, key("c"))], 75)
    assert times == {key("a"): (0, 40), key("b"): (40, 10), key("c"): (60, 15)} and gaps == [(50, 60)]


@pytest.mark.parametrize("seed", range(20))
def test_parts_and_gaps_add_up(seed: int) -> None:
    chance = random.Random(seed)
    spans = [
        Span(start, start + chance.randrange(40), key(chance.choice("abc")))
        for start in (chance.randrange(-5, 120) for _ in range(30))
    ]
    times, gaps = divide(spans, 100)
    assert sum(duration for _, duration in times.values()) + sum(end - start for start, end in gaps) == 100
    assert all(duration >= 0 for _, duration in times.values())


@pytest.mark.parametrize(
    ("durations", "first"),
    [
        ((900, 30, 10, 11, 10, 10), 2),
        ((10, 10, 10), 0),
        ((900, 10), 2),
        ((), 0),
        ((900, 14, 10, 10, 10), 1),
        ((900, 16, 10, 10, 10), 2),
    ],
)
def test_the_first_steady_step_takes_about_as_long_as_later_ones(durations: tuple[int, ...], first: int) -> None:
    assert find_first_steady(durations) == first


def build(recorder: StartupRecorder, **given: Any) -> Startup:
    return recorder.build(given.get("steps", ()), given.get("traces", ()), given.get("compilations", ()), ("", 1.0))


def recorder(ms: int = 1000) -> StartupRecorder:
    """Of a process that began so many ms ago, whose window opens now."""
    found = StartupRecorder(time.time_ns() - (ms - 20) * MS)
    found._began_ns = time.time_ns() - ms * MS
    found._script_ns = found._began_ns + 100 * MS
    found.end()
    return found


def compilation(end_ms: float, ms: float, program: str, *, began_ns: int, **more: Any) -> Compilation:
    event = more.pop("event", f"/jax/core/compile/{COMPILE_EVENT}")
    return Compilation(began_ns + round(end_ms * MS), round(ms * MS), event, "/home/a/train.py", 7, "main", program, **more)


def test_a_start_without_steps_ends_with_the_last_compilation() -> None:
    found = recorder()
    events = [
        compilation(300, 50, "update", began_ns=found._began_ns, event="/jax/core/compile/jaxpr_trace_duration"),
        compilation(400, 100, "jit(update)", began_ns=found._began_ns),
        compilation(
            800, 100, "jit(update)", began_ns=found._began_ns, before={"x": "f32[2]"}, arguments={"x": "f32[3]"}, cache="hit"
        ),
        compilation(2000, 10, "jit(late)", began_ns=found._began_ns),
    ]
    startup = build(found, compilations=events)
    assert (startup.end, startup.duration_ns, startup.cache_min_s) == ("compilation", 800 * MS, 1.0)
    assert sum(part.duration_ns for part in startup.parts) == pytest.approx(startup.duration_ns)
    parts = {(part.kind, part.name): part for part in startup.parts}
    compiled = parts["compile", "update"]
    assert (compiled.duration_ns, compiled.count, compiled.hits, compiled.arguments) == (200 * MS, 2, 1, {"x": "f32[3]"})
    assert parts["trace", "update"].duration_ns == 50 * MS and compiled.line == 7
    assert parts["interpreter", ""].duration_ns == pytest.approx(20 * MS, abs=2 * MS)
    assert parts["code", ""].duration_ns == pytest.approx(450 * MS, abs=3 * MS)


def test_a_start_with_steps_ends_at_the_first_steady_one() -> None:
    found = recorder()
    now = time.perf_counter_ns()
    steps = [(now - ms * MS, now - (ms - length) * MS) for ms, length in ((600, 300), (250, 10), (200, 10), (150, 10))]
    trace = FunctionTrace("one_step", "/home/a/train.py", 3, found._began_ns + 450 * MS, 200 * MS)
    startup = build(found, steps=steps, traces=[trace])
    assert (startup.end, startup.first_steps) == ("steps", 1)
    assert startup.duration_ns == pytest.approx(750 * MS, abs=5 * MS)
    parts = {part.kind: part.duration_ns for part in startup.parts}
    assert parts["graph"] == 200 * MS and parts["first steps"] == pytest.approx(100 * MS, abs=5 * MS)


def test_whose_function_a_program_is_made_of() -> None:
    """Of the script's, which `lower().compile()` compiles, of Keras', and of an op of JAX."""
    found = recorder()
    began_ns = found._began_ns
    trace = "/jax/core/compile/jaxpr_trace_duration"
    events = [
        compilation(200, 10, "update", began_ns=began_ns, event=trace),
        compilation(300, 50, "jit(update)", began_ns=began_ns, library_call="compile", library="jax"),
        compilation(400, 60, "jit(train_step)", began_ns=began_ns, library_call="fit", library="keras"),
        compilation(500, 70, "jit(_mean)", began_ns=began_ns, library_call="mean", library="jax"),
    ]
    parts = {
        (part.library, part.name): part.duration_ns
        for part in build(found, compilations=events).parts
        if part.kind == "compile"
    }
    assert parts == {("", "update"): 50 * MS, ("keras", "train_step"): 60 * MS, ("jax", "mean"): 70 * MS}


def test_a_stack_that_cannot_be_read_is_passed_over() -> None:
    found = recorder()
    frame: Any = object()
    found._add_sample(frame, [(0, MS)])
    found._add_sample(sys._getframe(), [(0, MS)])
    assert len(found._rows) == 1


def test_short_parts_are_added_up_by_kind() -> None:
    found = recorder()
    events = [compilation(200 + 0.2 * at, 0.1, f"jit(f{at})", began_ns=found._began_ns) for at in range(2 * MAX_PARTS)]
    startup = build(found, compilations=[*events, compilation(900, 200, "jit(g)", began_ns=found._began_ns)])
    rest = next(part for part in startup.parts if part.kind == "compile" and part.name == OTHERS)
    assert rest.count == 2 * MAX_PARTS and len(startup.parts) < 10
    assert sum(part.duration_ns for part in startup.parts) == pytest.approx(startup.duration_ns)


def test_samples_divide_the_scripts_own_time_among_its_lines() -> None:
    found = recorder()
    frame = sys._getframe()
    moment = time.monotonic_ns() - 500 * MS
    found._add_sample(frame, [(moment + at * 20 * MS, 20 * MS) for at in range(5)])
    own = compile("import sys\ndef f(keep):\n    keep(sys._getframe())\n", "<stdin>", "exec")
    names: dict[str, Any] = {}
    exec(own, names)

    def keep(inner: FrameType) -> None:
        found._add_sample(inner, [(moment + 200 * MS + at * 20 * MS, 20 * MS) for at in range(10)])

    names["f"](keep)
    startup = build(found, compilations=[compilation(990, 10, "jit(f)", began_ns=found._began_ns)])
    times = {(part.file, part.line): part.duration_ns for part in startup.parts if part.kind == "code"}
    assert len(times) == 2 and times["<stdin>", 3] == pytest.approx(2 * (sum(times.values()) / 3), rel=0.01)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Packages `outer`, which imports `inner`, and `broken`, all installed ones."""
    site = tmp_path / "site-packages"
    for name, text in {
        "outer_pkg": "import time\ntime.sleep(0.02)\nimport inner_pkg\n",
        "inner_pkg": "import time\ntime.sleep(0.05)\n",
        "broken_pkg": "raise ValueError('no')\n",
    }.items():
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(text, encoding="utf-8")
    (site / "outer_pkg" / "part.py").write_text("import time\ntime.sleep(0.01)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr("outpace.capture.imports.owner_of", lambda file: "other" if "site-packages" in file else "")
    finder = ImportTimes()
    finder.install()
    yield finder
    finder.uninstall()
    for name in [each for each in sys.modules if each.endswith("_pkg") or "_pkg." in each]:
        del sys.modules[name]


def test_imports_are_measured_by_package(packages: ImportTimes) -> None:
    importlib.import_module("outer_pkg")
    importlib.import_module("outer_pkg.part")
    with pytest.raises(ValueError, match="no"):
        importlib.import_module("broken_pkg")
    assert [span.package for span in packages.spans] == ["inner_pkg", "outer_pkg", "outer_pkg", "broken_pkg"]
    inner, outer, part, _ = packages.spans
    assert outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns <= part.start_ns
    assert inner.end_ns - inner.start_ns >= 50 * MS and packages._depth == 0
    assert sys.modules["outer_pkg"].__spec__ is not None and "_CallbackLoader" not in repr(
        sys.modules["outer_pkg"].__spec__.loader
    )


def test_imports_of_other_threads_are_not_the_main_threads(packages: ImportTimes) -> None:
    thread = threading.Thread(target=lambda: importlib.import_module("inner_pkg"))
    thread.start()
    thread.join()
    assert packages.spans == [] and "inner_pkg" in sys.modules
