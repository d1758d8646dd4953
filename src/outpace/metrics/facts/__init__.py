"""Measured quantities, each derived from the trace of one run: other metrics compute with them."""
