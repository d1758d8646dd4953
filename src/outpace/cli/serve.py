# SPDX-License-Identifier: Apache-2.0
"""`outpace serve`: runs a training script with a profiler server inside, so that it can be
captured while it trains.
"""

from __future__ import annotations

from typing import Annotated

import typer

from outpace.cli.options import Module, Script, ScriptArgs


def serve(
    script: Script,
    args: ScriptArgs = None,
    module: Module = False,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 6009,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 opens the server to the network, without a password.")
    ] = "127.0.0.1",
) -> None:
    """Run a training script that `outpace capture` can profile at any time while it trains.

    The server starts when the script imports TensorFlow or JAX. Everything else, the exit code too,
    is the script's own.
    """
    from outpace.capture.interpreter import exec_command, python_command, require_script
    from outpace.capture.remote.served_script import MODULE, SCRIPT
    from outpace.capture.server import require_port

    require_script(script, module)
    require_port(port, host)
    exec_command(
        python_command(
            "outpace.capture.remote.served_script", host, str(port), MODULE if module else SCRIPT, script, *(args or [])
        )
    )
