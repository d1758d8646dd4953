# SPDX-License-Identifier: Apache-2.0
"""Program of the script's process: `python -m outpace.capture.launch PLAN`. It notes the time
before it imports anything else: what follows is no part of the script's own start-up.
"""

from __future__ import annotations

import sys
import time


def main() -> int:
    """Run the plan at the path in `sys.argv`; entry point of the script's process."""
    launched_ns = time.time_ns()
    from outpace.capture.launcher import run_plan

    return run_plan(sys.argv[1], launched_ns)


if __name__ == "__main__":
    sys.exit(main())
