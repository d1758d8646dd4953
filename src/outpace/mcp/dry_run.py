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
        done = subprocess.run(
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
    if done.returncode:
        said = [line.removeprefix("outpace: ") for line in done.stderr.splitlines() if line.startswith("outpace: ")]
        raise TuneError(shorten_text("; ".join(said) or f"The dry run ended with exit code {done.returncode}"))
    # the last line, because the script's own output comes before it
    found = decode(dict[str, tuple[str, ...]], json.loads(done.stdout.splitlines()[-1]))
    told = {name: [shorten_text(each) for each in texts] for name, texts in found.items()}
    return DryRunAnswer(would_try=told["would_try"], not_tried=told["not_tried"], advice=told["advice"])
