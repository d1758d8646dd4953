"""The script's process of `outpace tune`: `python -m outpace.tune.hosted PLAN` runs the script up to a Keras `fit`, or into its loop,
searches there for what makes it faster, and ends.

The process dies with what the trials have changed in it, and no file of the user's changes (`guard`): nothing has to be put back, and none of
the script's own code runs afterwards (`capture.ending`). The command, which waits, proves what was found, and starts the script anew where it
is to train. Nothing but the standard library is imported before the script imports a framework.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from outpace.capture import frames
from outpace.capture.ending import announce, end_here, exit_code, leave, register_first
from outpace.capture.imports import ImportHooks
from outpace.capture.options import Outcome
from outpace.capture.recording import tell
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.model.errors import OutpaceError, TuneError, UsageError
from outpace.model.units import counted
from outpace.tune import guard
from outpace.tune.loop.found import Loops
from outpace.tune.loop.muted import Muted
from outpace.tune.texts.load import source_of
from outpace.tune.texts.place import Place, loop_at

if TYPE_CHECKING:
    from outpace.tune.loop.found import Found
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.statement import Statement
    from outpace.tune.pages.progress import Progress
    from outpace.tune.program.program import Program

KERAS_2 = (
    "This fit is Keras 2's (tf_keras), of which outpace tune tunes the input alone, where it is a tf.data.Dataset. "
    "Unset TF_USE_LEGACY_KERAS if the program allows it."
)


SEARCH_SHARE = 0.7  # of the budget; the rest is for the race of the edited script
FIRST_STEP = 120.0  # seconds that a loop which is run again gets for it
_NAMED = 8  # files that are told by name


class Hosted:
    """Takes over one `fit`: `plan["fit"]` counts from 1."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.recorder: Any = None
        self.sources: Any = None
        self.fits = 0
        self._guard = guard.begin([os.path.dirname(plan["outcome"])])
        self._muted = Muted()
        self._loops = Loops(self.take_over_loop, self._begin_loop)
        self._pid = os.getpid()
        self._watch: Progress | None = None

    def on_tensorflow(self, tf: ModuleType) -> None:
        """TensorFlow was imported: note how data sets are built from now on, and see loops that train without Keras."""
        from outpace.capture.pipeline import PipelineRecorder
        from outpace.capture.sources import SourceRecorder
        from outpace.capture.tracing import TraceRecorder

        self.recorder = PipelineRecorder(False)
        self.recorder.install(tf)
        self._loops.add_tensorflow(tf)
        self.sources = SourceRecorder()
        TraceRecorder(self.sources.traced).install(tf)

    def on_jax(self, jax: ModuleType) -> None:
        """JAX was imported, perhaps by TensorFlow or Keras."""
        self._loops.add_jax(jax)

    def on_keras(self, keras: Any) -> None:
        """Keras was imported: put ourselves before `fit`."""
        if self.sources is not None and keras.__version__ >= "3":
            from outpace.tune.program.program import note_compiles

            note_compiles(keras)
            self.sources.install(keras)
        self.take_over(keras)

    def take_over(self, keras: Any) -> None:
        """Put ourselves before the `fit` of a Keras, whichever its version is."""
        kind, second = keras.Model, keras.__version__ < "3"
        original, hosted = kind.fit, self
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            hosted.fits += 1
            if hosted.fits != hosted.plan["fit"] or os.getpid() != hosted._pid:
                return hosted._fitting(original, self, *args, **kwargs)
            bound = dict(signature.bind(self, *args, **kwargs).arguments)
            model = bound.pop(next(iter(signature.parameters)))
            if second and not isinstance(bound.get("x"), sys.modules["tensorflow"].data.Dataset):
                hosted.refuse(KERAS_2)
            hosted.tune(model, bound)

        kind.fit = fit
        for name in ("evaluate", "predict"):
            self._resting(kind, name)

    def _resting(self, kind: Any, name: str) -> None:
        """Let the steps of a method of models be no loop of the script's."""
        original, hosted = getattr(kind, name), self

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            return hosted._fitting(original, *args, **kwargs)

        setattr(kind, name, method)

    def _fitting(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Another `fit`, or an evaluation, runs as it is; its steps are no loop of the script's."""
        with self._loops.resting():
            return original(*args, **kwargs)

    def tune(self, model: Any, arguments: dict[str, Any]) -> NoReturn:
        """Tune a fit, report, and end the process."""
        self._loops.rest()
        tell(f"tuning the fit at {_line()}" + (f", number {self.fits}" if self.fits > 1 else " (--fit N for the N-th one)"))
        self._ending(lambda: self._tuned_fit(model, arguments))

    def _begin_loop(self) -> None:
        """A loop makes its first step: Ctrl-C ends it, and none of its own code runs."""
        signal.signal(signal.SIGINT, lambda number, frame: self._ending(_interrupt))

    def take_over_loop(self, found: Found) -> NoReturn:
        """Tune a loop of the script's own, report, and end the process."""
        from outpace.tune.loop.takeover import take_over

        if self.recorder is not None:
            self.recorder.rest()  # the loop is run again, and may build its data set again
        if found.whole is not None:
            self._ending(lambda: self._tuned_whole(found))
        try:
            take_over(found, self._muted, self._tune_loop, lambda: self._ending(_interrupt))
        except UsageError as error:
            self.refuse(str(error))

    def _tune_loop(self, loop: Loop, statement: Statement) -> NoReturn:
        """In a thread of its own."""
        tell(f"tuning the loop at {statement.place}")
        self._ending(lambda: self._tuned_loop(loop, statement))

    def _tuned_whole(self, found: Found) -> int:
        """The input of a function that makes all steps in one call."""
        from outpace.tune.program.program import Program

        assert found.whole is not None
        place = f"{os.path.relpath(found.whole.co_filename)}:{found.whole.co_firstlineno} {found.whole.co_name}"
        remark = (
            f"{place} loops over its data set inside of a tf.function: one call makes all steps, which nothing outside can tell apart or time. "
            "So the step is not tuned, and its input is, by how fast it is read."
        )
        return self._tuned(replace(Program.of_input(found.dataset), remark=remark), None)

    def _tuned_loop(self, loop: Loop, statement: Statement) -> int:
        from outpace.tune.program.program import Program

        if not loop.clock.begun.wait(FIRST_STEP):
            self.refuse(f"the loop ran again for {FIRST_STEP:.0f} s, and no step of it was seen.")
        loop.observe()
        return self._tuned(Program.of_loop(loop), place_of(loop, statement))

    def _unwritten(self) -> str:
        """What the script would have changed, had it not been guarded, as a sentence; empty for nothing."""
        names = sorted({*self._guard.changed(), *self._muted.off})
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"meanwhile the script did not write: {', '.join(names[:_NAMED])}{more}" if names else ""

    def _ending(self, tuned: Callable[[], int]) -> NoReturn:
        """Tune, and end the process, whatever comes of it."""
        from outpace.tune.reason import reason_of

        try:
            self._end(tuned())
        except KeyboardInterrupt:
            tell(f"interrupted; the script ends here{self._watch.so_far if self._watch is not None else ''}")
            self._end(130)
        except OutpaceError as error:
            self.refuse(str(error))
        except Exception as error:
            self._end(1, f"the tuning failed: {reason_of(error)}.")

    def _tuned_fit(self, model: Any, arguments: dict[str, Any]) -> int:
        from outpace.tune.program.program import Program

        named = {name: value for name, value in arguments.items() if name != "x"}
        return self._tuned(Program.of(model, arguments.get("x"), **named), Place())

    def _tuned(self, program: Program, place: Place | None) -> int:
        """Search, and hand over what was found; the exit code."""
        from outpace.tune.handing import searched_of
        from outpace.tune.pages.progress import shown
        from outpace.tune.searching import plan, search

        if program.remark:
            tell(program.remark)
        if self.plan["dry_run"]:
            sys.stdout.write("\n".join(plan(program, self.recorder)) + "\n")
            return 0
        self._watch, began = shown(), time.monotonic()
        with self._watch as watch:
            tuned = search(
                program,
                self.recorder,
                self.plan["budget"] * (1.0 if self.plan["only_limits"] else SEARCH_SHARE),
                watch,
                self.sources,
                **{name: self.plan[name] for name in ("statistical", "batch_sizes", "only_limits")},
            )
        seconds = time.monotonic() - began
        if program.source.generator is not None and program.source.generator.ended:
            tell(
                f"the generator ended during the trials: its first {program.source.generator.ended} batches were read again and again"
            )
        searched = searched_of(self.plan, tuned, place, seconds, self._unwritten())
        searched.write(self.plan["found"])
        return 0

    def refuse(self, why: str) -> NoReturn:
        """Say why nothing is tuned, and end the process."""
        self._end(TuneError.exit_code, f"nothing is tuned: {why}")

    def _end(self, code: int, why: str = "") -> NoReturn:
        if why:
            tell(why)
        leave(self.plan["outcome"], Outcome(stopped=True, exit_code=code))
        end_here(code)

    def run(self) -> None:
        """Run the script; its own exception comes out. It comes to its end where it is not taken over."""
        hooks: Any = {"tensorflow": self.on_tensorflow, "jax": self.on_jax, "keras": self.on_keras, "tf_keras": self.take_over}
        ImportHooks(hooks, lambda name, error: tell(f"{name} could not be hooked, so nothing is tuned: {error!r}")).install()
        code = 1
        try:
            run_as_main(self.plan["script"], self.plan["argv"], self.plan["module"])
            code = 0
        except SystemExit as end:
            code = exit_code(end.code)
            raise
        except KeyboardInterrupt:
            code = 130
            raise
        finally:
            hide_own_frames()
            if os.getpid() == self._pid:
                if (self.plan["then"] == "stop" or self.plan["dry_run"]) and (
                    said := self._unwritten()
                ):  # else it is started anew
                    tell(said)
                announce(self.plan["outcome"], Outcome(reason=self._why_nothing(), exit_code=code))

    def _why_nothing(self) -> str:
        wanted = self.plan["fit"]
        if self.fits:
            return f"the script called Keras' fit {counted(self.fits, 'time')}, so that there was no fit number {wanted}"
        return "the script called no Keras fit, so there was nothing to tune"


def place_of(loop: Loop, statement: Statement) -> Place | None:
    """The innermost loop of the user's around the steps."""
    body = loop.woven.body if loop.woven is not None else None
    file, line = (body.file, body.loop.lineno) if body is not None else (statement.file, statement.frame.f_lineno)
    return loop_at(source_of(file), line, os.path.realpath(file))


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _line() -> str:
    """Where the user's code calls."""
    place = frames.caller()
    return f"{os.path.relpath(place.file)}:{place.line}" if place is not None else "an unknown line"


def main() -> None:
    """Entry of the process."""
    register_first()
    Hosted(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
