# SPDX-License-Identifier: Apache-2.0
"""`run_script`: runs a training script in a process of its own, captures a window of its steps, and
returns the result.

The process of its own separates the analysis from TensorFlow, leaves the script's interpreter as it
would be without Outpace, and allows a script to be ended whose data pipeline hangs at interpreter
exit after the profile is saved. It shares stdin, stdout, stderr, environment, working directory and
process group with the command, so that terminals and pipes behave as always.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import IO

from outpace._dataclass import dataclass
from outpace.capture.host_snapshots import REQUEST_FILE
from outpace.capture.interpreter import flush_output, python_command, require_script
from outpace.capture.options import DEFAULT_LOGDIR, CaptureOptions, Plan, ScriptOutcome
from outpace.capture.process_tree import ProcessTree
from outpace.model.errors import CaptureError, OutputError, UsageError
from outpace.store.logdir import read_capture_record, upload_run
from outpace.store.record import CaptureRecord, write_record
from outpace.store.staging import Staging, remove_stale_folders
from outpace.store.tree import is_url

# seconds for the interpreter to end after the last exit handler: generator pipelines can hang there
# for ever
EXIT_GRACE_S = 3.0
POLL_S = 0.1
_NO_COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer="
_CRASH_SIGNALS = ("SIGSEGV", "SIGABRT", "SIGBUS")
FORWARDED_SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


@dataclass(frozen=True)
class CaptureResult:
    """Result of a capture.

    run: run folder (path or URL); None where there is no profile.
    reason: why there is no profile.
    exit_code: the script's own exit code; 128 + n after signal n.
    record: the capture's record.
    stopped: whether the script was ended after the capture.
    failure: text of the exception that the script ended with; "" without one.
    program: where memory ran out, the largest program (`HloProto`); else empty.
    """

    run: str | None
    reason: str | None
    exit_code: int
    record: CaptureRecord | None
    stopped: bool = False
    failure: str = ""
    program: bytes = b""


def run_script(
    script: str,
    argv: Sequence[str],
    options: CaptureOptions,
    *,
    variables: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> CaptureResult:
    """Run `script` with `argv` as Python would and capture it as `options` say.

    variables: additional environment variables.
    output: file for all output, see `run_process`.

    A script that fails, or a capture that does, is a result and no error. Raises UsageError for
    impossible options, NotFoundError for a missing script, CaptureError when no process can be
    started or the log directory cannot be made.
    """
    problem = options.find_problem()
    if problem:
        raise UsageError(problem)
    require_script(script, options.module)
    shown_logdir = options.logdir or DEFAULT_LOGDIR
    Staging(shown_logdir).discard()  # raises before the script runs when the log directory is not writable
    with ProcessTree(detached=not options.stop) as family:
        folder = family.folder
        local = os.path.join(folder, "logs") if is_url(shown_logdir) else os.path.abspath(os.path.expanduser(shown_logdir))
        plan = Plan(script, tuple(argv), local, shown_logdir, os.path.join(folder, "outcome.json"), options, folder)
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(plan.to_json())
        code, outcome = run_process(
            python_command("outpace.capture.launch", path),
            plan.outcome,
            variables={**_script_variables(options), **(variables or {})},
            output=output,
            poll=lambda: _answer_request(folder),
        )
        if outcome is not None and outcome.ending:
            # the script came to its own end; processes that it left running are not killed
            family.release()
        if outcome is None and not is_url(shown_logdir):
            with contextlib.suppress(OSError):  # the script may have removed the log directory
                remove_stale_folders(local)  # unfinished files of a process that died
        result = _build_result(code, outcome)
        if result.run and is_url(shown_logdir):
            result = replace(result, run=upload_run(result.run, shown_logdir))
    return result


def _script_variables(options: CaptureOptions) -> dict[str, str]:
    """Return the environment variables that the options set."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {} if options.command_buffers else {"XLA_FLAGS": f"{flags} {_NO_COMMAND_BUFFERS}".strip()}


def run_process(
    command: Sequence[str],
    outcome_path: str,
    *,
    hide_stderr: bool = False,
    hide_stdout: bool = False,
    timeout: float | None = None,
    variables: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
    poll: Callable[[], object] = lambda: None,
) -> tuple[int, ScriptOutcome | None]:
    """Run a script's process to its end and pass signals on to it.

    hide_stderr, hide_stdout: discard what it writes to stderr or stdout.
    timeout: seconds after which it is killed.
    variables: additional environment variables.
    output: file for all that it prints. It then has no terminal and its own session: a signal to
        this process does not reach it, and an exception that ends the waiting kills it.
    poll: function that is called repeatedly until the process has ended.

    Returns its exit code (128 + n after signal n) and the outcome that it wrote. Raises
    CaptureError when the process cannot be started.
    """
    flush_output()
    out, err = (subprocess.DEVNULL if hidden else output for hidden in (hide_stdout, hide_stderr))
    own_session = output is not None
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if own_session else None,
            stdout=out,
            stderr=err,
            env={**os.environ, **(variables or {})},
            start_new_session=own_session,
        )
    except OSError as error:
        raise CaptureError(f"Python could not be started for the script: {error}.") from error
    with _kill_on_exception(process) if own_session else _forward_signals(process):
        code = _wait_for_exit(process, outcome_path, timeout, poll)
    return code, _read_outcome(outcome_path)


def _wait_for_exit(process: subprocess.Popen[bytes], path: str, timeout: float | None, poll: Callable[[], object]) -> int:
    """Return the script's exit code; kill a process that hangs in the interpreter's shutdown or
    exceeds the time limit.
    """
    grace_s, deadline = EXIT_GRACE_S, math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            code = process.wait(POLL_S)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            outcome = _read_outcome(path)
        poll()
        if time.monotonic() > deadline:
            process.kill()
        if outcome is not None and outcome.ending:
            grace_s -= POLL_S
            if grace_s <= 0:
                process.kill()
                process.wait()
                return outcome.exit_code or 0


def _answer_request(folder: str) -> None:
    """Answer the analysis request of the script's process, if there is one."""
    if os.path.exists(os.path.join(folder, REQUEST_FILE)):
        # imported late, so that the script does not wait for the import
        from outpace.capture.repetition import answer_request

        answer_request(folder)


def _read_outcome(path: str) -> ScriptOutcome | None:
    """Return the outcome at a path; None while there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return ScriptOutcome.from_json(file.read())
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to a process. Ctrl-C in a terminal reaches the process directly; passed on as
    well, it would arrive twice.
    """

    def forward(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT or not _in_terminal_foreground():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    numbers = [getattr(signal, name) for name in FORWARDED_SIGNALS if hasattr(signal, name)] + [signal.SIGINT]
    before = {}
    for number in numbers:
        # not on the main thread, where the caller handles signals
        with contextlib.suppress(ValueError):
            before[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextlib.contextmanager
def _kill_on_exception(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process, and its session, where the block ends by an exception: Ctrl-C, or a signal
    that ends this process.
    """
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _in_terminal_foreground() -> bool:
    """Whether this process group is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _build_result(code: int, outcome: ScriptOutcome | None) -> CaptureResult:
    """Return the result of a capture, with the process's exit code in the record."""
    if outcome is None:
        return CaptureResult(None, _explain_death(code), code, None)
    program = base64.b64decode(outcome.program)
    if outcome.run is None or outcome.host is None:
        return CaptureResult(None, outcome.reason, code, None, outcome.stopped, outcome.failure, program)
    record, _ = read_capture_record(outcome.run, outcome.host)
    # a signal after the script's end, or an incomplete record
    if record is not None and record.exit != code:
        record = replace(record, exit=code)
        with contextlib.suppress(OutputError):
            write_record(outcome.run, outcome.host, record)
    return CaptureResult(outcome.run, None, code, record, outcome.stopped, outcome.failure, program)


def signal_name(code: int) -> str:
    """Return the name of the signal that ended a process with this exit code; "" without one."""
    if code <= 128:
        return ""
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"signal {code - 128}"


def explain_crash(code: int) -> str:
    """Return sentences on a known cause of a crash, for the exit code of a process in which a
    capture ran; "" for any other end.
    """
    if signal_name(code) not in _CRASH_SIGNALS:
        return ""
    return (
        "The script need not be at fault: on NVIDIA GPUs, JAX can crash when a profiler ends while CUDA graphs are launched. "
        "With --command-buffers off it launches none."
    )


def _explain_death(code: int) -> str:
    """Return a sentence on a process that ended without an outcome."""
    if name := signal_name(code):
        text = f"The script's process was ended by {name} before the capture was complete; nothing was saved."
        return f"{text} {explain_crash(code)}".strip()
    return f"The script's process ended at once with code {code}, so nothing was saved."
