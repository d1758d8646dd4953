"""Threads that share the work of one operation."""

from __future__ import annotations

from outpace.tune.environment.observed import Host
from outpace.tune.environment.threads import PoolThreads


class IntraOpThreads(PoolThreads):
    """Fewer threads per operation: small operations lose more by sharing their work than they gain, and the input needs cores too."""

    def __init__(self) -> None:
        practice = "Set the number of intra-op threads: an operation that is split too finely waits for its own threads."
        super().__init__("intra", "TF_NUM_INTRAOP_THREADS", "Intra-op threads", practice, 10)

    def sizes(self, host: Host) -> tuple[int, ...]:
        """One, half of the cores, and all of them where a container's quota gives fewer than TensorFlow sees."""
        wanted = {1, host.cores // 2, host.cores} - {0, host.visible}
        return tuple(sorted(wanted))

    def _why(self, host: Host) -> str:
        if host.cores < host.visible:
            return f"TensorFlow uses {host.visible} threads per operation, but this container may use {host.cores} cores"
        return f"TensorFlow splits each operation over {host.visible} threads, of which small operations gain nothing"


KNOB = IntraOpThreads()
