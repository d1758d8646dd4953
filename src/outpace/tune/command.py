"""The command's own process of `outpace tune`: it waits for the script's, which dies when the tuning is over, and starts the script anew
where it is to train."""

from __future__ import annotations

import json
import os
from typing import Any

from outpace.capture.family import Family
from outpace.capture.recording import tell
from outpace.capture.relaunch import become, python_command, script_command
from outpace.capture.runner import watched
from outpace.model.errors import TuneError

INTERRUPTED = 130
_HOSTED = "outpace.tune.hosted"


def tune_script(plan: dict[str, Any]) -> int:
    """Tune as planned; the exit code. Does not come back where the script trains afterwards: this process becomes the script's then.

    plan: what `hosted` reads, without its files, and `then`.
    """
    trains = plan["then"] != "stop" and not plan["dry_run"]
    if trains:
        tell("the script runs twice: what it does before its training is done again, in a new process, for that")
    with Family() as family:
        plan = {**plan, "folder": os.getcwd()}
        files = {"outcome": os.path.join(family.folder, "outcome.json"), "kept": os.path.join(family.folder, "kept.json")}
        code, outcome = watched(python_command(_HOSTED, json.dumps({**plan, **files, "recipe": None})), files["outcome"])
        if outcome is not None and not outcome.stopped:  # the script came to its own end
            family.release()
        recipe = _read(files["kept"])
    if outcome is None:  # the script ended itself, or something else did
        if code == 0:
            tell("the script ended by itself before any tuning")
        return code if code or trains else TuneError.exit_code
    if not outcome.stopped:
        if code and code != INTERRUPTED:
            tell(f"nothing is tuned: the script ended with exit code {code} before its training could be tuned")
        elif code == 0 and outcome.reason:
            tell(outcome.reason)
            return code if trains else TuneError.exit_code
        return code
    if not trains or code == INTERRUPTED:
        return code
    if plan["then"] == "apply" and recipe.get("practices"):
        become(python_command(_HOSTED, json.dumps({**plan, "outcome": os.devnull, "recipe": recipe})))
    become(script_command(plan["script"], plan["argv"], plan["module"]))


def _read(path: str) -> dict[str, Any]:
    """The recipe, as `hosted.recipe_of` makes it; empty where nothing was tuned."""
    try:
        with open(path, encoding="utf-8") as file:
            recipe: dict[str, Any] = json.load(file)
            return recipe
    except (OSError, ValueError):
        return {}
