# SPDX-License-Identifier: Apache-2.0
"""Fetches the profiles of servers that cannot return them (TensorFlow before 2.20 or so) and write
them to disk instead.

Every request names a folder below the log directory. Servers that return the profile do not use it.
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
# seconds until a file that another machine wrote is visible in a network file system
APPEAR_TIMEOUT_S = 5.0


class SharedFolder:
    """Folder that the workers are asked to write to: a hidden folder of the log directory, local or
    a URL.

    root: path or URL of the folder.
    """

    def __init__(self, staging: Staging) -> None:
        is_remote = is_url(staging.logdir)
        self.root = f"{staging.logdir.rstrip('/')}/.outpace-{uuid.uuid4().hex}" if is_remote else f"{staging.folder}/collected"
        self._is_remote = is_remote
        self._is_used = False

    def path(self, address: Address) -> str:
        """Return the path of a worker's profile."""
        return f"{self.root}/{SESSION}/{address.file_stem}.xplane.pb"

    def fetch(self, address: Address, target: str) -> int:
        """Move a worker's profile to the local path `target` and return its size in bytes; 0 when
        it is not visible from here.
        """
        self._is_used = True
        deadline = time.monotonic() + APPEAR_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                self._move(self.path(address), target)
                return os.path.getsize(target)
            if time.monotonic() > deadline:
                return 0
            time.sleep(0.25)

    def remove(self) -> None:
        """Remove the folder, where it is remote and was used; a local one is removed with the
        folder that it is in.
        """
        if self._is_remote and self._is_used:
            import fsspec

            # a store that refuses keeps a hidden folder, which is no reason to lose the profiles
            with contextlib.suppress(Exception):
                fs, root = fsspec.core.url_to_fs(self.root)
                fs.rm(root, recursive=True)

    def _move(self, path: str, target: str) -> None:
        """Move or download a file."""
        if self._is_remote:
            tree = open_tree(path)
            tree.download(tree.root, target)
        else:
            os.replace(path, target)
