"""Flags of XLA, where the script's step is compiled by it."""

from __future__ import annotations

from collections.abc import Mapping

from outpace.tune.data.verify import Risk
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import Applies, NotHere

VARIABLE = "XLA_FLAGS"
_WIDE = ("512-bit vectors in XLA", "xla_cpu_prefer_vector_width", "512")
_HIDING = ("XLA's latency-hiding scheduler", "xla_gpu_enable_latency_hiding_scheduler", "true")


class XlaFlags:
    """Few flags on purpose: most of XLA's are defaults already, for debugging, or change the mathematics."""

    id = "xla_flags"
    title = "XLA flags"
    practice = "Set XLA's flags for the hardware: wide vectors on processors with AVX-512, communication hidden behind computation on GPUs."
    order = 50

    def applies(self, host: Host) -> Applies | NotHere:
        """Where XLA compiles the step, and the hardware has what a flag is for."""
        taken = host.taken(VARIABLE)
        if taken is not None:
            return taken
        if not host.observed.xla:
            return NotHere("the script's step is not compiled by XLA")
        if host.observed.gpus > 1:
            return Applies(f"the step runs on {host.observed.gpus} GPUs, which wait for each other's results", Risk.REORDERED)
        if host.observed.gpus:
            return NotHere("with one GPU, XLA's defaults are the best known choice")
        if host.wide_vectors:
            return Applies("XLA uses vectors of 256 bits by default, and this processor has vectors of 512", Risk.REORDERED)
        return NotHere("this processor has no vectors of 512 bits, and XLA's other defaults are kept")

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """The one flag for this hardware."""
        title, flag, value = _HIDING if host.observed.gpus > 1 else _WIDE
        text = f"--{flag}={value}"

        def noting(folder: str) -> Mapping[str, str]:
            return {VARIABLE: f"{text} --xla_dump_to={folder}"}

        return (Setting(title, {VARIABLE: text}, noting),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The options that XLA noted down beside what it compiled."""
        flag, value = setting.variables[VARIABLE].removeprefix("--").split("=")
        found = f"{flag}: {value}"
        return f"XLA compiled with {found}" if found in seen.xla_options else None


KNOB = XlaFlags()
