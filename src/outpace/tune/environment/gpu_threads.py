"""Threads of their own for launching a GPU's kernels."""

from __future__ import annotations

from outpace.model.units import counted
from outpace.tune.data.verify import Risk
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import Applies, NotHere

MODE, COUNT = "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT"


class GpuThreads:
    """A private pool per GPU, so that launching does not wait for the threads of the input pipeline."""

    id = "gpu_threads"
    title = "Private GPU threads"
    practice = (
        "Give each GPU threads of its own (TF_GPU_THREAD_MODE=gpu_private), so that launches do not wait for the input's work."
    )
    order = 40

    def applies(self, host: Host) -> Applies | NotHere:
        """Where there is a GPU."""
        if not host.observed.gpus:
            return NotHere("the script uses no GPU")
        return host.taken(MODE, COUNT) or Applies(
            "kernels are launched from threads that the input pipeline uses too", Risk.EXACT
        )

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One and two threads per GPU."""
        return tuple(Setting(f"{self.title}: {count}", {MODE: "gpu_private", COUNT: str(count)}) for count in (1, 2))

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The threads that TensorFlow started besides those of the script as it is."""
        now, before = seen.pool_threads, host.observed.pool_threads
        wanted = int(setting.variables[COUNT]) * host.observed.gpus
        if now is None or before is None or now - before != wanted:
            return None
        return f"TensorFlow started {counted(wanted, 'more thread')}, {now} instead of {before}"


KNOB = GpuThreads()
