"""`outpace mcp`: what Outpace knows of some folders' runs, for programs that ask by the Model
Context Protocol.

`shapes` and `fit` say what an answer is, `folders` what may be opened; `rows` and `questions`
answer, and `server` is the protocol's side.
"""

from __future__ import annotations


def skill() -> str:
    """How to use the questions, as a skill file (agentskills.io): when to use it, and what to ask
    in which order.
    """
    from importlib.resources import files

    return (files(__name__) / "skill" / "outpace" / "SKILL.md").read_text(encoding="utf-8")
