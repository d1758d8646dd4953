# SPDX-License-Identifier: Apache-2.0
"""`outpace hlo`: the text of compiled programs, and what is around one of their instructions."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.cli.options import Redact, Window, build_open_options
from outpace.cli.process import configure_process

if TYPE_CHECKING:
    from outpace.timeline.hlo.graph import Instruction
    from outpace.timeline.hlo.module import HloModule

_MOST_RADIUS = 10


def hlo(
    path: Annotated[str, typer.Argument(help="A profile file, a run folder, or a log directory; local or a URL.")],
    program: Annotated[
        str | None, typer.Option(metavar="NAME", help="The program, as the list has it, with its number or without.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the whole program, in the form of XLA's own text.")] = False,
    around: Annotated[
        str | None, typer.Option(metavar="OP", help="Print what this instruction takes, and what takes its result.")
    ] = None,
    radius: Annotated[int, typer.Option(min=1, max=_MOST_RADIUS, help="How far from that instruction, in instructions.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    redact: Redact = False,
    window: Window = None,
) -> None:
    """List the compiled programs of a profile, or print one, or what is around an instruction.

    Example: outpace hlo logs --around fusion.12 --radius 1
    """
    configure_process()
    from outpace import api
    from outpace.cli.progress import show_reading
    from outpace.timeline.hlo.choice import choose_program

    with show_reading(path):
        programs = api.open(path, redact=redact, **build_open_options(window, None)).programs()
    if not (text or around or program):
        _list(programs, json=json)
        return
    name = choose_program(programs, program, around)
    if around:
        _print_neighbours(name, programs[name], around, radius, json=json)
    elif json:
        typer.echo(jsonlib.dumps({"program": name, "text": list(programs[name].iter_text())}, indent=1))
    else:
        typer.echo("\n".join(programs[name].iter_text()))


def _list(programs: dict[str, HloModule], *, json: bool) -> None:
    """Print the programs, the one with most instructions first."""
    from outpace.model import Unit, humanize

    rows: list[dict[str, Any]] = []
    for name, module in programs.items():
        plan, cost = module.memory_plan, module.cost
        flops = cost.flops if cost.is_complete else None
        peak = plan.peak_bytes if plan is not None else None
        rows.append({"program": name, "instructions": len(module.graph.instructions), "flops": flops, "peak_bytes": peak})
    rows.sort(key=lambda row: -row["instructions"])
    if json:
        typer.echo(jsonlib.dumps(rows, indent=1))
        return
    width = max(map(len, programs))
    typer.echo(f"{'program':<{width}}  instructions     FLOPs  memory at its peak")
    for row in rows:
        known = [
            "unknown" if row[key] is None else humanize(row[key], unit)
            for key, unit in (("flops", Unit.RATIO), ("peak_bytes", Unit.BYTES))
        ]
        typer.echo(f"{row['program']:<{width}}  {row['instructions']:>12,}  {known[0]:>8}  {known[1]:>18}")


def _print_neighbours(name: str, module: HloModule, op: str, radius: int, *, json: bool) -> None:
    """Print what is around an instruction, in the order of the data."""
    near = module.find_neighbours(op, radius)
    if json:
        nodes = [{"distance": far, **_node(module, each)} for each, far in near.nodes]
        typer.echo(jsonlib.dumps({"program": name, "op": op, "is_whole": near.is_whole, "nodes": nodes}, indent=1))
        return
    typer.echo(f"{name}: {op} and what is within {radius} of it\n")
    for each, far in near.nodes:
        node = _node(module, each)
        place = "      ->" if not far else f"{abs(far):>2} {'above' if far < 0 else 'below'}"
        typer.echo(f"{place}  {node['text']}" + (f"   [{node['source']}]" if node["source"] else ""))
        for part in each.callees if not far and each.opcode == "fusion" else ():
            typer.echo(f"            inside  {_node(module, part)['text']}")
    if not near.is_whole:
        typer.echo(f"\nThe nearest {len(near.nodes)} of them. A smaller --radius has less.")


def _node(module: HloModule, instruction: Instruction) -> dict[str, Any]:
    """Return an instruction as a program reads it."""
    from outpace.metrics.source_line import shorten_source_path

    found = module.describe(instruction.name)
    text = found.text.partition(", metadata=")[0] if found is not None else f"%{instruction.name}"
    return {
        "op": instruction.name,
        "opcode": instruction.opcode,
        "text": text,
        "operands": found.operands if found is not None else [],
        "source": shorten_source_path(module[instruction.name].source),
    }
