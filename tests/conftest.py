"""What holds for all tests: no test has a clock of its own, Ctrl-C reaches the programs that they
start, and in `make fast` importing a framework fails.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from hypothesis import settings

from tests.support import FAST

settings.register_profile("outpace", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("outpace")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell leaves it to what it runs in the background, and that to its children
    signal.signal(signal.SIGINT, signal.default_int_handler)

FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "jax", "jaxlib", "torch")


class Refusing(MetaPathFinder):
    """Finds frameworks, and refuses them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in FRAMEWORKS:
            raise ImportError(f"{name} must not be imported by a fast test")
        return None


if FAST:
    sys.meta_path.insert(0, Refusing())
