"""Vocabulary of Python source: which nodes are scopes, which names statements read and assign, and
what changes objects.
"""
