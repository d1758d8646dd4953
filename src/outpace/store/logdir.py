# SPDX-License-Identifier: Apache-2.0
"""Log directories in TensorBoard's layout, `<logdir>/plugins/profile/<run>/<host>.xplane.pb`, local
or remote.

Remote locations are URLs that fsspec understands (`gs://`, `s3://`, `memory://`, ...). Nothing is
ever written next to a user's profile: remote files are read through a temporary copy.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from outpace.model.errors import NotFoundError, OutputError, UsageError
from outpace.model.input_files import RECORD, confine_reads, format_error, special_file_type
from outpace.store import host_folders
from outpace.store.profile_source import ProfileSource, read_in_memory, require_path
from outpace.store.profiles import ProfileFile, ProfileSet, RunInfo
from outpace.store.record import RECORD_SUFFIX, CaptureRecord, record_path
from outpace.store.tree import Tree, is_url, open_tree, relative_path
from outpace.trace.formats import InMemoryProfile, find_ending

PROFILE_FOLDER = "plugins/profile"
_LOOKED_AT = 50  # maximum number of files and runs inspected in a folder without a profile, to name what is there
_WRITTEN = 60.0  # seconds without a change after which a file counts as complete
_ROUND = 30  # number of scans after which an unchanged folder is read again; the workbench scans every second
# Maximum depth of log directories below the root: TensorBoard users keep one log directory per
# experiment, some with train/ and validation/ inside.
_DEPTH = 2


def find_profiles(source: ProfileSource) -> ProfileSet:
    """Return the profiles at `source`: one profile file, a run folder with such files, a log
    directory (its newest run), or a profile in memory.

    Raises NotFoundError where there is no profile, UsageError where `source` is of a kind that
    cannot be opened.
    """
    in_memory = read_in_memory(source)
    if in_memory is not None:
        file = ProfileFile(host_of(in_memory.name), in_memory.name, len(in_memory.data), in_memory)
        return ProfileSet(str(in_memory), file.host, "", (file,))
    path = require_path(source)
    tree = open_tree(path)
    root = tree.root
    if tree.is_file(root):
        return _single(path, root, tree)
    if not tree.is_folder(root):
        other = "" if is_url(path) else special_file_type(root)
        problem = f"{path} is {other}, not a file or folder." if other else f"There is no file or folder {path}."
        raise NotFoundError(f"{problem} Give a .xplane.pb file, a folder that holds such files, or a log directory.")
    files = _profiles_in(tree, root)
    if files:
        return ProfileSet(path, _base(root), tree.with_scheme(root), files)
    runs = _runs(tree, root)
    if not runs:
        raise NotFoundError(
            f"{path} holds no profile: neither *.xplane.pb files nor a {PROFILE_FOLDER}/<run> folder with some. {_what_else(tree, root)}"
            "Make one with `outpace profile SCRIPT`, or give the folder that the training job wrote its profile to."
        )
    newest, *older = runs
    profiles = _session(path, newest, tree)
    near = (_session(path, run, tree) for run in older if host_folders.is_close_in_time(newest, run))
    siblings = tuple(session for session in near if host_folders.can_be_one_run(profiles.files, session.files))
    return replace(profiles, older=len(older), siblings=siblings)


def _session(path: str, run: RunInfo, tree: Tree) -> ProfileSet:
    return ProfileSet(path, run.run, run.folder, _profiles_in(tree, tree.without_scheme(run.folder)))


def _what_else(tree: Tree, root: str) -> str:
    """Return a sentence on the first file that looks like another profiler's, in the folder or in
    its runs; "" without one.
    """
    from outpace.model.foreign_formats import identify_file

    folder = root.rstrip("/")
    runs = [f"{folder}/{PROFILE_FOLDER}/{name}" for name in tree.folders(f"{folder}/{PROFILE_FOLDER}")]
    for place in (folder, *runs[:_LOOKED_AT]):
        for entry in tree.files(place)[:_LOOKED_AT]:
            foreign = identify_file(f"{place}/{entry.name}", local=not is_url(tree.with_scheme(place)))
            if foreign is not None and foreign.other_profiler:
                return f"{entry.name} is {foreign.description}. {foreign.advice} "
    return ""


class RunCache:
    """The runs that folders contained at the last scan.

    A folder whose entries have not changed, and whose files were old at the last scan, is not read
    again. Files may have been overwritten in place nevertheless, so that each folder is read again
    every `_ROUND` scans.
    """

    def __init__(self) -> None:
        self._infos: dict[str, tuple[float, int, RunInfo | None]] = {}
        self._times = 0

    def begin_scan(self) -> None:
        """Begin a new scan: folders are checked for changes once more."""
        self._times += 1

    def find_run(self, tree: Tree, folder: str) -> RunInfo | None:
        """Return the run in a folder; None where it contains no profile."""
        changed, (before, due, cached) = tree.modified_time(folder), self._infos.get(folder, (math.inf, 0, None))
        if changed == before and self._times < due:
            return cached
        now, info = time.time(), _info(tree, folder)
        if cached is not None and info == cached:
            info = cached
        written = max(changed, info.modified if info is not None else 0.0) >= now - _WRITTEN
        # Spreads the next reads of folders over the scans.
        spread = zlib.crc32(folder.encode("utf-8", "surrogatepass")) % _ROUND if cached is None else 0
        self._infos[folder] = changed, self._times + (0 if written else _ROUND - spread), info
        return info


def list_runs(source: str | os.PathLike[str], cache: RunCache | None = None) -> tuple[RunInfo, ...]:
    """Return all runs of a log directory that contain a profile, newest first. Raises NotFoundError
    when the folder is missing.
    """
    path = os.fspath(source)
    tree = open_tree(path)
    if not tree.is_folder(tree.root):
        raise NotFoundError(f"There is no folder {path}. Give the log directory that the training job wrote to.")
    return _runs(tree, tree.root, cache)


def find_runs(source: str | os.PathLike[str], cache: RunCache | None = None) -> tuple[RunInfo, ...]:
    """Return the runs of a log directory, newest first, or the one run of a run folder. Raises
    NotFoundError where there is none.
    """
    with contextlib.suppress(NotFoundError):
        if runs := list_runs(source, cache):
            return runs
    return (read_run_info(source),)


def iter_logdirs(tree: Tree, root: str) -> Iterator[str]:
    """Yield the folders that may be log directories: the root, and the folders at most two levels
    below it.
    """
    level = [root.rstrip("/")]
    for depth in range(_DEPTH + 1):
        if depth:
            level = [f"{place}/{name}" for place in level for name in tree.folders(place) if name != "plugins"]
        yield from level


def shorten_path(path: str) -> str:
    """Return the shortest path that opens the same run from the working directory: the log
    directory for its newest run. URLs are returned unchanged.
    """
    if is_url(path):
        return path
    paths = [path]
    folder = path.rstrip("/").rpartition("/")[0]
    if folder.endswith(f"/{PROFILE_FOLDER}"):
        logdir = folder.removesuffix(f"/{PROFILE_FOLDER}")
        with contextlib.suppress(NotFoundError, OSError):
            paths += [logdir] * (find_profiles(logdir).folder.rstrip("/") == path.rstrip("/"))
    return min(map(relative_path, paths), key=len)


def read_run_info(folder: str | os.PathLike[str]) -> RunInfo:
    """Return the run that a folder with profiles represents. Raises NotFoundError where it contains
    no profile.
    """
    path = os.fspath(folder)
    tree = open_tree(path)
    info = _info(tree, tree.root.rstrip("/"))
    if info is None:
        raise NotFoundError(f"{path} holds no profile.")
    return info


def has_run(source: str | os.PathLike[str]) -> bool:
    """Whether a log directory contains a run, or the folder is one itself. The search stops at the
    first run.
    """
    tree = open_tree(os.fspath(source))
    return next(_each_run(tree, tree.root), None) is not None or _info(tree, tree.root.rstrip("/")) is not None


@contextlib.contextmanager
def local_copy(file: ProfileFile) -> Iterator[str | InMemoryProfile]:
    """Yield what the file's content is read from while the block runs: its local path, a temporary
    copy of a remote file, or its bytes in memory.

    Raises NotFoundError where a remote file is gone or cannot be read, OutputError where there is
    no room for the copy.
    """
    if file.in_memory is not None:
        yield file.in_memory
        return
    if not is_url(file.path):
        yield file.path
        return
    tree = open_tree(file.path)
    with tempfile.TemporaryDirectory(prefix="outpace-", ignore_cleanup_errors=True) as folder:
        target = os.path.join(folder, _base(file.path))
        try:
            tree.download(tree.root, target)
        except FileNotFoundError:
            raise NotFoundError(f"{file.path} is gone. List the runs again and open one that is still there.") from None
        except Exception as error:  # every store raises errors of its own
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OutputError(
                    f"There is no room in {tempfile.gettempdir()} for a copy of {file.path}. Set TMPDIR to another place."
                ) from error
            raise NotFoundError(f"{file.path} cannot be read: {error}.") from error
        with confine_reads([os.path.realpath(folder)]):
            yield target


def find_record(file: ProfileFile) -> tuple[CaptureRecord | None, str | None]:
    """Return the capture record next to a profile and a warning, as `read_capture_record` does;
    (None, None) for a profile in memory.
    """
    return (
        (None, None)
        if file.in_memory is not None
        else read_capture_record(file.path.rpartition("/")[0] or ".", host_of(file.path))
    )


def read_capture_record(folder: str, host: str) -> tuple[CaptureRecord | None, str | None]:
    """Return a host's capture record and a warning: (record, None); (None, None) when there is
    none; (None, reason) when it is unreadable.
    """
    path = record_path(folder, host)
    tree = open_tree(path)
    try:
        text = tree.read(tree.root, RECORD).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, UnicodeDecodeError) as error:
        return None, f"The capture record {path} is ignored: it cannot be read ({format_error(error)})."
    try:
        return CaptureRecord.from_json(text), None
    except ValueError as error:
        return None, f"The capture record {path} is ignored: {error}."


def upload_run(folder: str, logdir: str) -> str:
    """Copy a local run folder into a remote log directory and return the URL of the new run folder.

    Profiles are uploaded last, so that a run that is still being uploaded contains none and is not
    found. When the upload fails, the uploaded files are removed, and OutputError names a local copy
    that outlives the folder.
    """
    tree = open_tree(logdir)
    target = f"{tree.root.rstrip('/')}/{PROFILE_FOLDER}/{os.path.basename(folder)}"
    names = sorted(os.listdir(folder), key=lambda name: (bool(find_ending(name)), name))
    try:
        for name in names:
            tree.upload(os.path.join(folder, name), f"{target}/{name}")
    except Exception as error:  # every store raises errors of its own
        copy = shutil.copytree(folder, os.path.join(tempfile.mkdtemp(prefix="outpace-kept-"), os.path.basename(folder)))
        with contextlib.suppress(Exception):
            tree.remove(target)
        raise OutputError(
            f"The profile could not be written to {logdir} ({error}). A copy is kept in {copy}; copy it by hand."
        ) from error
    return tree.with_scheme(target)


def host_of(name: str) -> str:
    """Return the host that a profile file belongs to: its file name without the ending."""
    base = _base(name)
    ending = find_ending(base)
    return base[: len(base) - len(ending)] or base


def _single(path: str, file_path: str, tree: Tree) -> ProfileSet:
    if file_path.endswith(RECORD_SUFFIX):
        raise UsageError(f"{path} is the record of a capture, not a profile. Give the .xplane.pb file beside it.")
    folder = file_path.rpartition("/")[0]
    file = ProfileFile(host_of(file_path), tree.with_scheme(file_path), tree.size(file_path))
    return ProfileSet(path, _base(folder) or host_of(file_path), tree.with_scheme(folder) if folder else ".", (file,))


def _profiles_in(tree: Tree, folder: str) -> tuple[ProfileFile, ...]:
    """Return the profiles directly inside a folder, sorted by host. A bare .pb file may be any
    protobuf, so that it is opened only by its own path.
    """
    names = [entry for entry in tree.files(folder) if find_ending(entry.name, in_folders=True)]
    by_host: dict[str, ProfileFile] = {}
    for entry in names:  # a plain file takes precedence over its own .gz
        host = host_of(entry.name)
        if host not in by_host or not entry.name.endswith(".gz"):
            by_host[host] = ProfileFile(host, tree.with_scheme(f"{folder.rstrip('/')}/{entry.name}"), entry.size)
    return tuple(by_host[host] for host in sorted(by_host))


def _runs(tree: Tree, root: str, looks: RunCache | None = None) -> tuple[RunInfo, ...]:
    return tuple(sorted(_each_run(tree, root, looks), key=lambda run: run.sort_key, reverse=True))


def _each_run(tree: Tree, root: str, looks: RunCache | None = None) -> Iterator[RunInfo]:
    look = _info if looks is None else looks.find_run
    for place in iter_logdirs(tree, root):
        yield from _iter_runs(tree, f"{place}/{PROFILE_FOLDER}", look)
    if _base(root) == "profile":
        yield from _iter_runs(tree, root.rstrip("/"), look)


def _iter_runs(tree: Tree, profile_folder: str, look: Callable[[Tree, str], RunInfo | None]) -> Iterator[RunInfo]:
    for name in tree.folders(profile_folder):
        info = look(tree, f"{profile_folder}/{name}")
        if info is not None:
            yield info


def _info(tree: Tree, folder: str) -> RunInfo | None:
    """Return the run in a folder; None where it contains no profile."""
    entries = [e for e in tree.files(folder) if find_ending(e.name, in_folders=True) or e.name.endswith(RECORD_SUFFIX)]
    profiles = [e for e in entries if not e.name.endswith(RECORD_SUFFIX)]
    if not profiles:
        return None
    state = repr(sorted((e.name, e.size, e.modified) for e in entries))
    hosts = len({host_of(e.name) for e in profiles})
    return RunInfo(_base(folder), tree.with_scheme(folder), max(e.modified for e in profiles), state, hosts)


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
