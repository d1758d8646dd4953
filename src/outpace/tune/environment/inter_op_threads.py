"""Threads that run operations side by side."""

from outpace.tune.environment.threads import PoolThreads

KNOB = PoolThreads(
    "inter",
    "TF_NUM_INTEROP_THREADS",
    "Inter-op threads",
    "Set the number of inter-op threads: operations that depend on each other gain nothing from running side by side.",
    20,
)
