# SPDX-License-Identifier: Apache-2.0
"""Finds what makes a program faster: limits first, then races of edited texts, the bottleneck's
first.
"""
