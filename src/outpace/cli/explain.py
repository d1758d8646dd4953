# SPDX-License-Identifier: Apache-2.0
"""`outpace explain`: lists the events behind a number of the step-time breakdown."""

from __future__ import annotations

from typing import Annotated

import typer

from outpace._lazy import compile_lazily
from outpace.cli.options import Color, Memory, Redact, Width, Window, build_open_options
from outpace.cli.process import configure_process

_NUMBER = compile_lazily(r"-?[0-9]+")


def explain(
    path: Annotated[str, typer.Argument(help="A profile file, a run folder, or a log directory; local or a URL.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[step NUMBER] [CATEGORY]",
            help="The step, as the overview numbers it (the slowest one by default), and a category such as kernel_launch (all by default).",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Host of the step; the first one that has it by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    window: Window = None,
    redact: Redact = False,
    memory: Memory = None,
    width: Width = None,
    color: Color = None,
) -> None:
    """List the events that make up a step, or one category of it: outpace explain logs step 7
    kernel_launch.
    """
    configure_process()
    from outpace import api
    from outpace.cli.output import print_report
    from outpace.cli.progress import show_reading

    step, category = _parse(what or [])
    with show_reading(path):
        profile = api.open(path, redact=redact, **build_open_options(window, memory))
        report = profile.report_of(profile.explain(step=step, category=category, host=host))
    print_report(
        report,
        single=True,
        json=json,
        width=width,
        color=color,
    )


def _parse(words: list[str]) -> tuple[int | None, str | None]:
    """Return (step, category) parsed from `step 7 kernel launch`; the word "step" is optional."""
    from outpace.model import UsageError

    words = [word for word in words if word.lower() != "step"]
    number = words.pop(0) if words and _NUMBER.fullmatch(words[0]) else None
    category = "_".join(words) or None
    if category is not None and any(_NUMBER.fullmatch(word) for word in words):
        raise UsageError("Name one step: outpace explain PATH step 7 kernel_launch.")
    return None if number is None else int(number), category
