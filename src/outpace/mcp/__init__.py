# SPDX-License-Identifier: Apache-2.0
"""`outpace mcp`: answers questions about the runs in some folders over the Model Context Protocol.

`answers` and `size_limit` define the answers and their maximum length, `folders` the files that may
be opened. `rows`, `conversion` and `dry_run` compute parts of answers, `questions` the answers, and
`server` implements the protocol.
"""

from __future__ import annotations


def skill() -> str:
    """Return a skill file (agentskills.io) for the questions: when to use them, and in which order
    to ask.
    """
    from importlib.resources import files

    return (files(__name__) / "skill" / "outpace" / "SKILL.md").read_text(encoding="utf-8")
