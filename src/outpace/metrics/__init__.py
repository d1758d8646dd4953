# SPDX-License-Identifier: Apache-2.0
"""Facts that are derived from a profile and used by two or more tools: one per file, computed once
per run.
"""
