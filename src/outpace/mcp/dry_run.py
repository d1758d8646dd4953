"""A dry run of `outpace tune`, by the command itself: it starts the script in a process that may write no file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from outpace.mcp.fit import cut
from outpace.mcp.shapes import Planned
from outpace.model.codec import decode
from outpace.model.errors import TuneError

_LONGEST = 600.0  # seconds


def planned(script: str, arguments: Sequence[str]) -> Planned:
    """What a tuning of the script would try. Raises TuneError where nothing can be tuned, or nothing is known after ten minutes."""
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
        raise TuneError(cut("; ".join(said) or f"The dry run ended with exit code {done.returncode}"))
    found = decode(dict[str, tuple[str, ...]], json.loads(done.stdout.splitlines()[-1]))  # what the script prints stands before
    told = {name: [cut(each) for each in texts] for name, texts in found.items()}
    return Planned(would_try=told["would_try"], not_tried=told["not_tried"], advice=told["advice"])
