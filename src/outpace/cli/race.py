# SPDX-License-Identifier: Apache-2.0
"""`outpace race`: times variants of a training script against each other."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.options import Color, Html, ShowSecrets, Width


class RateUnit(str, Enum):
    """Unit of the rates; the protocol's own type is imported when the command runs."""

    STEP = "step"
    EXAMPLE = "example"


def race(
    variants: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT...",
            help="Two or more scripts; quote one that has variables or arguments: 'NAME=VALUE train.py --xla'.",
        ),
    ],
    budget: Annotated[str, typer.Option(metavar="TIME", help="How long to measure, after the warm-up: 90s, 2m.")] = "60s",
    baseline: Annotated[
        str | None, typer.Option(metavar="SCRIPT", help="The variant to compare with; the first by default.")
    ] = None,
    per: Annotated[
        RateUnit, typer.Option(help="Compare steps, or examples (where the batch size can be seen).")
    ] = RateUnit.STEP,
    effect: Annotated[float, typer.Option(metavar="PERCENT", help="Smallest difference to report.")] = 3.0,
    alive: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many processes may live at once, where memory bounds it; two of each script otherwise."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the random block order.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the record (JSON lines), for 'outpace replay'.")
    ] = None,
    html: Html = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    show_secrets: ShowSecrets = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Time variants of a training script against each other, fairly, and say which differences are
    real.

    Each script runs in two processes or more, which are paused while others are timed. A script is
    raced by the step that its function outpace_race() returns, else by the steps of its first Keras
    fit (repeated without end), else by those of its loop. Exit code 0 whatever the verdicts, 5 if
    no variant ran a step, 130 after Ctrl-C.
    """
    from outpace.capture.remote.options import parse_seconds
    from outpace.cli.output import show_report
    from outpace.tune.race import race_scripts
    from outpace.tune.trial import Per as Rates

    result = race_scripts(
        variants,
        budget=parse_seconds(budget),
        baseline=baseline,
        effect=effect / 100,
        per=Rates(per.value),
        alive=alive,
        seed=seed,
        out=out,
        show_secrets=show_secrets,
    )
    show_report(result.report, single=True, html=html, json=json, width=width, color=color)
    if result.experiment.interrupted:
        raise typer.Exit(130)
