"""What flows through Outpace: tables, pages, findings, intervals, units and errors. Imports nothing else of the package."""

from outpace.model.categories import Category
from outpace.model.errors import CaptureError, NotFoundError, OutpaceError, OutputError, ProfileError, UsageError
from outpace.model.finding import Evidence, Finding, Severity, Threshold
from outpace.model.interval import Interval, bootstrap_mean, bootstrap_saving, median
from outpace.model.page import Chart, ChartKind, Figure, Figures, Link, Links, Page, Rows, Section, Text, Unavailable
from outpace.model.report import Report
from outpace.model.table import Field, Table
from outpace.model.units import Unit, humanize

__all__ = [
    "CaptureError",
    "Category",
    "Chart",
    "ChartKind",
    "Evidence",
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
    "ProfileError",
    "Report",
    "Rows",
    "Section",
    "Severity",
    "Table",
    "Text",
    "Threshold",
    "Unavailable",
    "Unit",
    "UsageError",
    "bootstrap_mean",
    "bootstrap_saving",
    "humanize",
    "median",
]
