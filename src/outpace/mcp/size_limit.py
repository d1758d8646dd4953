# SPDX-License-Identifier: Apache-2.0
"""Renders an answer as JSON of limited length: what does not fit is cut from the end of its lists,
and the answer describes how to ask for the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from outpace.mcp.answers import Answer
from outpace.model.text import clean, shorten

Shape = TypeVar("Shape", bound=Answer)

MAX_TOKENS = 2000  # maximum length of one answer, tokens
# Bytes of JSON per token: names and numbers make more tokens than prose, in which a token has four
# bytes; letters of other scripts have two bytes or more.
BYTES_PER_TOKEN = 3
_LONGEST = 600  # maximum length of a text, characters


def render_json(answer: Answer) -> str:
    """Return the answer as JSON on one line."""
    return json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":"))


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def shorten_text(value: object) -> str:
    """Return the text on one line, cut to the maximum length."""
    return shorten(clean(value, _LONGEST), _LONGEST)


def truncate_answer(answer: Shape, lists: Sequence[list[Any]], describe_rest: Callable[[], str]) -> Shape:
    """Return the answer with its longest lists cut until it fits; `describe_rest` then describes
    how to ask for the rest.
    """
    while count_tokens(render_json(answer)) > MAX_TOKENS and any(lists):
        max(lists, key=lambda items: len(json.dumps(items, default=asdict))).pop()
        answer.more = describe_rest()
    return answer
