# SPDX-License-Identifier: Apache-2.0
"""Columns of the tables of Python's lines, as the metrics declare them."""

from outpace.metrics.facts.python_lines import PYTHON_LINES
from outpace.metrics.views.thread_lines import THREAD_LINES

__all__ = ["PYTHON_LINES", "THREAD_LINES"]
