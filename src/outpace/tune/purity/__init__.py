"""Whether a Python function is a function of its arguments, by its code: what it, and the functions that it calls, read and change."""
