"""The hosts of one run from several folders: which of these belong together, by what was captured."""

from __future__ import annotations

from dataclasses import replace

from outpace.hosts.map import here, map_hosts
from outpace.hosts.read import Asked, digest_of
from outpace.metrics.program.clocks import FEWEST, STEADY, ends_of, offset, zeros_of
from outpace.metrics.program.digest import Digest
from outpace.metrics.program.same_program import ran_together
from outpace.model import OutpaceError, median
from outpace.model.units import counted
from outpace.store.profiles import ProfileSet
from outpace.store.sessions import disjoint, labelled, named_as_one, rank_of

_TRIED = 3  # files of a folder, smallest first: one may be damaged
_NAMED = 3
_ANOTHER_TIME = "they were captured at another time"


def gathered(found: ProfileSet) -> tuple[ProfileSet, tuple[str, ...]]:
    """The profiles of a run with those of its hosts that lie in the folders beside it, and a remark that says what was put together."""
    if not found.beside:
        return found, ()
    base, *others = map_hosts(_one_of, [found, *found.beside])
    files, joined, alone = list(found.files), [found.run], list[str]()
    for session, glimpse in zip(found.beside, others, strict=True):
        if not (isinstance(base, Digest) and isinstance(glimpse, Digest)):
            continue
        why = "a host is in both"
        if disjoint(files, session.files):
            why = apart(base, glimpse, named=named_as_one(found.files[0], session.files[0]))
        if not why:
            files += session.files
            joined.append(session.run)
        elif why is not _ANOTHER_TIME and _overlap(base.captured_ns, glimpse.captured_ns):
            alone.append(f"{_shown(session)} was captured at the same time as {_shown(found)} and is not read with it: {why}.")
    alone = alone[:_NAMED] + [f"{counted(len(alone) - _NAMED, 'more folder')} of that time likewise."] * (len(alone) > _NAMED)
    if len(joined) == 1:
        return found, tuple(alone)
    whole = replace(found, folder=found.source, files=labelled(files), older=found.older - len(joined) + 1, beside=())
    return whole, (_told(len(whole.files), joined), *alone)


def _shown(session: ProfileSet) -> str:
    """A folder by what tells it from those beside it: the one of its rank, or its own name."""
    return rank_of(session.files[0].path) or session.run


def _told(hosts: int, runs: list[str]) -> str:
    names = sorted(set(runs))
    more = f" and {counted(len(names) - _NAMED, 'other')}" if len(names) > _NAMED else ""
    return (
        f"{counted(len(runs), 'folder')} are read as one run of {counted(hosts, 'host')}, because no host is in two of them and they were "
        f"captured at the same time ({', '.join(names[:_NAMED])}{more}). Give one of the folders to read it alone."
    )


def _one_of(session: ProfileSet) -> Digest:
    """One of a folder's hosts, which stands for all, since they were captured together: one with steps where a small profile has them.

    Raises why the smallest profiles cannot be read.
    """
    smallest = sorted(session.files, key=lambda file: file.size)[:_TRIED]
    tried = list[Digest | OutpaceError]()
    for file in smallest:
        tried += here(digest_of, [Asked(file)])
        if isinstance(tried[-1], Digest) and len(tried[-1].number):
            return tried[-1]
    read = [each for each in tried if isinstance(each, Digest)]
    if read:
        return read[0]
    raise next(each for each in tried if isinstance(each, OutpaceError))


def one_run(first: Digest, second: Digest, *, named: bool = True) -> bool:
    """Whether two different hosts were captured in one run: see `apart`."""
    return not apart(first, second, named=named)


def apart(first: Digest, second: Digest, *, named: bool = True) -> str:
    """Why two different hosts were not captured in one run, in words; empty where they were. `named`: whether names of folders say that they
    are of one job.

    Collectives that end on both at one distance in time say so, whatever their clocks say, and those whose distance changes that they wait for
    others. Without collectives, names must say it, and they must have recorded at the same time by their own clocks; where the program
    counts its steps on both, a step of one number must be one step, and where it does not, steps must be of one length: two trainings that
    run at once, each on hosts of its own, differ in that.
    """
    waits = _wait_for_each_other(first, second)
    if waits is not None:
        return "" if waits else "their collectives do not end together"
    none = "they have no collective in common"
    if not named:
        return f"{none}, and their folders are not called after ranks of one job"
    if first.origin.walled != second.origin.walled or not _overlap(first.captured_ns, second.captured_ns):
        return _ANOTHER_TIME
    if not (first.numbered and second.numbered):
        return "" if _of_one_length(first, second) else f"{none}, and their steps are not of one length"
    zero = zeros_of((first, second))
    one, two = (d.facts.on_clock(zero[d.host]).spans for d in (first, second))
    both = one.keys() & two.keys()
    at_once = sum(ran_together((one[number], two[number])) for number in both)
    return "" if at_once > len(both) / 2 else f"{none}, and steps of one number did not run at the same time"


def _of_one_length(first: Digest, second: Digest) -> bool:
    """Whether steps of both last as long as those of hosts that train together; a host without steps does not say."""
    lengths = sorted(median(d.end - d.start) for d in (first, second) if len(d.number))
    return len(lengths) < 2 or lengths[1] - lengths[0] <= STEADY * lengths[1]


def _wait_for_each_other(first: Digest, second: Digest) -> bool | None:
    """None where no collectives say it."""
    ends, others = ends_of(second), ends_of(first)
    shared = first.facts.collectives & second.facts.collectives and first.origin.walled == second.origin.walled
    if not shared or len(ends.keys() & others.keys()) < FEWEST:
        return None
    apart = 1000 * (second.origin.ns - first.origin.ns)
    usual = {number: float(end - apart) for number, end in others.items()}
    return offset(ends, usual, median(second.end - second.start)) is not None


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return max(first[0], second[0]) < min(first[1], second[1])
