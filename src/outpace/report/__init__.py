"""Renderers of `Page` and `Report`: terminal, HTML, JSON, CSV. They know section types, never
tools, and decide nothing.

Each renderer is imported by name (`from outpace.report import html`), so that none pays for
another's libraries.
"""
