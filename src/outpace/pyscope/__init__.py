# SPDX-License-Identifier: Apache-2.0
"""Vocabulary of Python source: which nodes are scopes, which names statements read and assign, and
what changes objects.
"""
