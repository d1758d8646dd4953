# SPDX-License-Identifier: Apache-2.0
"""One tuning of a script: the search, in a process that ends with it, and the proof of what that
found. The command does this, and `outpace.tune("train.py")`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.capture.interpreter import require_script
from outpace.capture.options import ScriptOutcome
from outpace.capture.process_tree import ProcessTree
from outpace.model.errors import CaptureError, TuneError, UsageError
from outpace.tune.climb.climb import INTERRUPTED, Climb, Ended
from outpace.tune.deadline import Deadline
from outpace.tune.pages.progress import shown
from outpace.tune.patch.make import SourcePatch
from outpace.tune.proof import Originals, Proof, prove
from outpace.tune.risk import CONSENTS
from outpace.tune.same import Standing
from outpace.tune.searched import Searched, Seen
from outpace.tune.starts import Forks
from outpace.tune.texts.load import source_of
from outpace.tune.trial.script import Command

if TYPE_CHECKING:
    from outpace.model.report import Report
    from outpace.stats.ratios import Estimate
    from outpace.tune.trial.record import Experiment

BUDGET = 120.0  # seconds, from the key press to the answer
REQUIRED = (Standing.COMPARED.value, Standing.PROVEN.value)  # of what is kept


@dataclass(frozen=True)
class Tuned:
    """What came of a tuning; printing it, or showing it in a notebook, gives the report.

    code, outcome: of the script's first process. searched: None where nothing could be tuned.
    proof: None where nothing seemed faster.
    """

    plan: Mapping[str, Any]
    code: int
    outcome: ScriptOutcome | None
    searched: Searched | None
    proof: Proof | None
    seen: Seen | None = None

    @property
    def gain(self) -> Estimate | None:
        """Rate of the edited script / rate of the script as it is, with its 95% CI; None where
        nothing is kept.
        """
        return self.proof.gain if self.proof is not None else None

    @property
    def experiment(self) -> Experiment | None:
        """The race of the edited script against the original; None where there was none."""
        return self.proof.race if self.proof is not None else None

    @property
    def patch(self) -> SourcePatch | None:
        """What is kept, as a change of the source, below what is known of it; nothing is written.
        None where nothing is kept.
        """
        proof = self.proof
        if proof is None or proof.stack is None or self.searched is None:
            return None
        return SourcePatch.of(self.searched.sources, proof.stack.texts, proof.stack.titles, (proof.gained, *proof.known))

    @property
    def standing(self) -> str:
        """What is known of what is kept: "proven" (the training was compared as a whole),
        "compared" (some passes of it were), "allowed" (it is another program, with your consent);
        empty where nothing is kept.
        """
        found = self.proof.standing if self.proof is not None else None
        return found.value if found is not None else ""

    @property
    def unmet(self) -> str:
        """Why what was required is not there, in a sentence; empty where it is."""
        if self.plan["require"] != Standing.PROVEN.value or self.plan["only_limits"] or self.standing == Standing.PROVEN.value:
            return ""
        why = self.proof.why if self.proof is not None else "Nothing was found that makes the training faster."
        return f"A proven speed-up was required, and there is none: {why[:1].lower()}{why[1:]}"

    @property
    def report(self) -> Report:
        """The report that every renderer shows."""
        from outpace.tune.pages.tuning import report_of

        assert self.searched is not None
        return report_of(self.plan, self.searched, self.proof)

    def __str__(self) -> str:
        from outpace.report import terminal

        report = self.report
        return terminal.render(report, tools=[page.id for page in report.pages]).strip("\n")

    def _repr_html_(self) -> str:
        return self.report.pages[0]._repr_html_()


def tuning(plan: Mapping[str, Any], folder: str) -> Tuned:
    """Search, and prove. plan: what was asked; folder: for files of ours. Ctrl-C is told and
    raised, but in the script's first run, where it is an exit code.
    """
    command = Command((plan["script"], *plan["argv"]), plan["module"])
    deadline = Deadline(plan["budget"])
    with (
        shown() as watch,
        Forks() as forks,
        Originals(command, forks=forks, deadline=deadline) as originals,
        Climb(plan, folder, watch, originals) as climb,
    ):
        try:
            searched = climb.run()
        except Ended as ended:
            return Tuned(plan, ended.code, ended.outcome, None, None)
        except CaptureError as error:
            watch.note(f"nothing is tuned: {error}")
            return Tuned(plan, TuneError.exit_code, ScriptOutcome(stopped=True, exit_code=TuneError.exit_code), None, None)
        except KeyboardInterrupt:
            watch.note(f"interrupted{watch.so_far}")
            raise
        proof = None
        if searched is None:  # a dry run
            return Tuned(plan, climb.code, climb.outcome, None, None, climb.seen)
        if searched.stack is not None:
            try:
                proof = prove(searched, originals, climb.running, watch)
            except KeyboardInterrupt:
                watch.note("interrupted; what was found is not proven")
                raise
            if changed := [path for path, text in searched.sources.items() if source_of(path) != text]:
                why = f"{os.path.relpath(changed[0])} was changed meanwhile, so that this is of another text. Tune it again."
                proof = replace(proof, stack=None, gain=None, why=why)
            proof = proof.meeting(Standing(plan["require"]))
    return Tuned(plan, climb.code, climb.outcome, searched, proof)


def tune(
    script: str | os.PathLike[str],
    *argv: str,
    module: bool = False,
    fit: int = 1,
    budget: float = BUDGET,
    allow: Sequence[str] = (),
    require: str = "compared",
) -> Tuned:
    """Find what makes a training script faster, compare the edited script with it, and race the
    two, as `outpace tune SCRIPT ARGV...` does. No file of the script's is written.

    `budget` is in seconds, from the call to the answer. `fit` counts the calls of Keras' `fit`.
    What changes results by more than rounding is raced, too, and kept only where `allow` names its
    class: "order" (the same examples in another order or in other batches), "statistical" (other
    random numbers). `require="proven"` keeps nothing of a training that is too long to be compared
    as a whole. Print the result, or show it in a notebook; `result.patch` is what is kept, and
    `result.standing` how it is known. Raises NotFoundError where there is no script, UsageError for
    a class that does not exist, and TuneError where there is nothing that can be tuned.
    """
    if unknown := set(allow) - set(CONSENTS):
        raise UsageError(f"There is no class {', '.join(sorted(unknown))} to allow: give some of {', '.join(CONSENTS)}.")
    if require not in REQUIRED:
        raise UsageError(f"{require!r} cannot be required: give one of {', '.join(REQUIRED)}.")
    if not isinstance(script, (str, os.PathLike)):
        raise UsageError(
            f"A script is tuned, and this is a {type(script).__name__}: give its path, outpace.tune('train.py'). A notebook becomes one by "
            "'jupyter nbconvert --to script NOTEBOOK.ipynb'."
        )
    name = os.fspath(script)
    require_script(name, module)
    plan = {
        "script": name, "argv": list(argv), "module": module, "fit": fit, "budget": budget, "asked_budget": None, "then": "stop",
        "allow": list(allow), "only_limits": False, "dry_run": False, "show_secrets": False,
        "require": require,
    }  # fmt: skip
    with ProcessTree() as family:
        found = tuning(plan, family.folder)
    if found.code == INTERRUPTED:
        raise KeyboardInterrupt
    if found.searched is None:
        raise TuneError(f"Nothing of {name} was tuned; the lines above say why.")
    return found
