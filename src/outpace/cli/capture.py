# SPDX-License-Identifier: Apache-2.0
"""`outpace capture`: captures running training processes, here or on other machines, and reports
where their steps' time goes.
"""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from outpace.capture.options import DEFAULT_LOGDIR
from outpace.cli.console import name_option, print_note
from outpace.cli.options import Color, DeviceLevel, HostLevel, Html, PythonLevel, Width

if TYPE_CHECKING:
    from outpace.capture.remote.addresses import Addresses
    from outpace.capture.remote.result import RemoteResult


class Cluster(str, Enum):
    """Sources of worker addresses other than the command line."""

    TF_CONFIG = "tf_config"


def capture(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ADDR[,ADDR...]",
            help="HOST:PORT of each worker's profiler server, @FILE with one address per line, or ray://auto for a Ray cluster's workers.",
        ),
    ] = None,
    cluster: Annotated[
        Cluster | None, typer.Option(help="Take the workers from the environment variable TF_CONFIG, each with --port.")
    ] = None,
    run: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Of several runs of a Ray cluster: what outpace.ray.worker(NAME) was given, or Ray's job ID."
        ),
    ] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of addresses that name none.")] = 6009,
    logdir: Annotated[
        str, typer.Option(help="TensorBoard log directory to write the profiles to; local or a URL.")
    ] = DEFAULT_LOGDIR,
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long to capture: 2s, 500ms, 1m.")] = "2s",
    delay: Annotated[str, typer.Option(metavar="TIME", help="How long to wait before.")] = "0s",
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long a worker may take, beyond the duration, to send its profile.")
    ] = "60s",
    retries: Annotated[
        int, typer.Option(min=0, help="How often to ask again a worker that is busy, out of reach, or recorded no event.")
    ] = 3,
    host_level: HostLevel = 2,
    python_level: PythonLevel = 0,
    device_level: DeviceLevel = 1,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Explain the profiles, or only save them.")] = True,
    html: Html = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Capture running training processes and explain where their steps' time goes.

    Each process needs a profiler server: 'outpace serve SCRIPT', or outpace.serve(),
    tf.profiler.experimental.server.start(port), jax.profiler.start_server(port) in the script,
    outpace.ray.worker() on Ray. All workers are captured at once, into one run of the log
    directory.
    """
    from outpace.capture.remote.fleet import capture_addresses
    from outpace.capture.remote.options import RemoteOptions, parse_seconds
    from outpace.cli.capture_progress import show_capture_progress
    from outpace.model import UsageError

    if html and not report:
        raise UsageError("--html and --no-report contradict each other. Leave one of them out.")
    times = parse_seconds(duration), parse_seconds(delay), parse_seconds(timeout)
    options = RemoteOptions(times[0], host_level, python_level, device_level, retries, times[1], times[2])
    with show_capture_progress(options.duration) as watch:
        result = capture_addresses(_workers(addresses or [], cluster, port, run), logdir, options, watch)
    _show(result, report, html, json, width, color)


def _show(result: RemoteResult, report: bool, html: Path | None, json: bool, width: int | None, color: bool | None) -> None:
    """Print the result of the capture. Raises the error for what is missing."""
    if result.run is not None or len(result.hosts) > 1:
        _print_outcomes(result, sys.stderr if json else sys.stdout, width, color)
    if json:
        _print_json(result, report, html)
    elif result.run is not None and report:
        from outpace.cli.output import show_capture

        show_capture(result.run, html=html, width=width, color=color)
    error = result.error(reasons=result.run is None and len(result.hosts) == 1)
    if error is not None:
        raise error


def _workers(names: list[str], cluster: Cluster | None, port: int, run: str) -> Addresses:
    """Return the addresses to capture. Raises UsageError where the options contradict each
    other.
    """
    from outpace.capture.remote.addresses import read_addresses, read_cluster_addresses
    from outpace.model import UsageError

    if cluster and (names or run):
        raise UsageError("Addresses and --cluster contradict each other, as --run and --cluster do. Give one of them.")
    workers = read_cluster_addresses(port=port) if cluster else read_addresses(names, port, run)
    for address in workers.duplicates:
        print_note(f"outpace: {address} was given more than once; it is captured once")
    return workers


def _print_outcomes(result: RemoteResult, file: TextIO, width: int | None, color: bool | None) -> None:
    """Print every worker in one row, and the path of the run."""
    from rich.table import Table
    from rich.text import Text

    from outpace.model.units import Unit, humanize
    from outpace.report.console import PlainConsole

    console = PlainConsole(file=file, width=width, force_terminal=color)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("Worker", no_wrap=True)
    table.add_column("Profile")
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Took", justify="right", no_wrap=True)
    for host in result.hosts:
        size = humanize(host.bytes, Unit.BYTES) if host.saved else ""
        took = f"{host.seconds:.1f} s" if host.seconds else ""
        status = Text(": ".join(filter(None, (host.state, host.remark))), style="" if host.saved else "red")
        table.add_row(Text(host.address), status, size, took)
    console.print(table)
    if result.run is not None:
        console.print(Text(f"The run is {result.run}"), soft_wrap=True)
    console.print()


def _print_json(result: RemoteResult, report: bool, html: Path | None) -> None:
    """Print one JSON object: the run, every worker's outcome, and the report (null without one)."""
    import dataclasses
    import json

    data: dict[str, Any] = {
        "run": result.run,
        "hosts": [{**dataclasses.asdict(host), "saved": host.saved} for host in result.hosts],
        "report": None,
    }
    if report and result.run is not None:
        from outpace import api
        from outpace.report import html as html_
        from outpace.report import json_

        profile_report = api.open(result.run).report()
        data["report"] = json_.encode_report(profile_report)
        if html is not None:
            with name_option("--html"):
                print_note(f"The HTML report is {html_.write(profile_report, html)}")
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
