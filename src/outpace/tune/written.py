"""What `outpace tune` prints, and the files that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outpace.capture.recording import tell
from outpace.model.errors import OutputError
from outpace.model.report import Report
from outpace.model.units import counted
from outpace.report import json_, terminal
from outpace.store.tree import near
from outpace.tune.pages.proof import ID, report_of
from outpace.tune.proof import Proof
from outpace.tune.searched import Searched


def report(plan: Mapping[str, Any], searched: Searched, proof: Proof | None) -> int:
    """Print the report and write the files of a plan; 0, or the exit code for a file that could not be written."""
    made = report_of(searched, proof)
    if plan["json"]:
        sys.stdout.write(json_.render(made) + "\n")
    else:
        terminal.print_report(made, width=plan["width"], color=plan["color"], tools=[ID], commands=True)
    sys.stdout.flush()
    files: dict[str, Callable[[Path], str]] = {
        "html": lambda path: _html(made, path),
        "out": lambda path: _races(searched, proof, path),
        "patch": lambda path: _patch(searched, proof, path),
    }
    written = [_told(write, Path(plan[name])) for name, write in files.items() if plan[name]]
    return 0 if all(written) else OutputError.exit_code


def times(seconds: float, raced: float, budget: float, whole: float) -> str:
    """Where the time of the command went: the budget is that of the search and of the race of the texts."""
    rest = whole - seconds - raced
    more = f" ({rest:.0f} s starting the script, comparing texts, and reports)" if rest >= 1 else ""
    return f"tuning took {seconds + raced:.0f} s of {budget:.0f} s; the whole command took {whole:.0f} s{more}"


def _told(write: Callable[[Path], str], place: Path) -> bool:
    """Write, and say where. A file that cannot be written is said too, and does not keep the others from being written."""
    try:
        tell(write(place))
    except OutputError as error:
        tell(str(error))
        return False
    return True


def _html(made: Report, path: Path) -> str:
    from outpace.report import html

    return f"the HTML report is {html.write(made, path)}"


def _races(searched: Searched, proof: Proof | None, folder: Path) -> str:
    from outpace.tune.trial.record import write_experiment

    races = [*searched.races, *([proof.race] if proof is not None and proof.race is not None else [])]
    for at, experiment in enumerate(races):
        write_experiment(experiment, folder / f"race-{at}.jsonl")
    return f"the samples of {counted(len(races), 'race')} are in {folder}"


def _patch(searched: Searched, proof: Proof | None, path: Path) -> str:
    """Write what was proven."""
    from outpace.tune.patch import write_patch

    if proof is None or proof.stack is None:
        return f"no patch is written: {proof.why}" if proof is not None else "there is nothing to write as a patch"
    patch = proof.stack.patch
    write_patch(patch, path)
    place = near(str(path))
    return f"the patch is {place} (apply it with: {patch.command} < {place})"
