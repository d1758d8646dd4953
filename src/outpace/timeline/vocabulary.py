"""Words by which `event_names` recognises events: an event name without such a word would be
classified differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outpace.timeline import event_names


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif hasattr(value, "pattern"):
        yield str(value.pattern)
    elif isinstance(value, dict):
        yield from _texts((*value, *value.values()))
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from _texts(each)


EVENT_NAME_WORDS = frozenset(
    word
    for name, value in vars(event_names).items()
    if not name.startswith("__")
    for text in _texts(value)
    for word in re.findall(r"[^\W_]+(?:_[^\W_]+)*", text)
)
"""All words in the constants of `event_names`."""
