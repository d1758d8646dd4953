"""What flows through Outpace: tables, pages, findings, intervals, units and errors. Imports nothing else of the package.

The names load on first use: a training process imports the errors, and must not see NumPy before its script has imported it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy

if TYPE_CHECKING:
    from outpace.model.categories import Category
    from outpace.model.errors import (
        CaptureError,
        NotFoundError,
        OutpaceError,
        OutputError,
        PartialCaptureError,
        ProfileError,
        TooLargeError,
        ToolError,
        UsageError,
    )
    from outpace.model.finding import CAPTURE, OUTSIDE, Certainty, Effort, Evidence, Finding, Saving, Severity, Threshold
    from outpace.model.interval import Interval, bootstrap_mean, bootstrap_saving, median, medians_without
    from outpace.model.page import (
        Chart,
        ChartKind,
        Failure,
        Figure,
        Figures,
        Link,
        Links,
        Page,
        Rows,
        Section,
        Text,
        Unavailable,
        filled,
    )
    from outpace.model.report import Command, Report
    from outpace.model.table import Field, Table, schema
    from outpace.model.units import Unit, humanize

__all__ = [
    "CAPTURE",
    "OUTSIDE",
    "CaptureError",
    "Category",
    "Certainty",
    "Chart",
    "ChartKind",
    "Command",
    "Effort",
    "Evidence",
    "Failure",
    "Field",
    "Figure",
    "Figures",
    "Finding",
    "Interval",
    "Link",
    "Links",
    "NotFoundError",
    "OutpaceError",
    "OutputError",
    "Page",
    "PartialCaptureError",
    "ProfileError",
    "Report",
    "Rows",
    "Saving",
    "Section",
    "Severity",
    "Table",
    "Text",
    "Threshold",
    "TooLargeError",
    "ToolError",
    "Unavailable",
    "Unit",
    "UsageError",
    "bootstrap_mean",
    "bootstrap_saving",
    "filled",
    "humanize",
    "median",
    "medians_without",
    "schema",
]
_HOMES = {
    "categories": "Category",
    "errors": "CaptureError NotFoundError OutpaceError OutputError PartialCaptureError ProfileError TooLargeError ToolError UsageError",
    "finding": "CAPTURE OUTSIDE Certainty Effort Evidence Finding Saving Severity Threshold",
    "interval": "Interval bootstrap_mean bootstrap_saving median medians_without",
    "page": "Chart ChartKind Failure Figure Figures Link Links Page Rows Section Text Unavailable filled",
    "report": "Command Report",
    "table": "Field Table schema",
    "units": "Unit humanize",
}
__getattr__ = lazy(__name__, _HOMES)
