# SPDX-License-Identifier: Apache-2.0
"""Scripts as variants: how one is started, as a shell would take it (`Command`), and its process,
which rests between blocks (`ScriptArm`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace._memory import free_memory
from outpace.capture.messages import print_message
from outpace.capture.process_tree import register_folder
from outpace.model.errors import CaptureError, NotFoundError, UsageError
from outpace.model.secret_masking import mask_command_line
from outpace.model.units import format_count
from outpace.tune.reason import last_words
from outpace.tune.starts import Forks, Process
from outpace.tune.trial.arm import Arm, Facts, Work
from outpace.tune.trial.plan import Plan

if TYPE_CHECKING:
    from outpace.tune.texts.edition import Edition

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = frozenset({"python", "python3"})


@dataclass(frozen=True)
class Command:
    """`[NAME=VALUE ...] [python] [-m] SCRIPT [ARGUMENT ...]`.

    parts: the script's path, or a module's name where `module` is true, and its arguments.
    environment: variables that are set besides the user's.
    """

    parts: tuple[str, ...]
    module: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Command:
        """A command line. The path of a script may stand alone, unquoted, even with spaces.

        Raises NotFoundError where there is no such file, UsageError for a quote without its end.
        """
        parts = [text] if os.path.isfile(text) else _split(text)
        environment = {}
        while parts and _ASSIGNMENT.match(parts[0]) and not os.path.isfile(parts[0]):
            name, _, value = parts.pop(0).partition("=")
            environment[name] = value
        if parts and parts[0] in _PYTHON and not os.path.isfile(parts[0]):
            del parts[0]
        module = parts[:1] == ["-m"]
        if module:
            del parts[0]
        if not parts or not (module or os.path.isfile(parts[0])):
            missing = parts[0] if parts else mask_command_line(text)
            raise NotFoundError(
                f"There is no script {missing}. Give the path of a Python file, in quotes together with its arguments, "
                "and with variables before it: 'NAME=VALUE train.py --epochs 3'."
            )
        return cls(tuple(parts), module, environment)

    def line(self, secrets: bool = False) -> str:
        """The command as a shell takes it; with dots for keys and passwords
        (`model/secret_masking.py`) unless they are asked for.
        """
        start = ["python", "-m"] if self.module else ["python"]
        said = " ".join([*assignments(self.environment), shlex.join([*start, *self.parts])])
        return said if secrets else mask_command_line(said)

    def __str__(self) -> str:
        return self.line()


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{mask_command_line(text)} is no command line: {error}.") from error


def assignments(variables: Mapping[str, str]) -> list[str]:
    """Variables as a shell takes them before a command."""
    return [f"{name}={shlex.quote(value)}" for name, value in variables.items()]


START_SECONDS = 300.0  # a script that ran no step by then is given up
BLOCK_SECONDS = 120.0  # the same for a block, on top of twenty times its expected duration
_SETTLE_SHARE = 20  # one step in twenty of a block runs before the timed ones


MEMORY_SHARE = 0.8  # of what is free, for the processes of a race


def room(each: int) -> int:
    """How many more processes of so many bytes the free memory holds."""
    return int(MEMORY_SHARE * free_memory() / max(each, 1))


@dataclass(eq=False)
class ScriptArm:
    """One script in a process. first_epoch: seconds that a `fit`, or the loop, gets
    to end its first epoch, in which caches fill, before it is timed. edition: texts that stand in
    for the script's files, and the loop or the `fit` that is raced. folder: where it runs; the
    present one by default. forks: what starts it.
    """

    command: Command
    first_epoch: float = 0.0
    edition: Edition | None = None
    folder: str | None = None
    forks: Forks = field(default_factory=Forks)
    _process: Process | None = field(default=None, init=False)
    _channel: Connection | None = field(default=None, init=False)
    _log: IO[bytes] | None = field(default=None, init=False)
    _room: str = field(default="", init=False)
    _ready: bool = field(default=False, init=False)
    _began: float = field(default=0.0, init=False)
    _facts: Facts = field(default_factory=Facts, init=False)
    _step_seconds: float = field(default=0.0, init=False)
    _steps: int = field(default=0, init=False)

    def arm(self, name: str) -> Arm:
        """The script as an arm, of which further processes can be made."""
        return Arm(
            name,
            self.run,
            start=self.launch,
            prepare=self.start,
            undo=self.close,
            end=self.pause,
            facts=lambda: self._facts,
            another=lambda name: replace(self).arm(name),
        )

    @property
    def session(self) -> int | None:
        """Number of the session that the process and what it started run in; None where it does not
        run.
        """
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process, and wait until its warm-up is over; nothing happens where it runs
        already.

        Raises CaptureError when the warm-up is never over.
        """
        if self._ready:
            return
        self.launch()
        ready = self._receive(START_SECONDS)["ready"]
        self._ready = True
        if ready["writers"]:
            print_message(
                f"{self.command} runs without {', '.join(ready['writers'])}, which would write the race's files in place of yours"
            )
        if self.first_epoch and not ready["whole"]:
            print_message(
                f"{self.command}: its first epoch was not over after {self.first_epoch:.0f} s; "
                "a cache that fills in it is not whole in what is timed"
            )
        self._facts = Facts(
            ready["step"], ready["examples"], ready["versions"], ready["at"] - self._began, max(1, ready["made"])
        )
        self.pause()

    def launch(self) -> None:
        """Start the process, and do not wait; nothing happens where it runs already. Raises
        CaptureError where Python cannot be started.
        """
        if self._process is not None:
            return
        self._began = time.monotonic()  # which processes have in common
        self._channel, theirs = Pipe()
        self._room = register_folder(tempfile.mkdtemp(prefix="outpace-trial-"))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process, `close` closes it
        edition = str(self.edition.write(self._room)) if self.edition is not None else ""
        plan = Plan(theirs.fileno(), self._room, self.command.module, self.first_epoch, edition)
        try:
            self._process = self.forks.start(
                "outpace.tune.trial.child",
                [plan.to_json(), *self.command.parts],
                self._log,
                self._log,
                {**_environment(), **self.command.environment},
                self.folder,
                (theirs.fileno(),),
                session=True,
            )
        except OSError as error:
            raise CaptureError(f"Python could not be started for {self.command}: {error}.") from error
        finally:
            theirs.close()

    @property
    def memory(self) -> int:
        """Bytes that the process and what it started hold in memory, pages that they share counted
        for each; 0 where that is not known.
        """
        total = 0
        for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
            with contextlib.suppress(OSError, ValueError, IndexError):  # no process, or it ended while we looked
                if os.getsid(int(name)) == self.session:
                    total += int(Path("/proc", name, "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return total

    def run(self, steps: int) -> Work:
        """Run a block in the process. Raises CaptureError when the script ended or failed."""
        if self._channel is None:
            raise CaptureError("The script does not run.")
        settle = max(1, steps // _SETTLE_SHARE)
        self._signal(signal.SIGCONT)
        try:
            self._channel.send({"steps": steps, "settle": settle})
        except OSError:
            raise self._ended() from None
        done = self._receive(BLOCK_SECONDS + 20 * self._step_seconds * (steps + settle))
        work = Work(done["steps"], done["seconds"], done["cpu"], done["between"], done["ends"])
        self._steps += work.steps
        self._step_seconds = work.seconds / max(work.steps, 1)
        return work

    def pause(self) -> None:
        """Stop the process and what belongs to it, until its next block."""
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the process and what belongs to it."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        if self._channel is not None:
            self._channel.close()
        if self._log is not None:
            self._log.close()
        if self._room:
            shutil.rmtree(self._room, ignore_errors=True)
        self._process = self._channel = self._log = None
        self._ready = False

    def _signal(self, number: int) -> None:
        """Signal the process group; the process itself is not waited for before `close`, so its
        number is not given away.
        """
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _receive(self, timeout: float) -> dict[str, Any]:
        assert self._channel is not None
        try:
            message: dict[str, Any] | None = self._channel.recv() if self._channel.poll(timeout) else None
        except (EOFError, OSError):
            raise self._ended() from None
        if message is None:
            raise CaptureError(f"It ran no step within {timeout:.0f} s. {self._said()}".strip())
        if "ended" in message:
            raise self._ended(message["ended"])
        return message

    def _ended(self, seen: dict[str, int] | None = None) -> CaptureError:
        """Why a process is gone, with the last lines that it wrote."""
        code = self._code()
        if seen is None and code:
            what = _end_by(-code) if code < 0 else f"failed with exit code {code}"
        elif self._steps:
            what = f"ended after {self._steps} steps of the race; let it train longer"
        elif seen:
            kind, count = next(iter(seen.items()))
            what = f"ended within the warm-up, after {format_count(count, 'step')} ({kind}); let it train longer"
        else:
            what = "ended without a training step that could be seen; give it a function outpace_race() that returns its step"
        return CaptureError(f"The script {what}. {self._said() if code else ''}".strip())

    def _code(self) -> int | None:
        if self._process is None:
            return None
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            return None

    def _said(self) -> str:
        """Its error, or the last lines of its output."""
        return "" if self._log is None else last_words(self._log)


def _end_by(number: int) -> str:
    """What a signal says of a process' end."""
    name = signal.Signals(number).name
    if number == signal.SIGKILL:
        return f"was killed ({name}), as the system does when memory runs out: free some, or race fewer variants at once"
    return f"was ended by {name}"


def _environment() -> dict[str, str]:
    """Several processes share a device, so that none may take all of its memory at its start."""
    shared = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    return {**shared, **os.environ}
