"""The process of `outpace tune`: `python -m outpace.tune.hosted PLAN` runs the script and tunes its first Keras `fit`.

The command replaces itself by this process, so terminal, signals and exit code are the script's own. Nothing but the standard library
is imported before the script imports a framework.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from outpace.capture.imports import ImportHooks
from outpace.capture.recording import tell
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.capture.window import CaptureDone


class Hosted:
    """Takes over the first `fit` that trains with TensorFlow."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.recorder: Any = None
        self.done = False

    def on_tensorflow(self, tf: ModuleType) -> None:
        """TensorFlow was imported: note how data sets are built from now on."""
        from outpace.capture.pipeline import PipelineRecorder

        self.recorder = PipelineRecorder(False)
        self.recorder.install(tf)

    def on_keras(self, keras: Any) -> None:
        """Keras was imported: put ourselves before `fit`."""
        original, hosted = keras.Model.fit, self
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if hosted.done:
                return original(self, *args, **kwargs)
            hosted.done = True
            bound = dict(signature.bind(self, *args, **kwargs).arguments)
            model = bound.pop(next(iter(signature.parameters)))
            return original(model, **hosted.tune(model, bound))

        keras.Model.fit = fit

    def tune(self, model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Tune, report, and return the arguments that `fit` shall train with; ends the script where that was asked for."""
        from outpace.model.errors import OutpaceError
        from outpace.tune.program.program import Program
        from outpace.tune.reason import reason_of
        from outpace.tune.session import plan, tune_program

        named = {name: value for name, value in arguments.items() if name != "x"}
        try:
            program = Program.of(model, arguments.get("x"), **named)
            if self.plan["dry_run"]:
                sys.stdout.write("\n".join(plan(program, self.recorder)) + "\n")
                raise CaptureDone
            from outpace.tune.progress import shown

            with shown() as watch:
                tuned = tune_program(
                    program,
                    self.recorder,
                    budget=self.plan["budget"],
                    allow_statistical=self.plan["statistical"],
                    batch_sizes=self.plan["batch_sizes"],
                    only_limits=self.plan["only_limits"],
                    ends=self.plan["then"] == "stop",
                    watch=watch,
                )
            self._report(tuned)
        except OutpaceError as error:
            return self._without(arguments, f"nothing is tuned: {error}")
        except Exception as error:  # the script's own error comes again, from fit itself; ours must not end its training
            return self._without(arguments, f"the tuning failed: {reason_of(error)}.")
        if self.plan["then"] == "stop":
            raise CaptureDone
        if self.plan["then"] != "apply":
            return arguments
        dataset = tuned.apply()
        return {**arguments, "x": dataset} if program.own_pipeline else arguments

    def _without(self, arguments: dict[str, Any], why: str) -> dict[str, Any]:
        """Say why nothing came of it, and train as the script would have; a dry run trains nothing in any case."""
        if self.plan["dry_run"]:
            tell(why)
            raise CaptureDone
        tell(f"{why} The script goes on as it is.")
        return arguments

    def _report(self, tuned: Any) -> None:
        """Print the report and write the files that were asked for."""
        from outpace.report import json_, terminal
        from outpace.tune.environment.page import page_of_plain
        from outpace.tune.page import ID

        environment = self.plan.get("environment")
        report = tuned.report_of(self.plan["script"], *([page_of_plain(environment)] if environment else []))
        if self.plan["json"]:
            sys.stdout.write(json_.render(report) + "\n")
        else:
            terminal.print_report(report, width=self.plan["width"], color=self.plan["color"], tools=[ID])
        sys.stdout.flush()
        if self.plan["html"]:
            _tell_written(_write_html, report, self.plan["html"])
        if self.plan["out"]:
            _tell_written(_write_races, tuned, self.plan["out"])
        if self.plan["patch"]:
            _tell_written(functools.partial(_write_patch, self.plan), tuned, self.plan["patch"])


def _tell_written(write: Callable[[Any, Path], str], what: Any, place: str) -> None:
    """Write, and say where. A file that cannot be written is said too: it is no reason to end the script."""
    from outpace.model.errors import OutputError

    try:
        tell(write(what, Path(place)))
    except OutputError as error:
        tell(str(error))


def _write_html(report: Any, path: Path) -> str:
    from outpace.report import html

    return f"the HTML report is {html.write(report, path)}"


def _write_races(tuned: Any, folder: Path) -> str:
    from outpace.tune.trial.experiment import write_experiment

    races = tuned.climbed.experiments
    for at, experiment in enumerate(races):
        write_experiment(experiment, folder / f"race-{at}.jsonl")
    return f"the samples of {len(races)} races are in {folder}"


def _write_patch(plan: dict[str, Any], tuned: Any, path: Path) -> str:
    """Write the change of the source, after the patched program was run up to its first fit and compared."""
    from outpace.tune.data.verify import Difference
    from outpace.tune.patch import verify_patch, write_patch

    patch = tuned.patch()
    for left in patch.left:
        tell(left.sentence)
    if not patch.files:
        return "there is nothing to write as a patch"
    tell("running the patched program up to its first fit, to compare its elements with the original's")
    outcome = verify_patch(patch, plan["script"], plan["argv"], module=plan["module"], risk=tuned.best.risk)
    if isinstance(outcome, Difference):
        return f"no patch is written, because the patched program differs: {outcome.what}"
    write_patch(patch, path)
    return f"the patch is {path} (apply it with: {patch.command} < {path}): {' '.join(outcome.how)}"


def main() -> None:
    """Run the script; its own exception comes out."""
    plan = json.loads(sys.argv[1])
    hosted = Hosted(plan)
    hooks: Any = {"tensorflow": hosted.on_tensorflow, "keras": hosted.on_keras}
    ImportHooks(hooks, lambda name, error: tell(f"{name} could not be hooked, so nothing is tuned: {error!r}")).install()
    try:
        run_as_main(plan["script"], plan["argv"], plan["module"])
    except CaptureDone:
        return
    finally:
        hide_own_frames()
    if not hosted.done:
        tell("the script called no Keras fit, so there was nothing to tune")


if __name__ == "__main__":
    main()
