# SPDX-License-Identifier: Apache-2.0
"""Renderers of `Page` and `Report`: terminal, HTML, JSON, CSV. They depend on section types and
never on tools, and contain no analysis.

Import each renderer by name (`from outpace.report import html`), so that one does not import the
libraries of another.
"""
