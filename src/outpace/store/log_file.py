# SPDX-License-Identifier: Apache-2.0
"""Reads text files that are no profiles: what a program printed."""

from __future__ import annotations

import os

from outpace.model.input_files import LOG, open_file

_BINARY = (".pb", ".gz", ".json")  # suffixes of profiles and stored reports
_HEAD = 4096


def read_log(path: str) -> str:
    """Return the text of a local file; "" for a folder, and for a file that is no text, or too
    large for a log.
    """
    if path.endswith(_BINARY) or not os.path.isfile(path):
        return ""
    try:
        with open_file(path, LOG) as file:
            head = file.read(_HEAD)
            return "" if b"\0" in head else (head + file.read()).decode("utf-8", errors="replace")
    except OSError:
        return ""
