"""Python of the training thread, and threads beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts import python_lines as python_time
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.budget import budgets
from outpace.metrics.views import jit_calls
from outpace.metrics.views import thread_lines as python_threads
from outpace.model import Category, Severity
from outpace.testing import training_run
from outpace.tools.python_time import background_threads
from outpace.tools.python_time import findings as rules
from outpace.trace import read_trace
from tests.advice_cases.build import HOST, STEP, STEPS, budget, computes, run, table
from tests.advice_cases.case import JAX, KERAS, TENSORFLOW, Case, Find, about, fires, silent, worded

_FILE = "/home/me/train.py"


def _lines(*rows: dict[str, Any], program: Workload = TENSORFLOW, ops: float = 0.9, step: int = STEP) -> Find:
    """Sampled lines of the training thread; the model's ops run in `ops` of the step, of which a
    fifth waits for input.
    """
    usual = {"file": _FILE, "function": "augment", "who": "yours", "self_ps": STEP // 10}
    lines = table("python_lines", python_time.PYTHON_LINES, *({**usual, "line": 10 + at, **row} for at, row in enumerate(rows)))
    given = {python_time.python_lines: lines, jit_calls.jit_calls: table("jit_calls", jit_calls.JIT_CALLS)}
    trace = read_trace(training_run(steps=STEPS, step_ps=step, input_ps=step // 5, ops=(), hostname=HOST).to_bytes(), HOST)
    of = run({**given, model_ops: computes(ops)}, None, trace)
    return lambda: rules.iter_findings(of, program)


def _line(share: float, python: float = 1.0, samples: int = 1000, program: Workload = TENSORFLOW, **more: Any) -> Find:
    row = {"beside_share": share, "python_share": share * python, "samples": round(samples / share), **more}
    return _lines(row, program=program)


def _made_at(*shares: float, maker: str = "train.py:56") -> Find:
    """Functions that a data set calls at one line, each with its share of the step."""
    rows: list[dict[str, Any]] = [
        {"beside_share": share, "python_share": share, "function": f"make_{n}", "samples": 1000 // len(shares), "maker": maker}
        for n, share in enumerate(shares)
    ]
    return _lines(*rows)


def sampled(share: float, samples: int = 1000) -> tuple[float, float]:
    """A range around the upper end of the interval of a share, as `samples` samples of it give it:
    what is saved at most.
    """
    return about(python_time.wilson_interval(share, round(samples / share))[1])


def _framework(share: float, program: Workload = TENSORFLOW, ops: float = 0.9, step: int = STEP, **more: Any) -> Find:
    """A line that calls the step, unless `more` says otherwise: a framework's own Python there
    takes `share` of the step.
    """
    return _lines(
        {
            "library": "keras",
            "python_share": share,
            "untraced_share": share,
            "untraced_ps": round(share * STEP),
            "samples": 900,
            **({"calls_step": True} | more),
        },
        program=program,
        ops=ops,
        step=step,
    )


def _waits(*threads: dict[str, Any], share: float = 0.3, program: Workload = JAX) -> Find:
    """A line that waits for the program's own threads, for `share` of the step."""
    usual = {"thread": "loader", "file": _FILE, "function": "load", "line": 40, "source": "train.py:40", "cores": 0.3}
    line = {"file": _FILE, "function": "next_batch", "who": "yours", "self_ps": STEP // 10, "line": 10, "library": "python"}
    line |= {
        "below": "python: Condition.wait",
        "below_share": 1.0,
        "share": share,
        "beside_share": share,
        "python_share": share,
    }
    lines = table("python_lines", python_time.PYTHON_LINES, {**line, "samples": round(1000 / share)})
    works = table("thread_lines", python_threads.THREAD_LINES, *({**usual, **thread} for thread in threads))
    given = {python_time.python_lines: lines, jit_calls.jit_calls: table("jit_calls", jit_calls.JIT_CALLS)}
    trace = read_trace(training_run(steps=STEPS, step_ps=STEP, ops=(), hostname=HOST).to_bytes(), HOST)
    of = run({**given, python_threads.thread_lines: works, model_ops: computes(0.5)}, None, trace)
    return lambda: rules.iter_findings(of, program)


TRAIN, SEARCH = 0, 1  # stacks: the training's loop calls the step, or a function that it calls does


def _loops(stacks: Sequence[int]) -> Find:
    """Samples 10 ms apart of two functions that call the step's own."""
    frames = [(_FILE, "train", 1, ""), (_FILE, "try_rate", 30, "")]
    record = {
        "frames": frames,
        "stacks": [[(0, 12)], [(0, 20), (1, 31)]],
        "samples": [(number * 10_000_000, 10_000_000, stack) for number, stack in enumerate(stacks)],
    }
    usual = {"file": _FILE, "who": "yours", "calls_step": True}
    rows = [
        {**usual, "line": line, "function": function, "self_ps": time}
        for line, function, time in ((12, "train", 2 * STEP), (31, "try_rate", STEP))
    ]
    given = {
        python_time.python_lines: table("python_lines", python_time.PYTHON_LINES, *rows),
        jit_calls.jit_calls: table("jit_calls", jit_calls.JIT_CALLS),
        model_ops: computes(0.9),
    }
    trace = read_trace(training_run(steps=STEPS, step_ps=STEP, ops=(), hostname=HOST).to_bytes(), HOST)
    of = run(given, {"python_samples": record}, trace)
    return lambda: rules.iter_findings(of, JAX)


def _locks(cores: float, idle: float, program: Workload = KERAS) -> Find:
    """Other threads run Python with so many cores; no op of the model runs in `idle` of
    the step.
    """
    row = {"thread": python_threads.NATIVE_THREAD, "file": _FILE, "line": 40, "function": "generate", "source": "train.py:40"}
    works = table("thread_lines", python_threads.THREAD_LINES, {**row, "cores": cores})
    trace = read_trace(training_run(steps=STEPS, step_ps=STEP, input_ps=0, ops=(), hostname=HOST).to_bytes(), HOST)
    of = run({python_threads.thread_lines: works, model_ops: computes(1 - idle)}, None, trace)
    return lambda: background_threads.iter_lock_findings(of, program, budgets(of))


def _beside(cores: float, busy: float) -> Find:
    """A function of another thread takes `cores` of four, which are `busy`; the model computes in
    80% of the step.
    """
    row = {"thread": "Thread-1", "file": _FILE, "line": 40, "function": "watch", "source": "train.py:40", "cores": cores}
    native = {**row, "thread": python_threads.NATIVE_THREAD, "function": "generate", "cores": 3.0}
    of = run({python_threads.thread_lines: table("thread_lines", python_threads.THREAD_LINES, row, native)}, {"cpu_count": 4})
    saturation = table("saturation", cpu_saturation.SATURATION, {"saturation": busy})
    known = budget({Category.HOST_COMPUTE: 0.8, Category.ALL_OTHERS: 0.2})
    return lambda: background_threads.iter_findings(of, known, saturation)


def _of_a_framework(**other: Any) -> Find:
    """A line of the loop below which JAX works beside the step, and another line."""
    mine = {"library": "jax", "below": "jax: asarray", "beside_share": 0.25, "python_share": 0.25, "samples": 900}
    return _lines(mine, {"function": "train", "library": "jax", "samples": 900, **other}, program=JAX)


def _six() -> Find:
    return _lines(*({"function": f"part_{n}", "beside_share": 0.05, "python_share": 0.05, "samples": 500} for n in range(6)))


_LINE: dict[str, Any] = {"location": "train.py:10"}
_ALONE: dict[str, Any] = {**_LINE, "takes_from": ("all_others",)}
_TRACED: dict[str, Any] = {**_LINE, "takes_from": ("all_others", "host_compute", "output")}
_OWN: dict[str, Any] = {"location": "train.py:10", "takes_from": ("all_others", "host_compute")}
_THREAD: dict[str, Any] = {"location": "train.py:40", "takes_from": ("host_compute",)}
CASES: list[Case] = [
    *worded(
        "python_line",
        lambda program: _line(0.25, program=program, library="scipy", below="scipy: filter")(),
        Severity.HIGH,
        keras="out of the training loop",
        tensorflow="vectorise it",
        jax="jax.jit",
        saves=sampled(0.25),
        **_ALONE,
    ),
    *(
        fires(
            "python_line",
            f"Python alone, {program}",
            _line(0.25, program=program),
            Severity.HIGH,
            saves=sampled(0.25),
            says=(says, "a thread would compete for the GIL"),
            **_ALONE,
        )
        for program, says in (
            (KERAS, "or do it every N batches"),
            (TENSORFLOW, "in the tf.function"),
            (JAX, "put it under jax.jit"),
        )
    ),
    fires(
        "python_line",
        "a line that builds graphs as well",
        _line(0.25, building_ps=round(0.3 * STEP)),
        Severity.HIGH,
        saves=about(sum(sampled(0.25)) / 2 + 0.3),
        says=("it builds graphs for 30% of the step besides",),
        location="train.py:10",
        takes_from=("all_others", "compilation"),
    ),
    fires("python_line", "10% of the step", _line(0.1), Severity.MODERATE, saves=sampled(0.1), **_ALONE),
    fires("python_line", "5% of the step", _line(0.05), Severity.MODERATE, saves=sampled(0.05), says=("augment()",), **_ALONE),
    silent("python_line", "2% of the step", _line(0.02)),
    fires(
        "python_line",
        "in functions that a data set calls",
        _made_at(0.2, 0.1),
        Severity.HIGH,
        saves=sampled(0.3, 300),
        location="train.py:56",
        says=("make_0() and make_1() (train.py:56) takes", "(30%)", "Do the work once per element (at train.py:56)"),
    ),
    fires(
        "python_line",
        "in one that a data set calls",
        _made_at(0.2),
        Severity.HIGH,
        saves=sampled(0.2, 200),
        says=("make_0() (train.py:10)", "Do the work once per element"),
        **_ALONE,
    ),
    fires("python_line", "most has events", _line(0.25, 0.35), Severity.HIGH, saves=sampled(0.25), says=("beside",), **_TRACED),
    fires(
        "python_line",
        "most has none",
        _line(0.25, 0.7),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("nothing else of the step",),
        **_ALONE,
    ),
    fires("python_line", "15 samples", _line(0.25, samples=15), Severity.HIGH, saves=sampled(0.25, 15), **_ALONE),
    fires("python_line", "30 samples", _line(0.25, samples=30), Severity.HIGH, saves=sampled(0.25, 30), **_ALONE),
    fires("python_line", "six functions", _six(), Severity.MODERATE, saves=sampled(0.05, 150), **_ALONE),
    fires(
        "python_line",
        "it saves",
        _line(0.25, library="numpy", below="numpy: savez"),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("Save less often",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "it logs",
        _line(0.25, library="logging", below="logging: emit"),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("Log and format less often",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "a logarithm is no log",
        _line(0.25, library="scipy", below="scipy: logsumexp"),
        Severity.HIGH,
        saves=sampled(0.25),
        never=("Log and format",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "to rewrite is not to write",
        _line(0.25, function="rewrite_labels"),
        Severity.HIGH,
        saves=sampled(0.25),
        never=("Save less often",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "it converts",
        _line(0.25, library="numpy", below="numpy: asarray"),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("Convert and copy once", "what changes for a whole batch"),
        **_ALONE,
    ),
    fires(
        "python_line",
        "to compare arrays is not to convert them",
        _line(0.25, library="numpy", below="numpy: array_equal"),
        Severity.HIGH,
        saves=sampled(0.25),
        never=("Convert and copy",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "it comes round",
        _line(0.25, seldom=0.8),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("it runs in few steps",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "half of it comes round",
        _line(0.25, seldom=0.5),
        Severity.HIGH,
        saves=sampled(0.25),
        never=("it runs in few steps",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "more than the step could hide",
        _line(0.6),
        Severity.HIGH,
        saves=sampled(0.6),
        says=(": do it less often", "hides no more"),
        never=("before the training",),
        **_ALONE,
    ),
    *worded(
        "python_line",
        lambda program: _line(0.6, program=program)(),
        Severity.HIGH,
        name="much of the step",
        keras="in the model or its input pipeline",
        tensorflow="in the tf.function or the input pipeline",
        jax="jax.numpy, in the jitted step",
        saves=sampled(0.6),
        **_ALONE,
    ),
    *worded(
        "python_line",
        lambda program: _line(0.6, program=program, library="numpy", below="numpy: _quantile", reads_variable=True)(),
        Severity.HIGH,
        name="of the weights",
        keras="fewer of them, or with keras.ops",
        tensorflow="fewer of them, or with TensorFlow's ops",
        jax="fewer of them, or with jax.numpy",
        saves=sampled(0.6),
        **_ALONE,
    ),
    fires(
        "python_line",
        "a function that the loop calls now and then",
        _line(0.25, caller="train.py:42", every=10),
        Severity.HIGH,
        saves=sampled(0.25),
        says=("augment() (train.py:10, called at train.py:42, once in 10 steps)",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "Keras calls it",
        _line(0.25, caller="train.py:42", program=KERAS),
        Severity.HIGH,
        saves=sampled(0.25),
        never=("called at",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "the step can hide it",
        _line(0.35, library="scipy", below="scipy: filter"),
        Severity.HIGH,
        saves=sampled(0.35),
        says=("off the training thread",),
        never=("hides no more",),
        **_ALONE,
    ),
    fires(
        "python_line",
        "it calls the step",
        _line(0.6, 0.2, calls_step=True),
        Severity.MODERATE,
        saves=sampled(0.12, 200),
        **_ALONE,
    ),
    fires(
        "python_line",
        "JAX, beside the step",
        _of_a_framework(calls_step=True),
        Severity.HIGH,
        saves=sampled(0.25, 450),
        **_ALONE,
    ),
    silent("python_line", "JAX, and no step of its own", _of_a_framework()),
    silent("python_line", "tf.data's fetch", _line(0.25, library="tensorflow", below="tensorflow: iterator_get_next")),
    *worded(
        "small_steps",
        lambda program: _framework(0.2, program)(),
        Severity.HIGH,
        keras="steps_per_execution=16",
        tensorflow="tf.while_loop",
        jax="jax.lax.scan",
        saves=about(0.2),
        **_OWN,
    ),
    fires("small_steps", "12% of the step", _framework(0.12), Severity.MODERATE, saves=about(0.12), **_OWN),
    fires(
        "small_steps",
        "where no line of the program led",
        _framework(0.12, who="library", calls_step=False),
        Severity.MODERATE,
        saves=about(0.12),
        takes_from=("all_others", "host_compute"),
    ),
    fires(
        "small_steps",
        "ops run in a third of the step",
        _framework(0.12, ops=0.33),
        Severity.MODERATE,
        saves=about(0.47),  # a fifth waits for input
        **_OWN,
    ),
    fires(
        "small_steps",
        "a gradient outside of a compiled function",
        _framework(0.2, program=JAX, library="jax", differentiates=True),
        Severity.HIGH,
        saves=about(0.2),
        says=("differentiates anew in each step", "under one jax.jit, its gradient included"),
        never=("larger batch",),
        **_OWN,
    ),
    silent("small_steps", "beside the step", _framework(0.2, calls_step=False)),
    silent("small_steps", "7% of the step", _framework(0.07)),
    fires(
        "background_threads",
        "0.3 cores",
        _beside(0.3, 0.95),
        Severity.MODERATE,
        saves=about(0.06),
        says=("watch()",),
        never=("generate()",),
        **_THREAD,
    ),
    fires("background_threads", "0.7 cores", _beside(0.7, 0.95), Severity.MODERATE, saves=about(0.14), **_THREAD),
    fires("background_threads", "1.5 cores", _beside(1.5, 0.95), Severity.HIGH, saves=about(0.3), **_THREAD),
    fires(
        "python_line",
        "it waits for threads of the program's own",
        _waits({"thread": "a"}, {"thread": "b"}, {"thread": "b", "line": 41, "source": "train.py:41", "cores": 0.1}),
        Severity.HIGH,
        saves=sampled(0.3),
        location="train.py:40",
        takes_from=("all_others",),
        says=("next_batch() (train.py:10) waits", "load() at train.py:40 (with 0.7 cores)", "share one lock"),
        never=("Vectorise",),
    ),
    fires(
        "python_line",
        "it waits for one thread",
        _waits({}),
        Severity.HIGH,
        saves=sampled(0.3),
        location="train.py:40",
        says=("in other processes",),
    ),
    fires(
        "python_line",
        "it waits for a thread that computes little",
        _waits({"cores": 0.15}),
        Severity.HIGH,
        saves=sampled(0.3),
        location="train.py:40",
        says=("load() at train.py:40",),
    ),
    fires(
        "python_line",
        "it waits for nobody known",
        _waits({"cores": 0.05}, {"thread": python_threads.NATIVE_THREAD}),
        Severity.HIGH,
        saves=sampled(0.3),
        location="train.py:10",
        says=("waits for another thread",),
        never=("Vectorise",),
    ),
    *worded(
        "interpreter_lock",
        lambda program: _locks(0.8, 0.7, program)(),
        Severity.HIGH,
        keras="use_multiprocessing=True",
        tensorflow="tf.io",
        jax="worker processes",
        saves=about(0.7),
        location="train.py:40",
    ),
    fires(
        "interpreter_lock",
        "half of the time, and ops run as long",
        _locks(0.6, 0.5),
        Severity.HIGH,
        saves=about(0.5),
        location="train.py:40",
    ),
    silent("interpreter_lock", "0.4 cores", _locks(0.4, 0.7)),
    silent("interpreter_lock", "ops run in most of the step", _locks(0.8, 0.2)),
    fires(
        "other_loop",
        "a search that calls the step for as long as ten steps do",
        _loops([TRAIN] * 60 + [SEARCH] * 30 + [TRAIN] * 60 + [SEARCH] * 30),
        Severity.HIGH,
        location="train.py:20",
        says=("try_rate() (train.py:31, called at train.py:20) calls the step's function in a loop of its own, for 33%",),
        saves=about(0.403),
        takes_from=("host_compute", "all_others"),
    ),
    silent("other_loop", "two models that every step trains", _loops([TRAIN, TRAIN, SEARCH] * 60)),
    silent("other_loop", "a tenth of the time", _loops([TRAIN] * 160 + [SEARCH] * 18)),
    silent("other_loop", "few samples", _loops([TRAIN] * 20 + [SEARCH] * 8)),
    silent("background_threads", "0.15 cores", _beside(0.15, 0.95)),
    silent("background_threads", "cores are free", _beside(1.5, 0.6)),
]
