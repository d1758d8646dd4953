# SPDX-License-Identifier: Apache-2.0
"""Experiment trackers write to this machine alone: what a trial does is no run of the user's."""

from __future__ import annotations

import os

# FOLDER stands for a private folder. Each tracker's documentation names its variables; an argument
# in the script (`mode="online"`) is stronger.
_OFFLINE = {
    "WANDB_MODE": "offline",
    "WANDB_DIR": "FOLDER",
    "MLFLOW_TRACKING_URI": "file://FOLDER/mlruns",
    "COMET_START_ONLINE": "false",
    "COMET_URL_OVERRIDE": "http://127.0.0.1:9/clientlib/",  # nobody there: Comet then writes to its folder
    "COMET_OFFLINE_DIRECTORY": "FOLDER",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "offline",
}
_REMOVED = ("MLFLOW_RUN_ID", "WANDB_RUN_ID", "WANDB_RESUME")  # of a run that goes on elsewhere


def offline(folder: str) -> None:
    """Set the variables; `folder` is where they write."""
    os.environ.update({name: text.replace("FOLDER", folder) for name, text in _OFFLINE.items()})
    for name in _REMOVED:
        os.environ.pop(name, None)
