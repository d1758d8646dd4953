"""Functions that are built again, and steps that run op by op."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outpace.metrics.facts import python_lines as python_time
from outpace.metrics.facts import tf_functions
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.budget import budgets
from outpace.metrics.views import host_copies, host_fetches, jit_calls
from outpace.model import Category, Finding, Severity
from outpace.testing import SpaceBuilder, training_run
from outpace.tools.functions import evaluation
from outpace.tools.functions import findings as rules
from outpace.tools.functions.schema import COMPILATIONS, TRACES
from outpace.trace import read_trace
from tests.advice_cases.build import HOST, MS, STEP, STEPS, budget, budgeted, run, table, trace_of
from tests.advice_cases.case import JAX, KERAS, KERAS_JAX, TENSORFLOW, Case, Find, about, fires, silent
from tests.hlo_proto import F32, program, shape

_NO_BUILDS = table("compilations", COMPILATIONS)


def _tf(
    expensive: float, total: float, traced: int = 0, eager: int = 0, program: Workload = TENSORFLOW, kinds: str = "first"
) -> Find:
    """Ten steps of 10 ms; of a function's `total` ms, `expensive` build graphs or run op by op."""
    spent = {
        "total_ps": round(total * MS),
        "expensive_ps": round(expensive * MS),
        "traced_ps": round(expensive * MS) if traced else 0,
    }
    calls = table(
        "function_calls",
        tf_functions.FUNCTION_CALLS,
        {"function": "step", "calls": 10, "traced": traced, "eager": eager, **spent},
    )
    built = table("traces", TRACES, {"function": "step", "kinds": kinds, "source": "train.py:8", "cause": "3 was 2"})
    run = budgeted({})
    return lambda: rules.iter_findings(run, calls, built, _NO_BUILDS, program)


def _compiled(
    share: float,
    count: int,
    *,
    name: str = "step",
    kinds: str = "",
    cause: str = "",
    programs: tuple[bytes, ...] = (),
    called: str = "",
) -> Find:
    """A function that JAX built `count` times; `kinds` and `cause`: why, where the capture noted
    it; `programs`: what it became, in order; `called`: function of JAX that the line called.
    """
    row = {"function": name, "source": "/home/me/train.py:12", "count": count, "in_steps_ps": round(share * STEPS * STEP)}
    row["called"] = called
    space = training_run(steps=STEPS, step_ps=STEP, hostname=HOST)
    plane = space.plane("/host:metadata")
    for number, proto in enumerate(programs):
        stats: dict[str, Any] = {"Hlo Proto": proto}
        plane.describe(f"jit_step({number})", **stats)
    built = table("compilations", COMPILATIONS, row)
    of = run({budgets: budget({})}, None, read_trace(space.to_bytes(), HOST))
    first = {"function": name, "kinds": "first", "cause": "the function's first compilation"}
    traces = table("t", TRACES, *([first, {**first, "kinds": kinds, "cause": cause}] if kinds else []))
    return lambda: rules.iter_findings(of, table("f", tf_functions.FUNCTION_CALLS), traces, built, JAX)


def _batches(length: int, says: str = "") -> bytes:
    """A program that takes a batch of this length."""
    return program({"w": shape(F32, 4, 2), "x": shape(F32, length, 4)}, shape(F32, 4, 2), says=says)


def _lengths(*lengths: int) -> tuple[bytes, ...]:
    return tuple(map(_batches, lengths))


def _on_hosts(share: float, count: int, hosts: int) -> Find:
    """Each of several hosts compiles for `share` of its steps."""
    names = [f"host{number}" for number in range(hosts)]
    row = {"function": "step", "source": "/home/me/train.py:12", "count": count, "in_steps_ps": round(share * STEPS * STEP)}
    built = table("compilations", COMPILATIONS, *({**row, "host": name} for name in names))
    of = run({budgets: budget({Category.COMPILATION: share}, *names)}, None, *(trace_of(STEPS, name) for name in names))
    return lambda: rules.iter_findings(of, table("f", tf_functions.FUNCTION_CALLS), table("t", TRACES), built, JAX)


def _calls(
    calls: float, dispatch: float, others: float = 0.0, program: Workload = JAX, picks: float = 0.0, compiled: bool = False
) -> Find:
    """Steps of `calls` calls: dispatching them takes `dispatch` of the step, and JAX's own Python
    between them `others`. compiled: one of them computes gradients.
    """
    row = {"calls": calls, "kinds": 5, "dispatch_share": dispatch, "picks": picks, "fetch_share": picks / 500}
    line: dict[str, Any] = {"file": "/home/me/train.py", "line": 20, "who": "yours", "library": "jax", "self_ps": MS}
    line["python_share"] = others
    given = {
        jit_calls.jit_calls: table("jit_calls", jit_calls.JIT_CALLS, row),
        python_time.python_lines: table("python_lines", python_time.PYTHON_LINES, line),
        jit_calls.compiled_training_hosts: frozenset({HOST} if compiled else ()),
    }
    run = budgeted({Category.ALL_OTHERS: others + 0.1}, given)
    return lambda: rules.iter_findings(run, table("f", tf_functions.FUNCTION_CALLS), table("t", TRACES), _NO_BUILDS, program)


def _copies(share: float, count: float = 2.0, size: float = float("nan")) -> Find:
    """Steps that copy `count` arrays, of `size` bytes each, for `share` of their time."""
    row = {"copies": count, "copied_ps": round(share * STEP), "share": share, "bytes": size}
    line: dict[str, Any] = {"file": "/home/me/train.py", "line": 20, "who": "yours", "self_ps": MS, "calls_step": True}
    given = {
        host_copies.host_copies: table("host_copies", host_copies.HOST_COPIES, row),
        python_time.python_lines: table("python_lines", python_time.PYTHON_LINES, line),
    }
    run = budgeted({Category.HOST_COMPUTE: 0.9}, given)
    return lambda: rules.iter_findings(run, table("f", tf_functions.FUNCTION_CALLS), table("t", TRACES), _NO_BUILDS, JAX)


def _fetches(share: float, megabytes: float) -> Find:
    """Steps that fetch arrays of so many MB for `share` of their time, while no device computes."""
    row = {"bytes": megabytes * 1e6, "fetched_ps": round(share * STEP), "share": share}
    line: dict[str, Any] = {"file": "/home/me/train.py", "line": 20, "who": "yours", "self_ps": MS, "calls_step": True}
    given = {
        host_fetches.host_fetches: table("host_fetches", host_fetches.HOST_FETCHES, row),
        python_time.python_lines: table("python_lines", python_time.PYTHON_LINES, line),
    }
    run = budgeted({Category.HOST_COMPUTE: 0.9}, given)
    return lambda: rules.iter_findings(run, table("f", tf_functions.FUNCTION_CALLS), table("t", TRACES), _NO_BUILDS, JAX)


def _evaluates(
    calls: int,
    length: int,
    *,
    program: Workload = TENSORFLOW,
    trained: bool = True,
    training_calls: int = 1,
    single: bool = False,
    name: str = "policy",
    sampled: bool = True,
) -> Find:
    """Steps of 10 ms: a function that trains (2 ms in all), and `calls` of one that does not,
    `length` ms each in hundredths.
    """
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        at = number * STEP
        line.event("train", at, STEP, step_num=number, _r=1)
        for _ in range(training_calls):
            line.event("step", at, 2 * MS // training_calls, tf_function_call="notTraced-nonXla")
            line.event("gradient_tape/MatMul:MatMul" if trained else "MatMul:MatMul", at, MS // training_calls)
            at += 2 * MS // training_calls
        for _ in range(calls):
            line.event(name, at, length * MS // 100, tf_function_call="notTraced-nonXla")
            at += length * MS // 100
    row: dict[str, Any] = {
        "file": "/home/me/train.py",
        "line": 20,
        "who": "yours",
        "called_share": 0.3,
        "caller": "train.py:42",
    }
    lines = table(
        "python_lines", python_time.PYTHON_LINES, *([row, {**row, "line": 21, "called_share": 0.1}] if sampled else [])
    )
    jitted = table("jit_calls", jit_calls.JIT_CALLS, *([{"calls": 30.0}] if single else []))
    of = run({python_time.python_lines: lines, jit_calls.jit_calls: jitted}, None, read_trace(space.to_bytes(), "vm"))
    return lambda: evaluation.iter_findings(of, program)


def _eager(program: Workload) -> Iterable[Finding]:
    return _tf(12, 20, eager=10, program=program)()


_GRAPH = "expensive_tf_function"
CASES: list[Case] = [
    fires(
        _GRAPH,
        "every third call is traced for another Python value",
        _tf(18, 46, traced=3, kinds="python value"),
        Severity.HIGH,
        location="train.py:8",
        saves=about(0.06),  # 6 ms each, of which a call that builds nothing takes 4
        takes_from=("compilation", "host_compute", "all_others", "outside"),
        says=("built a new graph in 3 of 10 calls", "tf.constant", "3 was 2"),
        never=("input_signature",),
    ),
    silent(_GRAPH, "building takes 15% of its time", _tf(9, 60, traced=3)),
    silent(_GRAPH, "it was traced once", _tf(30, 60, traced=1)),
    fires(
        _GRAPH,
        "once, for another argument",
        _tf(30, 60, traced=1, kinds="python value"),
        Severity.HIGH,
        location="train.py:8",
        saves=about(0.3 - 0.3 / 9),
        says=("3 was 2",),
    ),
    fires(
        _GRAPH,
        "1.5% of the steps",
        _tf(1.5, 1.5, traced=10),
        Severity.HIGH,
        location="train.py:8",
        saves=about(0.015),
        takes_from=("compilation", "host_compute", "all_others", "outside"),
    ),
    silent(_GRAPH, "0.7% of the steps", _tf(0.7, 1.4, traced=3)),
    fires(
        _GRAPH,
        "eagerly in Keras",
        lambda: _eager(KERAS),
        Severity.MODERATE,
        location="train.py:8",
        saves=about(0.12),
        says=("run_eagerly=True from compile()",),
    ),
    fires(
        _GRAPH,
        "eagerly in a loop",
        lambda: _eager(TENSORFLOW),
        Severity.MODERATE,
        location="train.py:8",
        saves=about(0.12),
        says=("run_functions_eagerly",),
        never=("compile()",),
    ),
    fires(
        "recompiled",
        "built three times in 8% of the steps",
        _compiled(0.08, 3),
        Severity.HIGH,
        location="train.py:12",
        saves=about(0.08),
        takes_from=("compilation", "outside"),
        says=("'step' was compiled 3 times", "static arguments"),
    ),
    fires(
        "recompiled",
        "on each of two hosts",
        _on_hosts(0.3, 5, 2),
        Severity.HIGH,
        location="train.py:12",
        saves=about(0.3),
    ),
    *(
        fires(
            "recompiled",
            f"because of {cause}",
            _compiled(0.3, 9, kinds=kind, cause=cause),
            Severity.HIGH,
            location="train.py:12",
            saves=about(0.3),
            says=(f", because of {first}.", action),
            never=("static arguments or captured",),
        )
        for kind, cause, first, action in (
            ("shape", "x: int32[9] → int32[8]", "x: int32[9] → int32[8]", "Keep the shape of x constant"),
            (
                "shape",
                "x: int32[9] → int32[8]; y: int32[9] → int32[8]",
                "x: int32[9] → int32[8] and 1 more",
                "Keep the shape of x",
            ),
            ("python value", "n: 2 → 3", "n: 2 → 3", "Pass n as an array"),
            ("dtype", "x['w']: int32[9] → Python int", "x['w']: int32[9] → Python int", "Give x one dtype"),
            ("structure", "x[1]: nothing → int32[9]", "x[1]: nothing → int32[9]", "of one structure"),
            (
                "same arguments",
                "the same shapes as before: a new object",
                "the same shapes as before: a new object",
                "outside the loop",
            ),
        )
    ),
    *(
        fires(
            "recompiled",
            f"of which the programs tell {cause}",
            _compiled(0.3, len(programs), programs=(_batches(1), *programs)),
            Severity.HIGH,
            location="train.py:12",
            saves=about(0.3),
            says=(f"{why}.", action),
            never=("Keep shapes and dtypes", *never),
        )
        for cause, programs, why, action, never in (
            (
                "a shape",
                _lengths(8, 9, 7),
                ", because of x: f32[8,4] → f32[9,4] → f32[7,4]",
                "the shape of x constant",
                ("static",),
            ),
            (
                "four shapes",
                _lengths(8, 9, 7, 6),
                ", because of x: f32[8,4] → f32[9,4] → ... → f32[6,4]",
                "to one size",
                ("static",),
            ),
            ("a value", (_batches(8, "0.1"), _batches(8, "0.2")), "keep their shapes and types", "(static_argnums)", ("pad",)),
            ("the form", _lengths(8, 8), "each time to the same program", "(weak types)", ("static", "pad")),
            ("the function", _lengths(8, 8, 8), "each time to the same program", "outside the loop", ("static", "pad")),
        )
    ),
    *(
        fires(
            "recompiled",
            f"for a function of JAX that the line calls, {kind}",
            _compiled(0.3, 9, name="_pad", kinds=kind, cause=cause, called="pad"),
            Severity.HIGH,
            location="train.py:12",
            saves=about(0.3),
            says=("for pad() outside of a jit", *says),
            never=never,
        )
        for kind, cause, says, never in (
            ("shape", "array: f32[9] → f32[8]", ("because of array", "Prepare the data with NumPy (at train.py:12)"), ()),
            ("", "", ("Put what calls it under one jax.jit (at train.py:12)",), ("because", "outside the loop")),
        )
    ),
    silent("recompiled", "3% of the steps", _compiled(0.03, 3)),
    silent("recompiled", "built once", _compiled(0.5, 1)),
    fires(
        "recompiled",
        "a lambda",
        _compiled(0.3, 9, name="<lambda>"),
        Severity.HIGH,
        location="train.py:12",
        saves=about(0.3),
        says=("A lambda",),
    ),
    fires(
        "op_by_op",
        "22 calls, 10% of the step",
        _calls(22, 0.06, 0.04),
        Severity.MODERATE,
        location="train.py:20",
        saves=about(0.10),
        takes_from=("host_compute", "all_others"),
        says=("22 calls", "jax.jit"),
        never=("tf.function",),
    ),
    fires("op_by_op", "half of the step", _calls(30, 0.3, 0.2), Severity.HIGH, location="train.py:20", saves=about(0.5)),
    fires("op_by_op", "30% of the step", _calls(30, 0.3), Severity.HIGH, location="train.py:20", saves=about(0.3)),
    fires("op_by_op", "8% of the step", _calls(30, 0.08), Severity.MODERATE, location="train.py:20", saves=about(0.08)),
    fires(
        "op_by_op",
        "nothing but single ops",
        _calls(40, 0.2),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.2 + 0.8 / 2),
    ),
    fires(
        "read_one_by_one",
        "48 of 50 calls pick elements",
        _calls(50, 0.2, 0.1, picks=48),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.3 + 48 / 500),
        takes_from=("host_compute", "all_others"),
        says=("48 calls", "np.asarray(x)"),
    ),
    silent("read_one_by_one", "30 of 50 calls pick elements", _calls(50, 0.2, picks=30)),
    silent("read_one_by_one", "ten calls", _calls(10, 0.2, picks=10)),
    silent("op_by_op", "calls that pick elements", _calls(50, 0.2, picks=48)),
    fires(
        "arguments_copied",
        "half of the step",
        _copies(0.5),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.5),
        takes_from=("host_compute", "all_others"),
        says=("for the call at train.py:20", "jax.device_put"),
        never=("tf.",),
    ),
    fires("arguments_copied", "12% of the step", _copies(0.12), Severity.MODERATE, location="train.py:20", saves=about(0.12)),
    silent("arguments_copied", "7% of the step", _copies(0.07)),
    fires(
        "arguments_copied",
        "many small arrays",
        _copies(0.5, 40, 200e3),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.5),
        says=("40 arrays of 195 KiB, one by one", "Pack arguments into one array"),
        never=("device_put",),
    ),
    fires(
        "arguments_copied",
        "many large arrays",
        _copies(0.5, 300, 400e3),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.5),
        says=("device_put",),
        never=("one by one",),
    ),
    fires(
        "arguments_copied",
        "some small arrays",
        _copies(0.5, 20, 16384),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.5),
        says=("device_put",),
        never=("one by one",),
    ),
    fires(
        "results_fetched",
        "half of the step",
        _fetches(0.5, 64),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.5),
        takes_from=("host_compute", "kernel_launch", "all_others", "output"),
        says=("behind the call at train.py:20", "in the jitted step"),
    ),
    fires(
        "results_fetched", "12% of the step", _fetches(0.12, 64), Severity.MODERATE, location="train.py:20", saves=about(0.5)
    ),
    fires("results_fetched", "of 1.5 MB", _fetches(0.5, 1.5), Severity.HIGH, location="train.py:20", saves=about(0.5)),
    silent("results_fetched", "7% of the step", _fetches(0.07, 64)),
    silent("results_fetched", "of a loss and some metrics", _fetches(0.5, 0.7)),
    fires(
        "evaluates_in_steps",
        "eight calls that take half of the step",
        _evaluates(8, 60),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.48),
        takes_from=("host_compute", "all_others"),
        says=("'policy' 8 times, at train.py:20, called at train.py:42", "48% of it", "fewer batches", "tf.function"),
    ),
    fires(
        "evaluates_in_steps",
        "of JAX",
        _evaluates(8, 60, program=JAX),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.48),
        says=("jax.vmap",),
    ),
    fires("evaluates_in_steps", "20% of the step", _evaluates(4, 50), Severity.HIGH, location="train.py:20", saves=about(0.2)),
    fires("evaluates_in_steps", "three calls", _evaluates(3, 100), Severity.HIGH, location="train.py:20", saves=about(0.3)),
    silent("evaluates_in_steps", "10% of the step", _evaluates(8, 12)),
    silent("evaluates_in_steps", "called as often as what trains", _evaluates(1, 400)),
    silent("evaluates_in_steps", "one and a half times as often", _evaluates(3, 100, training_calls=2)),
    silent("evaluates_in_steps", "nothing is known to train", _evaluates(8, 60, trained=False)),
    silent("evaluates_in_steps", "of JAX, op by op", _evaluates(8, 60, program=JAX, single=True)),
    fires(
        "evaluates_in_steps",
        "called as often as what trains, and predicts by its name",
        _evaluates(1, 400, name="predict"),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.4),
        says=("'predict' once, at train.py:20",),
    ),
    fires(
        "evaluates_in_steps",
        "once in each step of Keras' own loop, from a callback",
        _evaluates(1, 400, program=KERAS),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.4),
        says=("on_epoch_end", "train.py:20"),
        never=("called at",),
    ),
    silent(
        "evaluates_in_steps", "in every second step of Keras' own loop", _evaluates(1, 400, program=KERAS, training_calls=2)
    ),
    silent("evaluates_in_steps", "in Keras' own loop, by nobody known", _evaluates(8, 60, program=KERAS, sampled=False)),
    silent("op_by_op", "beside the compiled step of Keras' own loop", _calls(40, 0.2, program=KERAS_JAX, compiled=True)),
    fires(
        "op_by_op",
        "the step of Keras' own loop, which is not compiled",
        _calls(400, 0.5, program=KERAS_JAX),
        Severity.HIGH,
        location="train.py:20",
        saves=about(0.75),
        says=("compile() without run_eagerly=True", "jit_compile=True"),
        never=("jax.jit into",),
    ),
    silent("op_by_op", "eighteen calls: the glue of a loop", _calls(18, 0.3)),
    silent("op_by_op", "3% of the step", _calls(30, 0.03)),
]
