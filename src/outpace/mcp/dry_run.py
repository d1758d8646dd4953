# SPDX-License-Identifier: Apache-2.0
"""Runs `outpace tune --dry-run` as a command, which starts the script in a process that may write
no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from outpace.mcp.answers import DryRunAnswer
from outpace.mcp.size_limit import shorten_text
from outpace.model.codec import decode
from outpace.model.errors import TuneError

_LONGEST = 600.0  # maximum duration of a dry run, seconds


def run_dry_run(script: str, arguments: Sequence[str]) -> DryRunAnswer:
    """Return what a tuning of the script would try. Raises TuneError where nothing can be tuned,
    or where the dry run takes longer than ten minutes.
    """
    command = [sys.executable, "-m", "outpace", "tune", "--dry-run", "--json", script, *arguments]
    try:
        process = subprocess.run(
            command,
            cwd=os.path.dirname(script),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TuneError(f"The script did not come to its training in {_LONGEST / 60:.0f} minutes.") from None
    if process.returncode:
        messages = [line.removeprefix("outpace: ") for line in process.stderr.splitlines() if line.startswith("outpace: ")]
        raise TuneError(shorten_text("; ".join(messages) or f"The dry run ended with exit code {process.returncode}"))
    # the last line, because the script's own output comes before it
    groups = decode(dict[str, tuple[str, ...]], json.loads(process.stdout.splitlines()[-1]))
    shortened = {name: [shorten_text(text) for text in texts] for name, texts in groups.items()}
    return DryRunAnswer(would_try=shortened["would_try"], not_tried=shortened["not_tried"], advice=shortened["advice"])
