# SPDX-License-Identifier: Apache-2.0
"""Data types that all of Outpace uses: tables, pages, findings, intervals, units and errors. The
package imports nothing else of Outpace's analysis.

The names load on first use: a training process imports the errors, and must not load NumPy before
its script imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy_getattr

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
    from outpace.model.finding import (
        CAPTURE_PREFIX,
        OUTSIDE_STEPS,
        Certainty,
        Effort,
        Evidence,
        Finding,
        FindingKey,
        Saving,
        Severity,
        Threshold,
    )
    from outpace.model.interval import Interval, bootstrap_mean, bootstrap_saving, leave_one_out_medians, median
    from outpace.model.page import (
        AreaColumns,
        Chart,
        ChartKind,
        Figure,
        Figures,
        GraphColumns,
        IcicleColumns,
        Link,
        Links,
        Page,
        Paragraph,
        ScatterColumns,
        Section,
        TableView,
        ToolFailure,
        Unavailable,
        select_nonempty,
    )
    from outpace.model.report import Command, Report
    from outpace.model.table import Field, Row, Table, TableType, parse_schema
    from outpace.model.units import Unit, humanize

__all__ = [
    "CAPTURE_PREFIX",
    "OUTSIDE_STEPS",
    "AreaColumns",
    "CaptureError",
    "Category",
    "Certainty",
    "Chart",
    "ChartKind",
    "Command",
    "Effort",
    "Evidence",
    "Field",
    "Figure",
    "Figures",
    "Finding",
    "FindingKey",
    "GraphColumns",
    "IcicleColumns",
    "Interval",
    "Link",
    "Links",
    "NotFoundError",
    "OutpaceError",
    "OutputError",
    "Page",
    "Paragraph",
    "PartialCaptureError",
    "ProfileError",
    "Report",
    "Row",
    "Saving",
    "ScatterColumns",
    "Section",
    "Severity",
    "Table",
    "TableType",
    "TableView",
    "Threshold",
    "TooLargeError",
    "ToolError",
    "ToolFailure",
    "Unavailable",
    "Unit",
    "UsageError",
    "bootstrap_mean",
    "bootstrap_saving",
    "humanize",
    "leave_one_out_medians",
    "median",
    "parse_schema",
    "select_nonempty",
]
_HOMES = {
    "categories": "Category",
    "errors": "CaptureError NotFoundError OutpaceError OutputError PartialCaptureError ProfileError TooLargeError ToolError UsageError",
    "finding": "CAPTURE_PREFIX OUTSIDE_STEPS Certainty Effort Evidence Finding FindingKey Saving Severity Threshold",
    "interval": "Interval bootstrap_mean bootstrap_saving leave_one_out_medians median",
    "page": (
        "AreaColumns Chart ChartKind Figure Figures GraphColumns IcicleColumns Link Links Page Paragraph ScatterColumns Section TableView "
        "ToolFailure Unavailable select_nonempty"
    ),
    "report": "Command Report",
    "table": "Field Row Table TableType parse_schema",
    "units": "Unit humanize",
}
_FORMER = {
    "CAPTURE": "CAPTURE_PREFIX",
    "Failure": "ToolFailure",
    "OUTSIDE": "OUTSIDE_STEPS",
    "Rows": "TableView",
    "Text": "Paragraph",
    "filled": "select_nonempty",
    "medians_without": "leave_one_out_medians",
    "schema": "parse_schema",
}
"""Names of version 0.2, which tools of other distributions import, mapped to today's names."""
__getattr__ = lazy_getattr(__name__, _HOMES, _FORMER)
