# SPDX-License-Identifier: Apache-2.0
"""Program of `outpace serve`: `python -m outpace.capture.remote.served_script HOST PORT KIND SCRIPT
ARGS` runs the script with a server inside.

The command replaces itself by this process, so that terminal, signals and exit code are the
script's own. Nothing but the standard library is imported before the script imports a framework.
"""

from __future__ import annotations

import sys
from types import ModuleType

from outpace.capture.imports import Hook, ImportHooks
from outpace.capture.messages import print_message
from outpace.capture.script import hide_own_frames, run_as_main

SCRIPT, MODULE = "script", "module"


class ServerStarter:
    """Starts one server, when the first framework has been imported."""

    def __init__(self, host: str, port: int) -> None:
        self._port_and_host = (port, host)
        self._is_started = False

    def start(self, framework: ModuleType) -> None:
        """Hook of a framework's import: start the server, once."""
        if self._is_started:
            return
        self._is_started = True
        from outpace.capture.server import serve

        address = serve(*self._port_and_host).address
        print_message(f"profiler server at {address}; capture with: outpace capture {address}")


def main() -> None:
    """Run the script to its end; its exceptions pass through."""
    host, port, kind, script, *argv = sys.argv[1:]
    starter = ServerStarter(host, int(port))
    hooks: dict[str, Hook] = {"tensorflow": starter.start, "jax": starter.start}
    ImportHooks(
        hooks, lambda name, error: print_message(f"there is no profiler server, the script runs without: {error}")
    ).install()
    try:
        run_as_main(script, argv, kind == MODULE)
    finally:
        hide_own_frames()


if __name__ == "__main__":
    main()
