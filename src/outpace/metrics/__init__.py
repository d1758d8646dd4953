"""Derived tables that two or more tools use, one per file, computed once per run."""
