# SPDX-License-Identifier: Apache-2.0
"""Lint rules, one file per group. Each file has the rules' texts in `RULES` and yields their
messages from `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outpace.lint.context import LintContext, Message, Rule
from outpace.lint.rules import jax, keras, loops, order, parallel, tracing

_GROUPS = (parallel, order, loops, keras, tracing, jax)
CHECKS: tuple[Callable[[LintContext], Iterator[Message]], ...] = tuple(group.check for group in _GROUPS)
RULES: dict[str, Rule] = {
    rule.id: rule for rule in sorted((item for group in _GROUPS for item in group.RULES), key=lambda rule: rule.id)
}
