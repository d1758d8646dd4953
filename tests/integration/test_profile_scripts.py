"""`run_script` on real scripts: they behave as under plain Python, and a window of their steps is
captured.

The scripts run real TensorFlow in processes of their own; the ones that only test faithfulness
import nothing.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outpace.capture import CaptureOptions, CaptureResult, run_script
from outpace.store.logdir import find_profiles

needs_tensorflow = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")

SETUP = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import sys, time
import numpy as np
import tensorflow as tf
import keras

def slow(x):
    time.sleep(0.002)
    return x

data = tf.data.Dataset.range(320)
data = data.map(lambda i: (tf.random.uniform([8]), i % 2)).map(lambda x, y: (tf.numpy_function(slow, [x], tf.float32), y))
data = data.map(lambda x, y: (tf.ensure_shape(x, [8]), y)).batch(8)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2)])
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss_of)
optimizer = keras.optimizers.SGD()
"""

STEP = """
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
"""


@dataclass
class Run:
    result: CaptureResult
    out: str
    err: str

    @property
    def profile(self) -> str:
        assert self.result.run is not None, self.result.reason
        return find_profiles(self.result.run).files[0].path


@pytest.fixture
def profile(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[..., Run]:
    """Write a script into an empty folder, run it from there, and answer what came of it. A test
    that fails shows what the script wrote to stderr.
    """
    monkeypatch.chdir(tmp_path)

    def run(text: str, *argv: str, **options: Any) -> Run:
        (tmp_path / "job.py").write_text(textwrap.dedent(text))
        result = run_script("job.py", argv, CaptureOptions(**{"warmup": 4, "steps": 6, "after": 2, **options}))
        out, err = capfd.readouterr()
        request.node.add_report_section("call", "stderr of the script", f"{result}\n{err}")
        return Run(result, out, err)

    return run


@dataclass
class Mark:
    name: str
    number: int
    start: int
    end: int


def read_marks(path: str) -> tuple[list[Mark], dict[str, set[str]], list[tuple[str, int, int]]]:
    """Step marks, the tf.data stage names by iterator, and all events of the marks' thread, by
    TensorFlow's own parser.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    space = xplane_pb2.XSpace.FromString(Path(path).read_bytes())
    names: dict[str, set[str]] = {}
    marks, events = [], []
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                title = plane.event_metadata[event.metadata_id].name
                stats = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
                start, end = event.offset_ps, event.offset_ps + event.duration_ps
                if "_r" in stats and "step_num" in stats:
                    marks.append(Mark(title, stats["step_num"].int64_value or stats["step_num"].uint64_value, start, end))
                if title.startswith("Iterator::") and "name" in stats:
                    stat = stats["name"]
                    name = stat.str_value or plane.stat_metadata[stat.ref_value].name
                    names.setdefault(title.rpartition("::")[2], set()).add(name)
                events.append((title, start, end))
    return sorted(marks, key=lambda mark: mark.start), names, events


def own_lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("outpace: ")]


# --- the script behaves as under plain Python
# -----------------------------------------------------------------------


def test_main_module_arguments_and_folder_are_the_scripts_own(profile: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'found'\n")
    done = profile(
        """
        import multiprocessing, os, pickle, sys
        early = {"numpy", "tensorflow", "fsspec", "rich"} & set(sys.modules)
        import neighbour

        class Thing:
            pass

        def square(x):
            return x * x

        if __name__ == "__main__":
            print(sys.argv, os.path.realpath(__file__), __spec__, os.getcwd(), sys.path[0], neighbour.NAME, early, sep="|")
            print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, sys.modules["__main__"].Thing is Thing)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(square, [3]))
            sys.exit(7)
        """,
        "--epochs",
        "two words",
    )
    here = os.path.realpath(tmp_path)
    first, second, third = done.out.splitlines()
    assert first == f"['job.py', '--epochs', 'two words']|{here}/job.py|None|{here}|{here}|found|set()"
    assert (second, third) == ("True True", "[9]")
    assert done.result.exit_code == 7
    assert done.result.run is None
    assert done.result.reason is not None and "before it imported TensorFlow or JAX" in done.result.reason


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit('a last word')", 1),
        ("import sys; sys.exit(None)", 0),
        ("raise SystemExit(259)", 3),
        ("def f():\n    raise KeyError('x')\ntry:\n    f()\nexcept KeyError as e:\n    raise ValueError('bad') from e", 1),
        ("x = (\n", 1),
        ("import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\n1/0", 1),
        ("import atexit\nf = open('left.txt', 'w')\nf.write('unflushed')\natexit.register(print, 'bye')", 0),
    ],
)
def test_outcome_and_output_equal_plain_python(profile: Callable[..., Run], tmp_path: Path, text: str, code: int) -> None:
    done = profile(text)
    left = tmp_path / "left.txt"
    written = left.read_text() if left.exists() else None
    plain = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.result.exit_code == plain.returncode == code
    assert (done.out, done.err) == (plain.stdout, plain.stderr)
    assert written == (left.read_text() if left.exists() else None)


def test_module_runs_like_python_m(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "__main__.py").write_text("import sys\nprint(__name__, __package__, sys.argv, __spec__.name)\n")
    result = run_script("pack", ["a"], CaptureOptions(module=True))
    plain = subprocess.run([sys.executable, "-m", "pack", "a"], capture_output=True, text=True, check=False)
    assert result.exit_code == 0
    assert capfd.readouterr().out == plain.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_the_script(tmp_path: Path, number: signal.Signals, code: int) -> None:
    (tmp_path / "job.py").write_text(
        "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
        "    print('cleaning up', flush=True)\n    raise\n"
    )
    driver = (
        "from outpace.capture import CaptureOptions, run_script\n"
        "result = run_script('job.py', [], CaptureOptions())\nprint('code', result.exit_code)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", driver],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal, so the parent must pass the signal on
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=180)
    assert f"code {code}" in out
    assert ("cleaning up" in out) == (number == signal.SIGINT)


# --- what is captured
# -----------------------------------------------------------------------------------------------


@needs_tensorflow
def test_keras_fit_has_exactly_the_steps_and_named_stages(profile: Callable[..., Run]) -> None:
    done = profile(SETUP + "model.fit(data, epochs=9, verbose=0, validation_data=data.take(3))\nprint('never printed')\n")
    assert done.result.exit_code == 0
    assert done.result.stopped
    assert "never printed" not in done.out
    marks, names, _ = read_marks(done.profile)
    assert [(mark.name, mark.number) for mark in marks] == [("train", number) for number in range(4, 10)]
    assert min(mark.end - mark.start for mark in marks[1:]) > 10e9  # 8 samples of 2 ms each: the input is inside the mark
    record = done.result.record
    assert record is not None
    assert record.mode == "keras fit"
    assert [len(part) for part in (record.overhead.before_ns, record.overhead.during_ns, record.overhead.after_ns)] == [2, 6, 2]
    assert record.exit == 0 and record.stopped
    by_label = {stage.label: stage for stage in record.pipeline}
    assert "job_py_L14_map_2" in by_label  # two maps on one line
    assert any("job_py_L15_batch" in name for found in names.values() for name in found)
    assert names["Map"] >= {"job_py_L14_map", "job_py_L14_map_2"}
    second = by_label["job_py_L14_map_2"]
    assert second.inputs == (by_label["job_py_L14_map"].id,)
    assert second.stateful == ("PyFunc",)
    assert by_label["job_py_L14_map"].stateful == ("RandomUniform",)
    assert by_label["job_py_L15_batch"].kwargs == {"batch_size": 8}
    assert re.fullmatch(r"outpace: capturing steps 4-9, keras fit …", own_lines(done.err)[0])
    assert own_lines(done.err)[1].startswith("outpace: captured 6 steps in ")
    assert not [name for name in os.listdir("outpace-logs") if name.startswith(".")]


@needs_tensorflow
def test_custom_loop_marks_hold_the_input_they_waited_for(profile: Callable[..., Run]) -> None:
    body = STEP.replace("def step", "@tf.function\ndef step")
    done = profile(
        SETUP + body + "for epoch in range(2):\n    for x, y in data:\n        step(x, y)\nprint('end')\n", stop=False
    )
    assert done.out == "end\n"
    assert not done.result.stopped
    marks, _, events = read_marks(done.profile)
    assert [mark.number for mark in marks] == list(range(4, 10))
    for earlier, later in itertools.pairwise(marks):
        assert (
            0 <= later.start - earlier.end < 0.1 * (later.end - earlier.start)
        )  # contiguous, but for what a busy machine adds
    roots = [(start, end) for title, start, end in events if title == "Iterator::Root"]
    for mark in marks:
        assert any(mark.start <= start and end <= mark.end for start, end in roots)
    record = done.result.record
    assert record is not None and record.mode == "custom loop"
    assert len(record.overhead.after_ns) > 20


@needs_tensorflow
def test_eager_loop_is_anchored_on_the_iterator(profile: Callable[..., Run]) -> None:
    done = profile(SETUP + STEP + "for words, _ in data.take(6):\n    pass\nfor x, y in data:\n    step(x, y)\n")
    marks, _, events = read_marks(done.profile)
    assert [mark.number for mark in marks] == list(range(4, 10))
    roots = [(start, end) for title, start, end in events if title == "Iterator::Root"]
    for mark in marks:
        assert sum(mark.start <= start and end <= mark.end for start, end in roots) == 1
    assert done.result.record is not None and done.result.record.mode == "eager loop"


@needs_tensorflow
@pytest.mark.parametrize("namespace", ["tf", "tf.compat.v2"])  # Keras 2 marks its steps by the second one
def test_own_marks_are_used_as_they_are(profile: Callable[..., Run], namespace: str) -> None:
    body = STEP.replace("def step", "@tf.function\ndef step") + (
        "it = iter(data.repeat())\n"
        "for n in range(100, 140):\n"
        f"    with {namespace}.profiler.experimental.Trace('train', step_num=n, _r=1):\n"
        "        step(*next(it))\n"
    )
    done = profile(SETUP + body)
    marks, _, _ = read_marks(done.profile)
    assert [mark.number for mark in marks] == list(range(104, 110))
    assert done.result.record is not None and done.result.record.mode == "own marks"


@needs_tensorflow
def test_several_steps_per_call_are_recorded(profile: Callable[..., Run]) -> None:
    body = "model.compile('sgd', loss_of, steps_per_execution=4)\nmodel.fit(data, epochs=3, verbose=0)\n"
    done = profile(SETUP + body, warmup=2, steps=3)
    marks, _, _ = read_marks(done.profile)
    assert len(marks) == 3
    assert done.result.record is not None and done.result.record.steps_per_execution == 4


@needs_tensorflow
def test_script_within_the_warm_up_says_what_to_do(profile: Callable[..., Run]) -> None:
    done = profile(SETUP + "model.fit(data.take(3), verbose=0)\nprint('done')\n", warmup=10)
    assert (done.out, done.result.exit_code, done.result.run) == ("done\n", 0, None)
    assert done.result.reason == (
        "The script ended after 3 steps (keras fit), within the warm-up of 10. Let it run longer, or use --warmup 1 --steps 1."
    )


@needs_tensorflow
def test_failure_inside_the_window_saves_what_there_is(profile: Callable[..., Run], tmp_path: Path) -> None:
    body = (
        "class Bad(keras.callbacks.Callback):\n"
        "    def on_train_batch_begin(self, batch, logs=None):\n"
        "        if batch == 7:\n"
        "            raise RuntimeError('broken at 7')\n"
        "model.fit(data, verbose=0, callbacks=[Bad()])\n"
    )
    done = profile(SETUP + body)
    assert done.result.exit_code == 1
    assert "RuntimeError: broken at 7" in done.err
    assert "outpace/capture" not in done.err
    assert done.result.record is not None
    assert done.result.record.window.steps == 3
    assert done.result.record.exit == 1


@needs_tensorflow
def test_scripts_own_profiler_is_left_alone(profile: Callable[..., Run], tmp_path: Path) -> None:
    body = (
        "class Own(keras.callbacks.Callback):\n"
        "    def on_train_batch_begin(self, batch, logs=None):\n"
        "        if batch == 6:\n"
        "            tf.profiler.experimental.start('own')\n"
        "    def on_train_batch_end(self, batch, logs=None):\n"
        "        if batch == 12:\n"
        "            tf.profiler.experimental.stop()\n"
        "model.fit(data, verbose=0, callbacks=[Own()])\n"
        "print('done')\n"
    )
    done = profile(SETUP + body, stop=False)
    assert (done.out, done.result.exit_code) == ("done\n", 0)
    assert len(list((tmp_path / "own").rglob("*.xplane.pb"))) == 1
    marks, _, _ = read_marks(done.profile)  # ours came after theirs
    assert len(marks) == 6
    assert marks[0].number >= 12
    assert any("gives way" in line for line in own_lines(done.err))


@needs_tensorflow
def test_seconds_capture_a_script_without_visible_steps(profile: Callable[..., Run]) -> None:
    body = "@tf.function\ndef spin(n):\n    for _ in tf.range(n):\n        tf.random.uniform([64])\nspin(10**9)\n"
    timer = "import threading\nthreading.Timer(600, lambda: os._exit(5)).start()\n"
    done = profile(SETUP + timer + body, steps=None, seconds=0.5, delay=2.0)
    assert done.result.run is not None
    assert done.result.record is not None and done.result.record.mode == "seconds"
    assert (done.result.exit_code, done.result.stopped) == (0, True), "a call that never comes back is no reason to wait"


@needs_tensorflow
def test_a_script_that_ends_itself_in_the_window_leaves_nothing_behind(profile: Callable[..., Run], tmp_path: Path) -> None:
    body = (
        "class End(keras.callbacks.Callback):\n"
        "    def on_train_batch_end(self, batch, logs=None):\n"
        "        if batch == 12:\n"
        "            os._exit(7)\n"
        "model.fit(data, verbose=0, callbacks=[End()])\n"
    )
    done = profile(SETUP + body, warmup=10, steps=20)
    assert (done.result.run, done.result.exit_code) == (None, 7)
    assert done.result.reason == "The script's process ended at once with code 7, so nothing was saved."
    assert not list(tmp_path.rglob(".outpace-*"))


def test_a_crash_shows_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import ctypes\n\ndef load():\n    ctypes.string_at(0)\n\nload()\n")
    done = subprocess.run(
        [sys.executable, "-m", "outpace", "profile", "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 139
    assert "Segmentation fault" in done.stderr and 'train.py", line 4 in load' in done.stderr
    assert "ended by SIGSEGV" in done.stderr


def test_a_lost_capture_is_said_beside_the_scripts_own_exit_code(tmp_path: Path) -> None:
    (tmp_path / "end.py").write_text("import os\nos._exit(7)\n", encoding="utf-8")
    command = [sys.executable, "-m", "outpace.cli", "profile", "end.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7
    assert "outpace: The script's process ended at once with code 7, so nothing was saved.\n" in done.stderr


@needs_tensorflow
def test_the_stop_runs_none_of_the_scripts_code(profile: Callable[..., Run]) -> None:
    """A `finally:` that saves the model would overwrite a trained one."""
    body = (
        "import atexit, contextlib, threading\n"
        "atexit.register(print, 'exit handler')\n"
        "@contextlib.contextmanager\n"
        "def saving():\n"
        "    try:\n"
        "        yield\n"
        "    finally:\n"
        "        print('left')\n"
        "def endless():\n"
        "    while True:\n"
        "        time.sleep(0.001)\n"
        "        yield np.ones(8, 'float32'), 1\n"
        "spec = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((), tf.int32))\n"
        "endless_data = tf.data.Dataset.from_generator(endless, output_signature=spec).batch(8).prefetch(4)\n"
        "print('before')\n"
        "try:\n"
        "    with saving():\n"
        "        model.fit(endless_data, steps_per_epoch=1000, verbose=0)\n"
        "except BaseException:\n"
        "    print('must not be caught')\n"
        "finally:\n"
        "    print('cleaned up')\n"
    )
    done = profile(SETUP + body)
    assert (done.out, done.result.exit_code, done.result.stopped) == ("before\n", 0, True)
    _, names, _ = read_marks(done.profile)
    assert "job_py_L33_from_generator" in names["FlatMap"]
