"""`outpace mcp`: what Outpace knows of some folders' runs, for programs that ask by the Model
Context Protocol.

`shapes` and `fit` say what an answer is, `folders` what may be opened; `rows` and `questions`
answer, and `server` is the protocol's side.
"""

from __future__ import annotations


def skill() -> str:
    """Return a skill file (agentskills.io) for the questions: when to use them, and in which order
    to ask.
    """
    from importlib.resources import files

    return (files(__name__) / "skill" / "outpace" / "SKILL.md").read_text(encoding="utf-8")
