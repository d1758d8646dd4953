"""A module of settings, one of which a function changes."""

SIDE = 4
EPOCH = 0


def advance() -> None:
    global EPOCH
    EPOCH += 1
