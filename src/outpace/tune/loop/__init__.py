"""Training loops that the user wrote, as programs that can be tuned: the loop itself is
the clock.
"""
