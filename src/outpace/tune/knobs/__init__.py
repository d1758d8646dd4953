"""Optimisations of a loop of the user's own, beside those in `optimisations`; a module makes one and calls it `KNOB`."""
