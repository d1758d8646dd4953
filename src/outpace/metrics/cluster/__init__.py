# SPDX-License-Identifier: Apache-2.0
"""Comparison of a run's hosts: clocks, programs, workers, collectives."""
