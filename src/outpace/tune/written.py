# SPDX-License-Identifier: Apache-2.0
"""What `outpace tune` prints, and the files that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from outpace.capture.messages import print_message
from outpace.model.errors import OutputError
from outpace.model.report import Report
from outpace.model.units import format_count
from outpace.report import json_, terminal
from outpace.store.tree import relative_path
from outpace.tune.pages.tuning import DETAILS, ID
from outpace.tune.same import Standing
from outpace.tune.session import Tuned


def report(tuned: Tuned) -> int:
    """Print the report and write the files that were asked for; 0, or the exit code for a file that
    could not be written.
    """
    made, plan = tuned.report, tuned.plan
    if plan["json"]:
        sys.stdout.write(json_.render(made) + "\n")
    else:
        terminal.print_report(
            made, width=plan["width"], color=plan["color"], tools=[ID, *([DETAILS] if plan["details"] else [])],
            show_commands=True, file_options=("--html",),
        )  # fmt: skip
    sys.stdout.flush()
    files: dict[str, Callable[[Path], str]] = {
        "html": lambda path: _html(made, path),
        "out": lambda path: _races(tuned, path),
        "patch": lambda path: _patch(tuned, path),
    }
    written = [_told(write, Path(plan[name])) for name, write in files.items() if plan[name]]
    return 0 if all(written) else OutputError.exit_code


def times(seconds: float, budget: float) -> str:
    """How long the command took, of what it was given."""
    return f"tuning took {seconds:.0f} s of {budget:.0f} s"


def _told(write: Callable[[Path], str], place: Path) -> bool:
    """Write, and say where. A file that cannot be written is said too, and does not keep the others
    from being written.
    """
    try:
        print_message(write(place))
    except OutputError as error:
        print_message(str(error))
        return False
    return True


def _html(made: Report, path: Path) -> str:
    from outpace.report import html

    return f"the HTML report is {html.write(made, path)}"


def _races(tuned: Tuned, folder: Path) -> str:
    from outpace.tune.trial.record import write_experiment

    assert tuned.searched is not None
    races = [*tuned.searched.climbed.races, *([tuned.experiment] if tuned.experiment is not None else [])]
    for at, experiment in enumerate(races):
        write_experiment(experiment, folder / f"race-{at}.jsonl")
    return (
        f"the samples of {format_count(len(races), 'race')} are in {folder}"
        if races
        else "there was no race, whose samples could be written"
    )


def _patch(tuned: Tuned, path: Path) -> str:
    """Write what is kept."""
    from outpace.tune.patch import write_patch

    patch = tuned.patch
    if patch is None or tuned.proof is None:
        return f"no patch is written: {tuned.proof.why}" if tuned.proof is not None else "there is nothing to write as a patch"
    write_patch(patch, path)
    place = relative_path(str(path))
    known = f"; it was compared in {tuned.proof.judgement.extent}: read it" if tuned.standing == Standing.COMPARED.value else ""
    return f"the patch is {place} (apply it with: {patch.command} < {place}){known}"
