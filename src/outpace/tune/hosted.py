# SPDX-License-Identifier: Apache-2.0
"""A script's process that looks at its training: `python -m outpace.tune.hosted PLAN` runs the
script, guarded, into a Keras `fit` or a loop of its own, sees some of its steps, says what could
make them faster, as edits of the source, and ends.

The process writes no file of the user's (`guard`), and none of the script's code runs after that
(`capture.ending`). The command, which waits, races the edits. Nothing but the standard library is
imported before the script imports a framework.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from outpace.capture import frames
from outpace.capture.imports import ImportHooks
from outpace.capture.messages import print_message
from outpace.capture.options import ScriptOutcome
from outpace.capture.process_exit import end_process, exit_code, register_final_hook, write_final_outcome, write_outcome
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.model.errors import OutpaceError, TuneError
from outpace.model.units import format_count
from outpace.tune import guard
from outpace.tune.loop.found import Loops
from outpace.tune.starts.imports import Imports, changed_by_script, script_begins
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import source_of, substitute
from outpace.tune.texts.place import Place, loop_at

if TYPE_CHECKING:
    from outpace.capture.pipeline import PipelineRecorder
    from outpace.capture.sampler import FrameSampler
    from outpace.capture.sources import SourceRecorder
    from outpace.tune.loop.found import Found
    from outpace.tune.loop.loop import Loop
    from outpace.tune.program.program import Program

_NAMED = 8  # files that are told by name
_WARMUP, _SECONDS = 5, 2.0  # batches of a fit that trace, and how long it is seen after them
_FIRST_SECONDS = 20.0  # that a fit gets for them


class Hosted:
    """Looks at one `fit`, or a loop: `plan["fit"]` counts from 1."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.recorder: PipelineRecorder | None = None
        self.sources: SourceRecorder | None = None
        self.fits = 0
        self._guard = guard.begin([os.path.dirname(plan["outcome"])])
        self._loops = Loops(self.see_loop, self._begin_loop)
        self._pid = os.getpid()
        self._sampler: FrameSampler | None = None
        self._imports = Imports()
        self._at_end: Callable[[], object] | None = None  # where the training is over before enough was seen

    def _importing(self, name: str) -> None:
        """A framework is about to be imported. Where Python's functions are the guard, a module
        that was imported before has unguarded ones.
        """
        if self._guard.how != guard.OVERLAY:
            return
        changed = self._imports.changed if self._imports.names else changed_by_script()
        self._imports = Imports((*self._imports.names, name), changed)

    def on_tensorflow(self, tf: ModuleType) -> None:
        """TensorFlow was imported: note how data sets are built from now on, and see loops that
        train without Keras.
        """
        from outpace.capture.function_traces import FunctionTraceRecorder
        from outpace.capture.pipeline import PipelineRecorder
        from outpace.capture.sources import SourceRecorder

        self.recorder = PipelineRecorder(False)
        self.recorder.install(tf)
        self._loops.add_tensorflow(tf)
        self.sources = SourceRecorder()
        FunctionTraceRecorder(self.sources.add_graph).install(tf)

    def on_jax(self, jax: ModuleType) -> None:
        """JAX was imported, perhaps by TensorFlow or Keras."""
        self._loops.add_jax(jax)

    def on_keras(self, keras: Any) -> None:
        """Keras was imported: put ourselves before `fit`."""
        from outpace.tune.program.program import note_compiles

        note_compiles(keras)
        if self.sources is not None and keras.__version__ >= "3":
            self.sources.install(keras)
        kind = keras.Model
        original, hosted = kind.fit, self
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            hosted.fits += 1
            if hosted.fits != hosted.plan["fit"] or os.getpid() != hosted._pid:
                return hosted._fitting(original, self, *args, **kwargs)
            bound = dict(signature.bind(self, *args, **kwargs).arguments)
            bound.pop(next(iter(signature.parameters)))
            hosted.see_fit(keras, self, bound)
            found = hosted._fitting(original, self, *args, **kwargs)
            if hosted._at_end is not None:  # it ended before enough was seen; what follows is the script's own end
                hosted._at_end()
            return found

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

    def see_fit(self, keras: Any, model: Any, arguments: dict[str, Any]) -> None:
        """See some batches of a `fit` that begins."""
        from outpace.tune.climb.parts import Profiled

        self._loops.rest()
        print_message(
            f"tuning the fit at {_line()}" + (f", number {self.fits}" if self.fits > 1 else " (--fit N for the N-th one)")
        )
        given = {name: value for name, value in arguments.items() if name != "x"}
        profiled, ends, kind = Profiled(self.sources), [time.perf_counter()], keras.callbacks.CallbackList
        original = kind.on_train_batch_end

        def program() -> tuple[Program, tuple[Any, float | None]]:
            from outpace.capture.steps_keras import steps_per_execution
            from outpace.tune.program.program import Program

            steady = ends[_WARMUP:]
            calls = (len(steady) - 1) * steps_per_execution(model)
            seconds = (steady[-1] - steady[0]) / calls if calls > 0 else None
            return Program.of(model, arguments.get("x"), given, seconds, tuple(self.plan["kept"])), profiled.shares()

        def ended(this: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(this, *args, **kwargs)
            now = time.perf_counter()
            ends.append(now)
            if len(ends) > _WARMUP and (now - ends[_WARMUP] >= _SECONDS or now - ends[0] >= _FIRST_SECONDS):
                kind.on_train_batch_end = original
                if not self.plan["kept"]:
                    profiled.begin()
                    kind.on_train_batch_end, kind.on_train_batch_begin = profiled.between(kind, lambda: self._ending(program))
                    return found
                self._ending(program)
            return found

        kind.on_train_batch_end = ended
        self._at_end = lambda: self._ending(program)

    def _begin_loop(self) -> None:
        """A loop makes its first step: Ctrl-C ends it, and none of its own code runs."""
        signal.signal(signal.SIGINT, lambda number, frame: self._interrupted())

    def see_loop(self, found: Found) -> None:
        """See some steps of a loop of the script's own, from inside of one."""
        from outpace.capture.sampler import FrameSampler
        from outpace.tune.loop.loop import Loop

        if found.whole is not None:
            place = f"{os.path.relpath(found.whole.co_filename)}:{found.whole.co_firstlineno} {found.whole.co_name}"
            self.refuse(
                f"{place} loops over its data set inside of a tf.function: one call makes all steps, which nothing outside can tell apart."
            )
        try:
            loop = Loop(found, sys._getframe(1))
        except OutpaceError as error:
            self.refuse(str(error))
        print_message(f"tuning the loop at {loop.statement.place}")
        self._sampler = FrameSampler()
        self._sampler.start()
        self._at_end = lambda: self._ending(lambda: self._of_loop(loop))
        loop.watch(self._at_end)

    def _of_loop(self, loop: Loop) -> tuple[Program, tuple[Any, float | None]]:
        from outpace.tune.program.program import Program

        loop.look()
        return Program.of_loop(loop, tuple(self.plan["kept"])), (None, None)

    def _unwritten(self) -> str:
        """What the script would have changed, had it not been guarded, as a sentence; empty for
        nothing.
        """
        names = sorted(self._guard.changed())
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"meanwhile the script did not write: {', '.join(names[:_NAMED])}{more}" if names else ""

    def _ending(self, program: Callable[[], tuple[Program, tuple[Any, float | None]]]) -> NoReturn:
        """Say what was seen, and end the process, whatever comes of it."""
        from outpace.tune.reason import reason_of

        self._at_end = None
        samples = self._sampler.stop() if self._sampler is not None else None
        try:
            found, (parts, waits) = program()
            self._see(found, parts, waits, samples)
        except KeyboardInterrupt:
            self._interrupted()
        except OutpaceError as error:
            self.refuse(str(error))
        except Exception as error:
            self._end(1, f"the tuning failed: {reason_of(error)}.")
        self._end(0)

    def _see(self, program: Program, parts: Any, waits: float | None, samples: Any) -> None:
        from outpace.tune.climb.candidates import candidates_of
        from outpace.tune.climb.lines import header_share, lines_of, share_of
        from outpace.tune.data.tree import describe
        from outpace.tune.optimisations.compiled import callbacks_of_batches
        from outpace.tune.optimisations.facts import facts_of
        from outpace.tune.searched import Seen

        loop = program.loop

        def share(places: Sequence[str]) -> float | None:
            return share_of(samples, loop, places) if samples is not None and loop is not None and places else None

        candidates, others = candidates_of(program, self.recorder, self._called(), share)
        lines = lines_of(samples, loop) if samples is not None and loop is not None else None
        if lines is not None and loop is not None:
            waits = header_share(lines, loop)
        Seen(
            candidates,
            others,
            place=place_of(loop) if loop is not None else Place(),
            limited=loop.reads_batches if loop is not None else not program.source.generator,
            caches=program.own_pipeline and bool(describe(program.dataset).find("cache")),
            step_seconds=program.step_seconds,
            input_share=waits,
            steps=program.steps,
            own=tuple(callbacks_of_batches(program)),
            facts=facts_of(program),
            parts=parts,
            lines=lines,
            remark=program.remark,
            unwritten=self._unwritten(),
            imports=self._imports,
        ).write(self.plan["found"])

    def _called(self) -> frames.CallSite | None:
        """Where the script calls fit; of what has no file, the script."""
        place = frames.find_call_site(3)
        if place is not None and not place.file.startswith("<"):
            return place
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        return frames.CallSite(os.path.abspath(main), 0, None) if main is not None else None

    def _interrupted(self) -> NoReturn:
        print_message("interrupted; the script ends here")
        self._end(130)

    def refuse(self, why: str) -> NoReturn:
        """Say why nothing is tuned, and end the process."""
        self._end(TuneError.exit_code, f"nothing is tuned: {why}")

    def _end(self, code: int, why: str = "") -> NoReturn:
        if why:
            print_message(why)
        write_outcome(self.plan["outcome"], ScriptOutcome(stopped=True, exit_code=code))
        end_process(code)

    def run(self) -> None:
        """Run the script; its own exception comes out. It comes to its end where nothing of it
        trains.
        """
        substitute(Edition.read(self.plan["edition"]).texts if self.plan["edition"] else {}, self._guard.place)
        hooks: Any = {"tensorflow": self.on_tensorflow, "jax": self.on_jax, "keras": self.on_keras, "tf_keras": self.on_keras}
        ImportHooks(hooks, _not_hooked, self._importing).install()
        script_begins()
        code, failed = 1, True
        try:
            run_as_main(self.plan["script"], self.plan["argv"], self.plan["module"])
            code, failed = 0, False
        except SystemExit as end:
            code, failed = exit_code(end.code), False
            raise
        except KeyboardInterrupt:
            code = 130
            raise
        except Exception:
            if self._at_end is None or os.getpid() != self._pid:
                raise
            hide_own_frames()
            traceback.print_exc()
            self._end(
                1, "nothing is tuned: the script failed while its training was looked at."
            )  # its exit handlers may wait for ever
        finally:
            hide_own_frames()
            if os.getpid() == self._pid:
                if self._at_end is not None and not failed:
                    self._at_end()
                if self.plan["then"] == "stop" and (said := self._unwritten()):  # else it is started anew
                    print_message(said)
                write_final_outcome(self.plan["outcome"], ScriptOutcome(reason=self._why_nothing(), exit_code=code))

    def _why_nothing(self) -> str:
        wanted = self.plan["fit"]
        if self.fits:
            return f"the script called Keras' fit {format_count(self.fits, 'time')}, so that there was no fit number {wanted}"
        return "the script called no Keras fit and ran no loop of training steps, so there was nothing to tune"


def place_of(loop: Loop) -> Place:
    """The innermost loop of the user's around the steps."""
    file = loop.frame.f_code.co_filename
    found = loop_at(source_of(file), loop.innermost.lineno, os.path.realpath(file))
    return found if found is not None else Place()


def _not_hooked(name: str, error: Exception) -> None:
    print_message(f"{name} could not be hooked, so nothing is tuned: {error!r}")


def _line() -> str:
    """Where the user's code calls."""
    place = frames.find_call_site()
    return f"{os.path.relpath(place.file)}:{place.line}" if place is not None else "an unknown line"


def main() -> None:
    """Entry of the process."""
    register_final_hook()
    Hosted(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
