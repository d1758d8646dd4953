# SPDX-License-Identifier: Apache-2.0
"""The trial captures: three steps of a tiny program are captured as `outpace profile` does it, and
the profile is read.

Where JAX trains on a GPU, a second trial captures by time while the program works on: with some
versions the program crashes then.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from outpace.capture.process_tree import ProcessTree
from outpace.capture.runner import explain_crash, signal_name
from outpace.doctor import cupti
from outpace.doctor.facts import DoctorFacts, FrameworkFacts, TimedTrialCapture, TrialCapture, last_lines
from outpace.doctor.result import CheckResult, note, ok, problem, unchecked
from outpace.doctor.system import CommandResult, System
from outpace.model.errors import OutpaceError
from outpace.model.units import format_count

if TYPE_CHECKING:
    from outpace.trace import Trace

TRIAL_TIMEOUT_S = 180.0
TRIAL_STEPS = 3
_TAIL_LINES = 200  # kept lines of what the framework printed: an error of CUPTI stands before many others

_SCRIPTS = {
    "tensorflow": """
import tensorflow as tf

weights = tf.Variable(tf.ones([64, 64]))


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights)))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for batch in tf.data.Dataset.range(40).map(lambda i: tf.ones([64, 64])):
    train_step(batch)
""",
    "jax": """
import jax
import jax.numpy as jnp


@jax.jit
def train_step(weights, batch):
    return weights - 0.01 * jax.grad(lambda w: jnp.mean(jnp.square(batch @ w)))(weights)


weights, batch = jnp.ones((64, 64)), jnp.ones((64, 64))
for number in range(40):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        weights = train_step(weights, batch).block_until_ready()
""",
}
_RUNS_ON_S = 4.0  # that the program of the second trial works, the capture inside it
_BY_TIME = f"""
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(weights, batch):
    def loss(w):
        for _ in range(8):
            w = jnp.tanh(batch @ w)
        return jnp.mean(jnp.square(w))

    return weights - 0.01 * jax.grad(loss)(weights)


weights, batch = jnp.ones((64, 64)), jnp.ones((64, 64))
weights = train_step(weights, batch).block_until_ready()
until = time.monotonic() + {_RUNS_ON_S}
while time.monotonic() < until:
    for _ in range(100):
        weights = train_step(weights, batch)
    weights.block_until_ready()
"""
_RUNNER = """
import json, sys
from outpace.capture import CaptureOptions, run_script

script, logdir, answer, steps = sys.argv[1:]
window = dict(warmup=5, steps=int(steps), after=0) if steps != "0" else dict(steps=None, seconds=0.5, delay=0.0, stop=False)
try:
    result = run_script(script, [], CaptureOptions(logdir=logdir, **window))
    found = {"run": result.run, "reason": result.reason, "exit_code": result.exit_code}
except Exception as error:
    found = {"run": None, "reason": f"{type(error).__name__}: {error}", "exit_code": 1}
with open(answer, "w", encoding="utf-8") as file:
    json.dump(found, file)
"""

# What a framework prints when a capture fails for other reasons than CUPTI: pattern, sentence,
# command.
FAILURE_CAUSES = (
    (
        r"AlreadyExists|Another profiler (session )?is (already )?(active|running)|the script is profiling itself",
        "Another profiler session is active in the process, and a framework runs one at a time.",
        "env | grep -i -E 'profil|pgle'",
    ),
    (
        r"OUT_OF_MEMORY|out of memory|ResourceExhausted|RESOURCE_EXHAUSTED",
        "The GPU has no memory left: another process uses it.",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    ),
    (r"No space left on device", "The disk is full.", "df -h /tmp"),
)


def run_trial(system: System, python: str, framework: str) -> TrialCapture:
    """Make the trial capture in a temporary folder and read its profile; a failure is returned as
    a `TrialCapture` too.
    """
    with ProcessTree() as family:
        result, outcome = _capture(system, python, family.folder, _SCRIPTS[framework], TRIAL_STEPS)
        output = _output_tail(result)
        if outcome is None or not outcome["run"]:
            return TrialCapture(framework, _failure(result, outcome), output, seconds=result.seconds)
        try:
            return read_trial(framework, str(outcome["run"]), output, result.seconds)
        except OutpaceError as error:
            return TrialCapture(framework, f"The profile cannot be read: {error}", output, seconds=result.seconds)


def run_timed_trial(system: System, python: str) -> TimedTrialCapture:
    """Capture half a second of a running JAX program and return whether the program survives."""
    with ProcessTree() as family:
        result, outcome = _capture(system, python, family.folder, _BY_TIME, 0)
    code = int(str(outcome["exit_code"] or 0)) if outcome is not None else 0
    if outcome is None or (not outcome["run"] and not signal_name(code)):
        return TimedTrialCapture(_failure(result, outcome), _output_tail(result))
    how = signal_name(code) or (f"code {code}" if code else "")
    return TimedTrialCapture(
        f"its program was ended by {how}. {explain_crash(code)}".strip() if how else "", _output_tail(result)
    )


def _capture(
    system: System, python: str, folder: str, script: str, steps: int
) -> tuple[CommandResult, dict[str, object] | None]:
    """Capture `steps` steps of a script (0: by time) in a process of its own; return how the
    process ended and what it wrote.
    """
    path, answer = os.path.join(folder, "trial.py"), os.path.join(folder, "answer.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    # All messages are wanted here, and no more of the GPU's memory than the program needs.
    more = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    result = system.run([python, "-c", _RUNNER, path, os.path.join(folder, "logs"), answer, str(steps)], TRIAL_TIMEOUT_S, more)
    return result, _read(answer)


def _output_tail(result: CommandResult) -> str:
    """Return the last lines of a process's output."""
    return "\n".join((result.out + result.err).splitlines()[-_TAIL_LINES:])


def read_trial(framework: str, folder: str, output: str = "", seconds: float = 0.0) -> TrialCapture:
    """Return the contents of the profile in a run folder. Raises OutpaceError when there is none
    that can be read.
    """
    from outpace.store.logdir import find_profiles, local_copy
    from outpace.timeline import OpKind, Timeline
    from outpace.trace import open_trace

    profile = find_profiles(folder).files[0]
    with local_copy(profile) as path:
        timeline = Timeline(open_trace(path, profile.host))
    trace = timeline.trace
    threads = sum(
        trace.lines.row_slice(line).stop > trace.lines.row_slice(line).start
        for plane in timeline.host_planes
        for line in plane.lines
    )
    return TrialCapture(
        framework,
        output=output,
        steps=len(timeline.steps),
        source=timeline.steps.source.value,
        events=len(trace),
        ops=int(timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX).sum()) or _xla_ops(trace),
        threads=threads,
        devices=tuple(plane.name for plane in timeline.device_planes),
        messages=trace.messages,
        bytes=trace.size,
        seconds=seconds,
    )


def _xla_ops(trace: Trace) -> int:
    """Return the names of the events that XLA marks as ops of a compiled program."""
    return len(set(trace.name[trace.stat("hlo_op").rows].tolist()))


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Return the results of the trial captures."""
    if facts.trials is None:
        return [unchecked("trial", "No trial capture was asked for (--no-trial).")]
    if not facts.trials:
        why = "Outpace is not there" if facts.outpace is None else "no framework works"
        return [unchecked("trial", f"No trial capture could be made: {why}.")]
    results = []
    for trial in facts.trials:
        framework = next(item for item in facts.frameworks if item.name == trial.framework)
        results += _failed_result(system, trial, framework) if trial.failure else _trial_result(system, facts, trial, framework)
    return results + ([_timed_result(facts.timed_trial)] if facts.timed_trial else [])


def _timed_result(trial: TimedTrialCapture) -> CheckResult:
    """Return a result that says whether a program on a GPU survives a capture by time."""
    if not trial.failure:
        return ok("jax-by-time", "A capture by time ended while a JAX program worked on the GPU, and the program worked on.")
    text = f"A capture by time of a JAX program on the GPU failed: {trial.failure}"
    return problem("jax-by-time", text, *last_lines(trial.output, 5), command="outpace profile --command-buffers off SCRIPT")


def _trial_result(system: System, facts: DoctorFacts, trial: TrialCapture, framework: FrameworkFacts) -> list[CheckResult]:
    name = f"{trial.framework}-trial"
    what = [
        format_count(trial.steps, "step") + f" ({trial.source})",
        format_count(trial.events, "event"),
        format_count(trial.ops, "op"),
    ]
    what += [format_count(trial.threads, "host thread"), format_count(len(trial.devices), "device")]
    text = f"{framework.title} trial capture: {', '.join(what)}; {trial.bytes / 1024:,.0f} KiB in {trial.seconds:.1f} s."
    results = []
    if framework.gpus and not any("GPU" in device for device in trial.devices):
        cause = cupti.find_fault(system, "\n".join((trial.output, *trial.messages)))
        missing = f"The {framework.title} trial capture ran on a GPU but holds no GPU events: CUPTI did not deliver them."
        results += [problem(name, missing, text, command=cause.command if cause else "TF_CPP_MAX_VLOG_LEVEL=1 outpace doctor")]
        return results + ([cause] if cause else [])
    if trial.steps != TRIAL_STEPS:
        return [note(name, f"{text} {format_count(TRIAL_STEPS, 'step')} were captured, and the profile shows {trial.steps}.")]
    return [ok(name, text, *trial.devices)]


def _failed_result(system: System, trial: TrialCapture, framework: FrameworkFacts) -> list[CheckResult]:
    text = f"The {framework.title} trial capture failed: {trial.failure}"
    cause = cupti.find_fault(system, trial.output)
    if cause is not None:
        return [problem(f"{trial.framework}-trial", text, *last_lines(trial.output), command=cause.command), cause]
    for pattern, sentence, command in FAILURE_CAUSES:
        lines = tuple(line.strip() for line in trial.output.splitlines() if re.search(pattern, line))
        if lines:
            return [problem(f"{trial.framework}-trial", f"{text} {sentence}", *lines[:3], command=command)]
    return [problem(f"{trial.framework}-trial", text, *last_lines(trial.output, 5), command="outpace doctor --json")]


def _failure(result: CommandResult, outcome: dict[str, object] | None) -> str:
    if result.timed_out:
        return f"it did not end within {TRIAL_TIMEOUT_S:.0f} s."
    if outcome is None:
        how = f"signal {-result.code}" if result.code < 0 else f"code {result.code}"
        return f"its process ended with {how}."
    return str(outcome["reason"] or f"the program ended with code {outcome['exit_code']}.")


def _read(path: str) -> dict[str, object] | None:
    try:
        with open(path, encoding="utf-8") as file:
            answer: dict[str, object] = json.load(file)
            return answer
    except (OSError, ValueError):
        return None
