"""What the knobs of TensorFlow's thread pools have in common: values to try, and the count of threads as evidence."""

from __future__ import annotations

from outpace.tune.data.verify import Risk
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import Applies, NotHere


class PoolThreads:
    """The size of one of TensorFlow's pools on the host. TensorFlow's default is the number of cores that it sees."""

    def __init__(self, pool: str, variable: str, title: str, practice: str, order: int) -> None:
        self.id = f"{pool}_op_threads"
        self.title, self.practice, self.order = title, practice, order
        self._pool, self._variable = pool, variable

    def sizes(self, host: Host) -> tuple[int, ...]:
        """Sizes to try, the smallest first."""
        return (1,) if host.visible > 1 else ()

    def applies(self, host: Host) -> Applies | NotHere:
        """Where TensorFlow chose the size itself."""
        taken = host.taken(self._variable)
        if taken is not None:
            return taken
        own = host.observed.configured.get(self._pool, 0)
        if own:
            return NotHere(
                f"the script sets {own} {self._pool}-op threads itself (tf.config.threading), which is left as it is"
            )
        if host.observed.pool_threads is None:
            return NotHere("the script's process did not show TensorFlow starting its threads")
        if not self.sizes(host):
            return NotHere("there is one core")
        return Applies(self._why(host), Risk.REORDERED)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One per size."""
        return tuple(Setting(f"{self.title}: {size}", {self._variable: str(size)}) for size in self.sizes(host))

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The threads that TensorFlow started, against those of the script as it is."""
        now, before = seen.pool_threads, host.observed.pool_threads
        if now is None or before is None or now - before != int(setting.variables[self._variable]) - host.visible:
            return None
        return f"TensorFlow started {now} threads for its pools instead of {before}"

    def _why(self, host: Host) -> str:
        return f"TensorFlow uses as many {self._pool}-op threads as it sees cores, {host.visible}"
