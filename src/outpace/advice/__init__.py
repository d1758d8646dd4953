# SPDX-License-Identifier: Apache-2.0
"""Advice across all tools: which finding a reader should act on first, and which commands to run
next.
"""

from outpace.advice.headline import build_headline
from outpace.advice.next_commands import suggest_commands
from outpace.advice.ranking import Ranking, drop_unsupported_findings, rank_findings

__all__ = ["Ranking", "build_headline", "drop_unsupported_findings", "rank_findings", "suggest_commands"]
