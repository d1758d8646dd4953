# SPDX-License-Identifier: Apache-2.0
"""System calls of Linux that Python has no functions for: mounts, namespaces, capabilities,
Landlock. Standard library only.

Each raises OSError with the call's name. Numbers of calls are those that all architectures share
(from 424 on); the others go by libc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000  # unshare
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18  # mount
_KEPT_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
_DETACH = 2
_CLONE, _TREE, _CLOEXEC, _EMPTY_PATH, _HERE = 1, 0x8000, os.O_CLOEXEC, 4, -100
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
_DUMPABLE, _CHILD_SUBREAPER, _NO_NEW_PRIVILEGES, _CAPABILITIES_3 = 4, 36, 38, 0x20080522


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Namespaces of this process's own; it must have one thread."""
    _checked("unshare", _libc().unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """`mount(2)`."""
    texts = [os.fsencode(text) if text is not None else None for text in (source, target, kind)]
    options = os.fsencode(data) if data is not None else None
    _checked(f"mount {kind or 'bind'} on {target}", _libc().mount(*texts, ctypes.c_ulong(flags), options))


def clone_tree(path: str) -> int:
    """A file descriptor of a copy of what is mounted at `path` and below, which `put` mounts
    elsewhere.
    """
    flags = ctypes.c_uint(_CLONE | _TREE | _CLOEXEC)
    return _checked(f"open_tree {path}", _libc().syscall(_OPEN_TREE, _HERE, os.fsencode(path), flags))


def put(tree: int, target: str) -> None:
    """Mount what `clone_tree` gave, and close its descriptor."""
    try:
        _checked(f"move_mount to {target}", _libc().syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), _EMPTY_PATH))
    finally:
        os.close(tree)


def read_only(path: str, options: frozenset[str]) -> None:
    """Make the mount at `path` read-only; `options`: those that it has, which have to stay."""
    kept = sum(flag for name, flag in _KEPT_FLAGS.items() if name in options)
    mount("none", path, None, REMOUNT | BIND | READ_ONLY | kept)


def become_root(folder: str) -> None:
    """Let `folder`, a mount, be the root, and nothing lead to the old one any more."""
    old = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(folder)
        libc = _libc()
        pivot = getattr(libc, "pivot_root", None)
        _checked("pivot_root", pivot(b".", b".") if pivot is not None else _pivot(libc))
        os.fchdir(old)
        _checked("umount", libc.umount2(b".", _DETACH))
        os.chdir("/")
    finally:
        os.close(old)


def _pivot(libc: Any) -> int:
    numbers = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}
    number = numbers.get(os.uname().machine)
    if number is None:
        ctypes.set_errno(38)  # ENOSYS
        return -1
    return int(libc.syscall(number, b".", b"."))


def map_self(user: int, group: int) -> None:
    """In a new user namespace: be who one was."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def drop_capabilities() -> None:
    """Those of a new user namespace: with them, files that are read-only to the user
    would not be.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _checked("capset", _libc().capset(header, (ctypes.c_uint32 * 6)()))
    dumpable()


def dumpable() -> None:
    """Let other processes of the user's look at this one again: a change of rights forbids it."""
    _checked("prctl", _libc().prctl(_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0))


def adopt_orphans() -> None:
    """Let processes that this one's children start be its children once their parents have ended,
    however they were detached.
    """
    _checked("prctl", _libc().prctl(_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0))


def landlock_version() -> int:
    """The version of Landlock's interface; 0 where there is none."""
    return max(0, int(_libc().syscall(_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def landlock(handled: int, allowed: dict[str, int]) -> None:
    """Give up, for ever and with all processes started from now on, the rights `handled` but below
    the paths of `allowed`.
    """
    libc = _libc()
    attributes = ctypes.c_uint64(handled)
    size = ctypes.c_size_t(8)
    rules = _checked("landlock_create_ruleset", libc.syscall(_RULESET, ctypes.byref(attributes), size, ctypes.c_uint(0)))
    try:
        for path, rights in allowed.items():
            _allow(libc, rules, path, rights)
        _checked("prctl", libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), 0, 0, 0))
        _checked("landlock_restrict_self", libc.syscall(_RESTRICT, rules, ctypes.c_uint(0)))
    finally:
        os.close(rules)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _allow(libc: Any, rules: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _Beneath(rights, folder)
        _checked("landlock_add_rule", libc.syscall(_ADD_RULE, rules, ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint(0)))
    finally:
        os.close(folder)
