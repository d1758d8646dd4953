# SPDX-License-Identifier: Apache-2.0
"""How the processes of a tuning start: forked from one that has imported the frameworks, where that
makes no difference to the script.

A tuning starts its script some twenty times, and an import of TensorFlow takes seconds of a core.
The first process, which looks at the training, notes what the script imports and which variables it
sets before (`Imports`). `Forks` keeps processes that have imported that (`server`), one for each
environment; what they fork takes the modules where the script imports them, and is a process as any
other.
"""

from __future__ import annotations

from outpace.tune.starts.forks import Forks, Process
from outpace.tune.starts.imports import Imports

__all__ = ["Forks", "Imports", "Process"]
