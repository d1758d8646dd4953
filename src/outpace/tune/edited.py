# SPDX-License-Identifier: Apache-2.0
"""The script's own training with edited texts: `python -m outpace.tune.edited PLAN` runs it as
`python SCRIPT` would. Nothing is guarded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence

from outpace.capture.interpreter import python_command
from outpace.capture.process_tree import register_folder
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import substitute

_MODULE = "outpace.tune.edited"


def edited_command(texts: Mapping[str, str], script: str, argv: Sequence[str], module: bool) -> list[str]:
    """A command that trains with these texts in place of the script's files. They are written down
    for it, and it removes them.
    """
    edition = Edition(texts).write(register_folder(tempfile.mkdtemp(prefix="outpace-texts-")))
    return python_command(
        _MODULE, json.dumps({"edition": str(edition), "script": script, "argv": list(argv), "module": module})
    )


def main() -> None:
    """Run the script; its own exception comes out."""
    plan = json.loads(sys.argv[1])
    substitute(Edition.read(plan["edition"]).texts)
    shutil.rmtree(os.path.dirname(plan["edition"]), ignore_errors=True)
    try:
        run_as_main(plan["script"], plan["argv"], plan["module"])
    finally:
        hide_own_frames()


if __name__ == "__main__":
    main()
