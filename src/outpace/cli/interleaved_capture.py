# SPDX-License-Identifier: Apache-2.0
"""Captures both sides of a comparison in turns: `outpace compare --run COMMAND --against COMMAND`.

A race (`tune.trial`) pauses processes between blocks of steps, which a profiler cannot do. Here
every capture is a fresh process, in the order A B B A ..., so that slow changes of the machine,
such as a processor that gets warm, affect both sides alike. The number of captures is fixed before
the first one: a comparison that decided after each capture whether to continue would find
differences that do not exist more often than its intervals say.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import field, replace
from typing import IO, TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.capture.options import CaptureOptions
from outpace.capture.process_tree import ProcessTree
from outpace.capture.runner import CaptureResult, run_script
from outpace.model import CaptureError
from outpace.model.units import format_count
from outpace.tune.pages.progress import watching
from outpace.tune.reason import last_words
from outpace.tune.trial.interrupts import Interrupts
from outpace.tune.trial.script import Command

if TYPE_CHECKING:
    from outpace.compare import Side

# number of captures of each side: three detected three quarters of changes of 5 to 10% of a step
# (bench/README.md)
CAPTURES_PER_SIDE = 4


@dataclass(eq=False)
class CapturedCommand:
    """One side of the comparison, captured by running a command.

    role: name of its captures in the log directory.
    command: the command.
    captures: its captures so far.
    """

    role: str
    command: Command
    captures: list[Side] = field(default_factory=list)

    def capture(self, options: CaptureOptions, logdir: str) -> None:
        """Run the command once more, capture it, and add the result to the side. Raises
        CaptureError where there is no profile, UsageError where the profile has no step.
        """
        from outpace import api
        from outpace.compare import Side

        with tempfile.TemporaryFile() as log:
            result = run_script(
                self.command.parts[0],
                self.command.parts[1:],
                replace(options, logdir=f"{logdir}/{self.role}-{len(self.captures) + 1}", module=self.command.module),
                variables=self.command.environment,
                output=log,
            )
            if result.run is None or result.exit_code:
                raise CaptureError(f"{self.command} could not be captured. {_why(result, log)}")
        with api.open(result.run) as profile:
            self.captures.append(Side.from_runs(str(self.command), profile.run))


def _why(result: CaptureResult, log: IO[bytes]) -> str:
    """Return sentences on why a capture failed."""
    if result.exit_code:
        return f"It failed with exit code {result.exit_code}. {last_words(log)}"
    return (
        f"{result.reason or 'No profile was saved.'} 'outpace profile' has these options, and 'outpace compare' takes its runs."
    )


def capture_sides(against: str, run: str, captures_per_side: int, options: CaptureOptions) -> tuple[list[Side], bool]:
    """Return the sides of two commands, that of `against` first, each of `captures_per_side`
    captures, and whether Ctrl-C ended the capturing early. In that case each side has as many
    captures as both have, and there are no sides where that is none.

    The captures are saved in the options' log directory, where one is set. Raises NotFoundError
    for a missing script; otherwise as `CapturedCommand.capture`.
    """
    from outpace.compare import Side

    programs = [CapturedCommand("against", Command.parse(against)), CapturedCommand("run", Command.parse(run))]
    with Interrupts() as interrupts, ProcessTree() as family, watching(True) as watch:
        logdir = options.logdir or os.path.join(family.folder, "logs")
        with contextlib.suppress(KeyboardInterrupt):
            for number, program in enumerate(_turns(programs, captures_per_side), 1):
                interrupts.check()
                watch.doing(f"capture {number} of {2 * captures_per_side}: {program.command}")
                program.capture(options, logdir)
        complete = min(len(program.captures) for program in programs)
        if interrupts.seen:
            remark = (
                f"what follows is of {format_count(complete, 'capture')} a side instead of {captures_per_side}"
                if complete
                else "nothing to compare"
            )
            watch.note(f"Ctrl-C: {remark}")
        if options.logdir is not None:
            watch.note(f"the captures are in {logdir}")
    sides = [Side.merge(str(program.command), program.captures[:complete]) for program in programs if complete]
    return sides, interrupts.seen


def _turns(programs: list[CapturedCommand], count: int) -> Iterator[CapturedCommand]:
    """Yield the order of the captures: A B B A A B ..."""
    for index in range(count):
        yield from programs if index % 2 == 0 else reversed(programs)
