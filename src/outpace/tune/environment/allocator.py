"""Another memory allocator, loaded before the program."""

from __future__ import annotations

import os

from outpace.tune.data.verify import Risk
from outpace.tune.environment.observed import Host, Observed
from outpace.tune.environment.setting import Setting
from outpace.tune.knobs.knob import Applies, NotHere

VARIABLE = "LD_PRELOAD"


class Allocator:
    """tcmalloc or jemalloc in place of the C library's, where one is installed."""

    id = "allocator"
    title = "Memory allocator"
    practice = "Preload tcmalloc or jemalloc, which programs with many threads and short-lived buffers may run faster with."
    order = 60

    def applies(self, host: Host) -> Applies | NotHere:
        """Where a library is found, and none is loaded."""
        if host.observed.allocators:
            return NotHere(f"the script's process runs with {', '.join(host.observed.allocators)} already")
        if not host.allocators:
            return NotHere("neither tcmalloc nor jemalloc is installed here (Debian: libtcmalloc-minimal4, libjemalloc2)")
        return host.taken(VARIABLE) or Applies("TensorFlow on the host allocates with the C library's malloc", Risk.EXACT)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One per library."""
        return tuple(Setting(f"{self.title}: {_stem(library)}", {VARIABLE: library}) for library in host.allocators)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The libraries that the process has loaded."""
        wanted = _stem(setting.variables[VARIABLE])
        loaded = next((name for name in seen.allocators if _stem(name) == wanted), None)
        return f"{loaded} is loaded" if loaded else None


def _stem(library: str) -> str:
    """A library's name without folder and version: what is loaded carries a longer version than what was asked for."""
    return os.path.basename(library).split(".so")[0]


KNOB = Allocator()
