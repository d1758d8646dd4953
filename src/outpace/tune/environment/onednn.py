"""oneDNN's kernels off."""

from __future__ import annotations

from outpace.tune.data.verify import Risk
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import Applies, NotHere

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"


class OneDnn:
    """TensorFlow's own kernels where it has chosen those of oneDNN."""

    id = "onednn"
    title = "oneDNN off"
    practice = (
        "Let TensorFlow use oneDNN on CPUs (the default on x86); try it off, for small operations may run faster without."
    )
    order = 30

    def applies(self, host: Host) -> Applies | NotHere:
        """Where oneDNN is on and the operations run on the CPU."""
        taken = host.taken(VARIABLE)
        if taken is not None:
            return taken
        if not host.observed.onednn:
            return NotHere(
                "TensorFlow runs without oneDNN"
                if host.observed.onednn is False
                else "TensorFlow does not say whether oneDNN is on"
            )
        if host.observed.gpus:
            return NotHere("its kernels are for the CPU, and this model trains on a GPU")
        return Applies("TensorFlow runs with oneDNN, which is not always faster", Risk.REORDERED)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """Off."""
        return (Setting(self.title, {VARIABLE: "0"}),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """What TensorFlow's core says."""
        return "TensorFlow's core says that oneDNN is off" if seen.onednn is False and host.observed.onednn else None


KNOB = OneDnn()
