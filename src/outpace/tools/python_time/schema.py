"""Columns of the tables of Python's lines, as the metrics declare them."""

from outpace.metrics.python.threads import FIELDS as THREAD_LINES
from outpace.metrics.python.time import FIELDS as PYTHON_LINES

__all__ = ["PYTHON_LINES", "THREAD_LINES"]
