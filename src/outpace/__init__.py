"""Outpace."""
