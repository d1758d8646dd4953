# SPDX-License-Identifier: Apache-2.0
"""Words by which events are recognised: an event name without such a word would be classified
differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outpace.timeline import event_names, function_names, op_names, work_kinds


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif hasattr(value, "pattern"):
        yield str(value.pattern)
    elif isinstance(value, dict):
        yield from _texts((*value, *value.values()))
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from _texts(item)


EVENT_NAME_WORDS = frozenset(
    word
    for module in (event_names, function_names, op_names, work_kinds)
    for name, value in vars(module).items()
    if not name.startswith("__")
    for text in _texts(value)
    for word in re.findall(r"[^\W_]+(?:_[^\W_]+)*", text)
)
"""All words in the constants of the modules that know event names."""
