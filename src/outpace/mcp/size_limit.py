"""An answer as text of bounded length: what does not fit is left out from the end of its lists, and
the answer says how to ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from outpace.mcp.answers import Answer
from outpace.model.text import clean, shorten

Shape = TypeVar("Shape", bound=Answer)

MAX_TOKENS = 2000  # at most, of one answer
BYTES_PER_TOKEN = 3  # of JSON per token: names and numbers make more tokens than prose, of which one has four; letters of other scripts have two or more
_LONGEST = 600  # characters of a text


def render_json(answer: Answer) -> str:
    """The answer as JSON on one line."""
    return json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":"))


def count_tokens(text: str) -> int:
    """How many tokens a text counts for."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def shorten_text(value: object) -> str:
    """A text that is no longer than any needs to be, on one line."""
    return shorten(clean(value, _LONGEST), _LONGEST)


def truncate_answer(answer: Shape, lists: Sequence[list[Any]], describe_rest: Callable[[], str]) -> Shape:
    """The answer, the longest of whose lists are cut until it fits; `describe_rest` then says how
    to ask for the rest.
    """
    while count_tokens(render_json(answer)) > MAX_TOKENS and any(lists):
        max(lists, key=lambda each: len(json.dumps(each, default=asdict))).pop()
        answer.more = describe_rest()
    return answer
