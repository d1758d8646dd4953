# SPDX-License-Identifier: Apache-2.0
"""Quantities that are measured or derived from the trace of one run, and that other metrics use."""
