# SPDX-License-Identifier: Apache-2.0
"""`outpace replay`: repeats a race from its record and compares both outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.options import Color, Width


def replay(
    record: Annotated[
        Path, typer.Argument(metavar="FILE", help="A record that 'outpace race --out' or outpace.race(out=...) wrote.")
    ],
    judge_only: Annotated[
        bool, typer.Option("--judge-only", help="Run nothing: judge the record's own samples again.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the record of the new race.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Repeat a race of scripts as its record says, and compare the two outcomes.

    Run it in the folder that the scripts' paths start from. Exit code 0 when the race could be
    repeated, whether or not the outcomes agree.
    """
    from outpace.cli.output import print_report
    from outpace.model import Report, UsageError
    from outpace.tune.pages.race import replay_page_of
    from outpace.tune.race import replay as run_again
    from outpace.tune.trial import judge, read_experiment

    before = read_experiment(record)
    if judge_only and out is not None:
        raise UsageError("--judge-only and --out contradict each other: nothing new is measured. Leave one of them out.")
    if judge_only:
        from dataclasses import replace

        after = replace(before, verdicts=judge(before))
    else:
        after = run_again(before, out=out).experiment
    page = replay_page_of(before, after, judged=judge_only)
    print_report(Report(str(record), page.headline, (), (), (page,)), single=True, json=json, width=width, color=color)
    if after.interrupted and not judge_only:
        raise typer.Exit(130)
