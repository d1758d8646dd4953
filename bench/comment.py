"""Tunings of a comment: how often is a script called faster whose edit adds a line without effect?
python bench/comment.py SCRIPT [SCRIPT ...] [--runs N] [--budget SECONDS]

Each run is a whole `outpace.tune` of the script, whose only candidate is its own text with a
comment behind it; what any of them keeps is wrong. Run it on a quiet machine, with PYTHONPATH=src.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
from dataclasses import replace

from outpace.model.errors import OutpaceError
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.climb import Climb
from outpace.tune.patch.make import FileChange
from outpace.tune.risk import Risk
from outpace.tune.searched import Seen
from outpace.tune.session import Tuned, tune
from outpace.tune.texts.load import source_of

_look = Climb._look


def look(self: Climb, again: bool = False) -> Seen:
    """Return what a look saw, with a comment as the only candidate."""
    seen = _look(self, again)
    path = self.originals.command.parts[0]
    text = source_of(path)
    self.sources[path] = text
    change = FileChange(path, text, f"{text.rstrip()}\n# the same\n")
    comment = Candidate("comment", "a comment", "it has no effect", Risk.EXACT, (change,), ())
    return replace(seen, candidates=() if again else (comment,))


def main() -> None:
    """Tune, and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("--runs", type=int, default=10, help="tunings of each script")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of each tuning")
    options = parser.parse_args()
    Climb._look = look  # type: ignore[method-assign]
    for script in options.scripts:
        outcomes = collections.Counter[str]()
        for _ in range(options.runs):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                try:
                    found = tune(script, budget=options.budget)
                    outcome = _decision(found)
                except OutpaceError as error:
                    outcome = f"not tuned: {error}"
            outcomes[outcome] += 1
        print(script, dict(outcomes), flush=True)


def _decision(found: Tuned) -> str:
    """Return what was said of the comment: by the race of the proof with its interval and its
    processes, or by the search.
    """
    if (proof := found.proof) is not None and proof.race is not None:
        verdict, count = proof.race.verdicts[0], len(proof.race.processes(proof.race.baseline))
        said = f"{verdict.estimate.low:.3f} to {verdict.estimate.high:.3f}" if verdict.estimate is not None else "no interval"
        return f"{'KEPT' if proof.stack is not None else 'not kept'}: {verdict.decision} ({said}, {count} processes of each)"
    tried = {each.id: each for each in found.searched.climbed.tried} if found.searched is not None else {}
    return str(tried["comment"].decision) if "comment" in tried else "not raced"


if __name__ == "__main__":
    main()
