# SPDX-License-Identifier: Apache-2.0
"""`outpace tune`: finds what makes an unmodified training script faster, and proves it."""

from __future__ import annotations

import json as jsonlib
import os
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.cli.options import Color, Html, Module, Script, ScriptArgs, ShowSecrets, Width, check_script_args

if TYPE_CHECKING:
    from outpace.capture.options import ScriptOutcome
    from outpace.tune.searched import Seen
    from outpace.tune.session import Tuned

_BUDGET, _LIMITS_BUDGET = "120s", "60s"


class AfterTuning(str, Enum):
    """What happens to the script after the tuning."""

    STOP = "stop"
    CONTINUE = "continue"
    APPLY = "apply"


class Require(str, Enum):
    """What must be known of the kept changes (`tune.same.Standing`)."""

    COMPARED = "compared"
    PROVEN = "proven"


class Allow(str, Enum):
    """Changes of the results that a user can allow (`tune.risk.Risk`, which is not imported for a
    `--help`).
    """

    ORDER = "order"
    STATISTICAL = "statistical"


_OutFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the samples of every race to this folder (JSON lines).")
]


WhichFit = Annotated[
    int, typer.Option("--fit", metavar="N", min=1, help="Which call of fit to tune; earlier calls train unchanged.")
]
HowLong = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="How long to wait for the answer: 90s, 3m (default 120s). All is in it: starts of the script, races, and the comparison, of "
        "which a longer wait covers more.",
    ),
]
Afterwards = Annotated[
    AfterTuning,
    typer.Option(
        "--then",
        help="stop: end the script; continue: restart it unchanged; apply: restart it and train with what is kept.",
    ),
]
Allowed = Annotated[
    list[Allow] | None,
    typer.Option(
        "--allow",
        help="Also keep what changes results by more than rounding. order: the same examples in another order or in other batches; "
        "statistical: other random numbers. What these would gain is raced and told in any case.",
    ),
]
Required = Annotated[
    Require,
    typer.Option(
        "--require",
        help="proven: keep nothing of a training that is too long to be compared as a whole, and exit with 13 where nothing is kept.",
    ),
]
PatchFile = Annotated[
    Path | None,
    typer.Option("--patch", metavar="FILE", help="Write what is kept as a patch of the script, below what is known of it."),
]
Details = Annotated[bool, typer.Option("--details", help="Show below the first screen why each change was tried or not.")]
OnlyLimits = Annotated[
    bool,
    typer.Option(
        "--only-limits",
        help="Measure the speed limits, and exit (default 60s).",
    ),
]


def tune(
    context: typer.Context,
    script: Script,
    args: ScriptArgs = None,
    module: Module = False,
    fit: WhichFit = 1,
    budget: HowLong = None,
    then: Afterwards = AfterTuning.STOP,
    allow: Allowed = None,
    require: Required = Require.COMPARED,
    only_limits: OnlyLimits = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be tried and run, and exit.")] = False,
    out: _OutFolder = None,
    patch: PatchFile = None,
    html: Html = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    details: Details = False,
    show_secrets: ShowSecrets = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Make a training faster: race the changes that fit it, and keep what a comparison with your
    script and another race confirm.

    The script runs up to its fit, or into its loop, in a process that ends with the tuning: none of
    its code behind it runs, nothing is saved. What changes results by more than rounding is raced,
    too, and kept only with --allow. A training that is too long to be compared as a whole is cut,
    and the headline says how many of its passes were compared. Exit code: 0, 8 if nothing can be
    tuned, 13 if --require proven is not met; the script's own if it trains afterwards.
    """
    from outpace.capture.interpreter import require_script
    from outpace.capture.remote.options import parse_seconds
    from outpace.tune.patch.make import require_new

    require_script(script, module)
    if patch is not None:
        require_new(patch)
    plan: dict[str, Any] = {
        "script": script,
        "argv": check_script_args(context, args),
        "module": module,
        "fit": fit,
        "asked_budget": budget,
        "budget": parse_seconds(budget or (_LIMITS_BUDGET if only_limits else _BUDGET)),
        "then": then.value,
        "allow": sorted({item.value for item in allow or []}),
        "require": require.value,
        "only_limits": only_limits,
        "dry_run": dry_run,
        "out": _place(out),
        "patch": _place(patch),
        "html": _place(html),
        "json": json_,
        "details": details,
        "show_secrets": show_secrets,
        "width": width,
        "color": color,
    }
    raise typer.Exit(_tune_script(plan))


def _place(path: Path | None) -> str | None:
    """Return the absolute path for a file to write, independent of the script's changes of the
    current folder.
    """
    return os.path.abspath(path) if path is not None else None


def _tune_script(plan: dict[str, Any]) -> int:
    """Tune a script as planned, report the result, and return the exit code.

    Where the script trains afterwards, tuned or not, this process is replaced by the script's and
    the function does not return.

    plan: settings of `session.tuning`, and `then`, `out`, `patch`, `html`, `json`, `width`,
        `color`.
    """
    from outpace.capture.interpreter import exec_command, script_command
    from outpace.capture.messages import print_message
    from outpace.capture.process_tree import ProcessTree
    from outpace.tune.climb.climb import INTERRUPTED
    from outpace.tune.session import tuning

    trains = plan["then"] != "stop" and not plan["dry_run"]
    if trains:
        print_message("the script runs twice: what it does before its training is done again, in a new process, for that")
    began = time.monotonic()
    with ProcessTree() as family:
        try:
            tuned = tuning(plan, family.folder)
        except KeyboardInterrupt:
            return INTERRUPTED
    code, outcome = tuned.code, tuned.outcome
    if tuned.seen is not None:
        code = _print_survey(tuned.seen, as_json=bool(plan["json"]))
    if tuned.searched is not None:
        code = _report_tuning(tuned, time.monotonic() - began)
    if outcome is None or not outcome.stopped:
        code = _report_untuned(code, outcome, trains)
    if not trains or code == INTERRUPTED or (outcome is None and code):
        return code
    if plan["then"] == "apply" and tuned.proof is not None and tuned.proof.stack is not None:
        from outpace.tune.edited import edited_command

        exec_command(edited_command(tuned.proof.stack.texts, plan["script"], plan["argv"], plan["module"]))
    exec_command(script_command(plan["script"], plan["argv"], plan["module"]))


def _print_survey(survey: Seen, *, as_json: bool) -> int:
    """Print what a tuning would race, what not, and why; return the exit code 0."""
    from outpace.tune.optimisations.advice import advice_on

    consents = (f", kept only with --allow {candidate.consent}" if candidate.consent else "" for candidate in survey.candidates)
    tried = [
        (f"would try{consent}", f"{candidate.title}: {candidate.why}")
        for consent, candidate in zip(consents, survey.candidates, strict=True)
    ]
    left_out = [(other.decision, f"{other.title}: {other.reason}") for other in survey.others]
    advice = [("advice", f"{one.title}: {one.sentence} {one.reason}") for one in advice_on(survey.facts)]
    sections = {"would_try": tried, "not_tried": left_out, "advice": advice}
    lines = {name: [f"{what}: {text}" for what, text in rows] for name, rows in sections.items()}
    for line in [jsonlib.dumps(lines)] if as_json else [line for rows in lines.values() for line in rows]:
        typer.echo(line)
    return 0


def _report_tuning(tuned: Tuned, total_s: float) -> int:
    """Report the result of the tuning and where the time went (`total_s` seconds), and return the
    exit code.
    """
    from outpace.capture.messages import print_message
    from outpace.model.errors import UnprovenError
    from outpace.tune.written import report, times

    assert tuned.searched is not None
    code = report(tuned)
    if tuned.unmet:
        print_message(tuned.unmet)
        code = code or UnprovenError.exit_code
    if tuned.searched.unwritten:
        print_message(tuned.searched.unwritten)
    print_message(times(total_s, tuned.plan["budget"]))
    return code


def _report_untuned(code: int, outcome: ScriptOutcome | None, trains: bool) -> int:
    """Print why nothing was tuned of a script that ended by itself, and that none of its files
    remain; return the exit code where it does not train.
    """
    from outpace.capture.messages import print_message
    from outpace.model.errors import TuneError
    from outpace.tune.climb.climb import INTERRUPTED

    if code == INTERRUPTED or (outcome is None and code):  # an interrupt or an error has ended it
        return code
    if outcome is None:
        print_message("the script ended by itself before any tuning")
    elif code:
        print_message(f"nothing is tuned: the script ended with exit code {code} before its training could be tuned")
    elif outcome.reason:
        print_message(outcome.reason)
    print_message("it ran without writing any file of yours" + ("; it is started anew, and trains" if trains else ""))
    return code or TuneError.exit_code
