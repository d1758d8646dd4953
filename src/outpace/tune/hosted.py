"""The process of `outpace tune`: `python -m outpace.tune.hosted PLAN` runs the script and tunes its first Keras `fit`.

The command replaces itself by this process, so terminal, signals and exit code are the script's own. Nothing but the standard library
is imported before the script imports a framework.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
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
        from outpace.tune.session import plan, train_on, tune_program

        named = {name: value for name, value in arguments.items() if name != "x"}
        try:
            program = Program.of(model, arguments.get("x"), **named)
            if self.plan["dry_run"]:
                sys.stdout.write("\n".join(plan(program, self.recorder)) + "\n")
                raise CaptureDone
            from outpace.tune.progress import shown

            with shown() as watch:
                tuned = tune_program(
                    program, self.recorder, budget=self.plan["budget"], allow_statistical=self.plan["statistical"], watch=watch
                )
        except OutpaceError as error:
            tell(f"nothing is tuned: {error}")
            return arguments
        self._report(tuned)
        if self.plan["then"] == "stop":
            raise CaptureDone
        return train_on(tuned, arguments) if self.plan["then"] == "apply" else arguments

    def _report(self, tuned: Any) -> None:
        from pathlib import Path

        from outpace.model.report import Report
        from outpace.report import html, json_, terminal
        from outpace.tune.page import ID, page_of
        from outpace.tune.trial.experiment import write_experiment

        page = page_of(tuned)
        report = Report(self.plan["script"], page.headline, (), (), (page,))
        if self.plan["json"]:
            sys.stdout.write(json_.render(report) + "\n")
        else:
            terminal.print_report(report, width=self.plan["width"], color=self.plan["color"], tools=[ID])
        if self.plan["html"]:
            Path(self.plan["html"]).write_text(html.render(report), encoding="utf-8")
            tell(f"the HTML report is {self.plan['html']}")
        if self.plan["out"]:
            folder = Path(self.plan["out"])
            races = [
                tuned.climbed.limits.experiment,
                *tuned.climbed.races,
                *([tuned.climbed.final] if tuned.climbed.final else []),
            ]
            for at, experiment in enumerate(races):
                write_experiment(experiment, folder / f"race-{at}.jsonl")
            tell(f"the samples of {len(races)} races are in {folder}")
        sys.stdout.flush()


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
