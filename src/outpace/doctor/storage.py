# SPDX-License-Identifier: Apache-2.0
"""Checks whether the log directory and the temporary directory are writable and have room for a
profile.
"""

from __future__ import annotations

import errno
import os
import tempfile

from outpace.capture.options import DEFAULT_LOGDIR
from outpace.doctor.facts import DoctorFacts, quote_path
from outpace.doctor.result import CheckResult, note, ok, problem
from outpace.doctor.system import System
from outpace.model.errors import OutpaceError
from outpace.store.tree import is_url, open_tree, required_packages

EVENTS_PER_MB = 30_000  # host events: 29,000 to 37,000 in the CPU profiles of tests/data
LOW_SPACE_BYTES, MIN_SPACE_BYTES = 10**9, 10**8  # bytes: a note, and a problem
_TEST = ".outpace-doctor"
_REASONS = {
    errno.ENOSPC: "its file system is full",
    errno.EDQUOT: "your quota is used up",
    errno.EROFS: "its file system is mounted read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENOTDIR: "a file is in the way",
    errno.EEXIST: "a file is in the way",
}


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Check the log directory and the temporary directory."""
    results = _url(facts.logdir) if is_url(facts.logdir) else _folder(system, "logdir", "log directory", facts.logdir)
    temporary = system.environment.get("TMPDIR") or "/tmp"
    return results + _folder(system, "temporary", "temporary directory", temporary)


def _folder(system: System, name: str, what: str, path: str) -> list[CheckResult]:
    folder = os.path.abspath(os.path.expanduser(path))
    error = system.write_error(folder)
    if error is not None:
        return [_unwritable(name, what, path, folder, error)]
    free = system.free_bytes(folder)
    if free is None:
        return [ok(name, f"The {what} {path} is writable.", folder)]
    room = f"{_size(free)} free; a profile takes 1 MB per {EVENTS_PER_MB:,} host events"
    if free < LOW_SPACE_BYTES:
        make = problem if free < MIN_SPACE_BYTES else note
        return [make(name, f"The {what} {path} has little room: {room}.", folder, command=f"df -h {quote_path(folder)}")]
    return [ok(name, f"The {what} {path} is writable ({room}).", folder)]


def _unwritable(name: str, what: str, path: str, folder: str, error: int) -> CheckResult:
    text = f"The {what} {path} cannot be written to: {_REASONS.get(error, os.strerror(error))}."
    evidence = (folder, f"errno {error}: {os.strerror(error)}")
    if error in (errno.ENOSPC, errno.EDQUOT):
        quoted = quote_path(_existing_parent(folder))
        return problem(name, text, *evidence, command=f"df -h {quoted}; du -xsh {quoted}/* | sort -h | tail")
    if name == "temporary":
        return problem(name, text, *evidence, command="mkdir -p ~/tmp && export TMPDIR=~/tmp")
    return problem(name, text, *evidence, command=f"outpace doctor --logdir ~/{DEFAULT_LOGDIR}")


def _url(logdir: str) -> list[CheckResult]:
    """Check a log directory at a URL by writing a small file there and removing it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "test")
        with open(path, "w", encoding="utf-8") as file:
            file.write("outpace doctor\n")
        try:
            tree = open_tree(logdir)
            place = f"{tree.root.rstrip('/')}/{_TEST}-{os.getpid()}"
            tree.upload(path, f"{place}/test")
            tree.remove(place)
        except OutpaceError as error:
            return [problem("logdir", str(error), logdir, command=f"pip install {required_packages(logdir)}")]
        except Exception as error:  # every store raises errors of its own
            text = f"The log directory {logdir} cannot be written to: {str(error).rstrip('.')}."
            return [problem("logdir", text, type(error).__name__, command=f"outpace doctor --logdir ~/{DEFAULT_LOGDIR}")]
    return [ok("logdir", f"The log directory {logdir} is writable.")]


def _existing_parent(folder: str) -> str:
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return folder


def _size(count: int) -> str:
    return (
        f"{count / 1e9:,.0f} GB" if count >= 10**10 else f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.0f} MB"
    )
