# SPDX-License-Identifier: Apache-2.0
"""Timeline viewer: export of a profile as a trace file, and Perfetto's user interface served from
this machine.
"""

from outpace.viewer.selection import Arguments, Selection, parse_selection
from outpace.viewer.trace_writer import ExportSummary, write_trace

__all__ = ["Arguments", "ExportSummary", "Selection", "parse_selection", "write_trace"]
