"""Comparison of a run's hosts: clocks, programs, workers, collectives."""
