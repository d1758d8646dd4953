# SPDX-License-Identifier: Apache-2.0
"""XLA programs: a graph of instructions (`graph`), the reader that makes it (`reader`), and
questions about it, one file per subject.
"""
