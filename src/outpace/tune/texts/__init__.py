# SPDX-License-Identifier: Apache-2.0
"""Texts of a script that stand in for its files: how Python comes to read them, and where marks are
put into what it compiles.
"""
