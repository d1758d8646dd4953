"""Profiles of servers that cannot return them (TensorFlow before 2.20 or so): they write to their
own disk, and we look there.

Every request names a place below the log directory. Servers that return the profile do not touch
it.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid

from outpace.capture.remote.addresses import Address
from outpace.store.staging import Staging
from outpace.store.tree import is_url, open_tree

SESSION = "run"
APPEAR_TIMEOUT_S = 5.0  # seconds until a file that another machine wrote is seen in a network file system


class SharedFolder:
    """The place that the workers are told: a hidden folder of the log directory, local or a URL."""

    def __init__(self, staging: Staging) -> None:
        remote = is_url(staging.logdir)
        self.root = f"{staging.logdir.rstrip('/')}/.outpace-{uuid.uuid4().hex}" if remote else f"{staging.folder}/collected"
        self._remote = remote
        self._used = False

    def path(self, address: Address) -> str:
        """Where a worker's profile should be."""
        return f"{self.root}/{SESSION}/{address.file_stem}.xplane.pb"

    def fetch(self, address: Address, target: str) -> int:
        """Put a worker's profile at the local path `target` and return its size in bytes; 0 when it
        is not to be seen from here.
        """
        self._used = True
        end = time.monotonic() + APPEAR_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                self._move(self.path(address), target)
                return os.path.getsize(target)
            if time.monotonic() > end:
                return 0
            time.sleep(0.25)

    def remove(self) -> None:
        """Remove the place, where it was used; a local one goes with the folder that it
        stands in.
        """
        if self._remote and self._used:
            import fsspec

            with contextlib.suppress(Exception):  # a store that refuses keeps a hidden folder, no reason to lose the profiles
                fs, root = fsspec.core.url_to_fs(self.root)
                fs.rm(root, recursive=True)

    def _move(self, path: str, target: str) -> None:
        if self._remote:
            tree = open_tree(path)
            tree.download(tree.root, target)
        else:
            os.replace(path, target)
