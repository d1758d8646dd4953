# SPDX-License-Identifier: Apache-2.0
"""The private overlay: a mount namespace whose every writable place is an overlayfs over the real
one. Standard library only.

What is written goes to a tmpfs that belongs to the namespace: it goes with its last process,
however that one ends, and there is nothing to tidy up, neither on disk nor by anybody. A folder on
disk would stay after `kill -9`, and cost a copy of what the pages hold already; the price is
memory, at most half of what is free, beyond which a writer is told that the disk is full. Large
files of Outpace's own (caches on disk) belong into a `keep` folder.

Root needs a mount namespace alone. Everybody else gets a user namespace, too, in which he is who he
was; what belongs to others, or to another of his groups, cannot be copied there and so cannot be
changed either (EOVERFLOW): where that holds for the current folder, there is no overlay.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence

from outpace._dataclass import dataclass
from outpace._memory import free_memory
from outpace.tune.guard import kernel
from outpace.tune.guard.mounts import DAEMONS, REAL, SHARED, Mount, ancestors, below, mounts, outermost

_SHARE = 0.5  # of the free memory, for what is written
_SCAFFOLD = "/sys"  # where the tmpfs stands while all is built; the real one is put back
_MOST_FILES = 300  # single files that are bound, of a folder that cannot be covered as a whole


class Impossible(Exception):
    """Why there is no overlay."""


@dataclass(frozen=True)
class Overlay:
    """What was built. upper: a descriptor of the private tmpfs; covered: each place that an overlay
    covers, by its folder in there.
    """

    upper: int
    covered: dict[str, str]

    def written(self) -> Iterator[str]:
        """Paths of files that were written or removed."""
        for name, place in self.covered.items():
            base = f"/proc/self/fd/{self.upper}/{name}/upper"
            for folder, folders, files in os.walk(base):
                inside = os.path.relpath(folder, base)
                linked = [each for each in folders if os.path.islink(os.path.join(folder, each))]
                for each in (*files, *linked):
                    yield os.path.normpath(os.path.join(place, inside, each))


def build(keep: Sequence[str], as_user: bool = False) -> Overlay:
    """Let this process, and all that it starts, see the files through overlays; `keep`: folders
    that stay as they are. `as_user`: root does not use its rights. Raises OSError or Impossible,
    half way: try it in another process first.
    """
    user, group, here = os.getuid(), os.getgid(), os.getcwd()
    seen = mounts()
    own = not as_user and _left_as_root()
    if not own:
        _leave_as_user(user, group)
    kernel.mount("none", "/", None, kernel.RECURSIVE | kernel.PRIVATE)
    builder = _Builder(seen, here, None if own else (user, group))
    kept = [(path, kernel.clone_tree(path)) for path in outermost(map(os.path.realpath, keep)) if os.path.isdir(path)]
    builder.cover_all()
    for path, tree in kept:
        kernel.put(tree, builder.root + path)
    upper = os.open(_SCAFFOLD, os.O_RDONLY | os.O_DIRECTORY)
    kernel.become_root(builder.root)
    os.chdir(here)
    if not own and user != 0:
        kernel.drop_capabilities()
    return Overlay(upper, builder.covered)


def _left_as_root() -> bool:
    """Leave the namespace of everybody's mounts, where that is allowed without a user namespace."""
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            kernel.unshare(kernel.NEW_MOUNTS)
            return True
    return False


def _leave_as_user(user: int, group: int) -> None:
    if (user, group) != (os.geteuid(), os.getegid()):
        raise Impossible("the process runs by the rights of another")
    known = os.stat(".")
    if os.access(".", os.W_OK) and (known.st_uid, known.st_gid) != (user, group):
        raise Impossible("the current folder belongs to another user or group")
    kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS)
    kernel.dumpable()
    kernel.map_self(user, group)


class _Builder:
    """Builds the new root, below the scaffold. owner: user and group that may be copied; None where
    all may.
    """

    def __init__(self, seen: Sequence[Mount], here: str, owner: tuple[int, int] | None) -> None:
        self.root = f"{_SCAFFOLD}/root"
        self.covered: dict[str, str] = {}
        self._seen = {each.place: each for each in seen}
        self._here, self._owner = here, owner
        self._trees: dict[str, int] = {}
        self._needed = outermost(filter(os.path.isdir, map(os.path.realpath, (here, tempfile.gettempdir()))))
        self._extended, self._count = owner is not None, 0

    def cover_all(self) -> None:
        """The whole tree."""
        for place in self._whole():
            with contextlib.suppress(FileNotFoundError):
                self._trees[place] = kernel.clone_tree(place)
        if _SCAFFOLD not in self._trees:
            raise Impossible(f"there is no {_SCAFFOLD}")
        size = max(1 << 24, int(_SHARE * free_memory()))
        kernel.mount("tmpfs", _SCAFFOLD, "tmpfs", 0, f"mode=755,size={size}")
        os.mkdir(self.root)
        if self._extended:
            self._require_attributes()
        self._cover("/")
        for place in self._seen:
            if place != "/" and not any(below(place, whole) for whole in (*REAL, DAEMONS)):
                self._put_mount(self._seen[place])
        for place, tree in self._trees.items():
            self._put_tree(place, tree)
        if os.path.isdir(SHARED):
            self._over(SHARED)

    def _whole(self) -> list[str]:
        """Places whose mounts stay as they are; none of them may be below another."""
        rest = [place for place, each in self._seen.items() if place != "/" and not each.writable]
        return outermost([*REAL, *([DAEMONS] if os.path.isdir(DAEMONS) else []), *rest])

    def _require_attributes(self) -> None:
        """Without them a folder cannot be made where one was removed (tmpfs has them since Linux
        6.6).
        """
        try:
            os.setxattr(self.root, "user.outpace", b"1")
            os.removexattr(self.root, "user.outpace")
        except OSError as error:
            raise Impossible("this kernel's tmpfs has no attributes for users (Linux 6.6 has)") from error

    def _cover(self, place: str) -> None:
        """One folder, as a whole where the kernel lets us, else by what is in it: mounts of others
        below it may not be uncovered.
        """
        try:
            self._over(place)
            return
        except OSError:
            if place in self._needed or not any(below(other, place) and other != place for other in self._seen):
                raise
        if place == "/":
            kernel.mount(self.root, self.root, None, kernel.BIND)  # a root has to be a mount
        files = 0
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), self.root + entry.path)
                elif entry.is_dir():
                    self._enter(entry.path)
                else:
                    files += 1
                    self._bind_file(entry.path)
        if files > _MOST_FILES:
            raise Impossible(f"{place} holds too many files beside a mount")

    def _enter(self, place: str) -> None:
        """A folder below one that could not be covered as a whole."""
        os.mkdir(self.root + place)
        if place in self._seen or place in self._trees:
            return  # put there afterwards
        if os.access(place, os.R_OK | os.X_OK):
            self._cover(place)

    def _bind_file(self, path: str) -> None:
        target = self.root + path
        if not os.access(path, os.R_OK):
            return
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        kernel.put(kernel.clone_tree(path), target)
        self._lock(path)

    def _lock(self, path: str) -> None:
        """Nothing is written there."""
        held = max((each for each in self._seen.values() if below(path, each.place)), key=lambda each: len(each.place))
        kernel.read_only(self.root + path, held.options)

    def _over(self, place: str) -> None:
        """An overlay."""
        self._count += 1
        name = str(self._count)
        upper, work = (f"{_SCAFFOLD}/{name}/{part}" for part in ("upper", "work"))
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        known = os.stat(place)
        os.chmod(upper, stat.S_IMODE(known.st_mode))
        if not self._extended:
            os.chown(upper, known.st_uid, known.st_gid)
        else:
            self._prepare(place, upper)
            if not os.access(place, os.W_OK):
                os.chmod(upper, stat.S_IMODE(known.st_mode) & ~0o222)
        more = ",userxattr" if self._extended else ",redirect_dir=on"
        texts = [_escaped(path) for path in (place, upper, work)]
        options = f"lowerdir={texts[0]},upperdir={texts[1]},workdir={texts[2]}{more}"
        kernel.mount("overlay", self.root + place if place != "/" else self.root, "overlay", 0, options)
        self.covered[name] = place

    def _prepare(self, place: str, upper: str) -> None:
        """Folders of others, which cannot be copied when something is written below them, stand
        there already.
        """
        for path in self._others(place):
            made = os.path.join(upper, os.path.relpath(path, place))
            with contextlib.suppress(OSError):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                os.makedirs(made, exist_ok=True)
                os.chmod(made, 0o777 if os.access(path, os.W_OK) else mode & ~0o222 | 0o555)

    def _others(self, place: str) -> Iterator[str]:
        """Folders of others in which something of the user's may be, and what is
        written or named.
        """
        named = [text for text in (*sys.argv[1:], *os.environ.values()) if text.startswith("/")]
        for path in {self._here, *self._needed, os.path.expanduser("~"), *named}:
            real = os.path.realpath(path)
            if real != place and below(real, place):
                for each in ancestors(real, place):
                    if not os.path.isdir(each) or not self._foreign(each):
                        break
                    yield each

    def _foreign(self, path: str) -> bool:
        known = os.stat(path)
        return (known.st_uid, known.st_gid) != self._owner

    def _put_mount(self, each: Mount) -> None:
        """A mount that is not the root."""
        if each.place in self._trees or any(below(each.place, whole) for whole in self._trees):
            return
        if not os.path.lexists(self.root + each.place) or not os.access(each.place, os.R_OK):
            return
        if os.path.isdir(each.place):
            with contextlib.suppress(OSError):
                self._over(each.place)
                return
        if any(below(path, each.place) for path in self._needed):
            raise Impossible(f"{each.place} ({each.kind}) cannot lie below an overlay")
        kernel.put(kernel.clone_tree(each.place), self.root + each.place)
        self._lock(each.place)

    def _put_tree(self, place: str, tree: int) -> None:
        if not os.path.lexists(self.root + place):
            os.close(tree)
            return
        kernel.put(tree, self.root + place)
        if place == DAEMONS:
            self._lock(place)


def _escaped(path: str) -> str:
    """A path in the options of a mount."""
    return "".join(f"\\{letter}" if letter in ":,\\" else letter for letter in path)
