# SPDX-License-Identifier: Apache-2.0
"""Why JAX compiled a function again, judged by its compiled programs: their arguments and results,
and their computations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.model.units import format_count
from outpace.timeline.hlo.modules import RESULT_PREFIXES
from outpace.tools.functions.retracing import SAME_ARGUMENTS, SAME_ARRAYS, SAME_PROGRAM, diff_arguments

if TYPE_CHECKING:
    from outpace.timeline.hlo.module import HloModule

_MOST_SHAPES = 3  # maximum number of shapes in a sentence
# Number of repetitions of a program from which the function counts as created anew: changes of
# arguments that do not show in shapes (weak types, devices) cause fewer repetitions.
_MIN_SAME_PROGRAMS = 2


@dataclass(frozen=True)
class Recompilation:
    """Why a function was compiled again.

    explanation: end of a sentence that explains it
    argument: the argument that changes; "" for none
    causes: (kind of change, number of programs with it), most frequent first
    """

    explanation: str
    argument: str
    causes: tuple[tuple[str, int], ...]


def find_recompilation(programs: Sequence[HloModule]) -> Recompilation | None:
    """Return why a function was compiled into these programs; None for fewer than two.

    programs: programs of the function in the order in which they were compiled
    """
    if len(programs) < 2:
        return None
    kinds: Counter[str] = Counter()
    codes_by_signature = {tuple(programs[0].signature.items()): {programs[0].computations}}
    for before, now in pairwise(programs):
        codes = codes_by_signature.setdefault(tuple(now.signature.items()), set())
        if codes:
            kinds[SAME_ARGUMENTS if now.computations in codes else SAME_ARRAYS] += 1
        else:
            kinds.update(diff_arguments(before.signature, now.signature)[1].split(", "))
        codes.add(now.computations)
    if kinds[SAME_ARRAYS]:  # the remedy for changed arrays covers the other cause, too
        kinds[SAME_ARRAYS] += kinds.pop(SAME_ARGUMENTS, 0)
    elif kinds[SAME_ARGUMENTS] < _MIN_SAME_PROGRAMS:
        kinds[SAME_PROGRAM] += kinds.pop(SAME_ARGUMENTS, 0)
    argument, shapes = _changing_argument(programs)
    why = f", because of {argument}: {shapes}" if argument else ", though its arguments keep their shapes and types"
    return Recompilation(
        f"{why}{', each time to the same program' * (set(+kinds) <= {SAME_ARGUMENTS, SAME_PROGRAM})}",
        argument,
        tuple((+kinds).most_common()),
    )


def _changing_argument(programs: Sequence[HloModule]) -> tuple[str, str]:
    """Return (argument or result that changes between the programs, its shapes in order); ("", "")
    without one.

    Arguments are preferred to results.
    """
    names = dict.fromkeys(name for program in programs for name in program.signature)
    shapes = {name: list(dict.fromkeys(program.signature.get(name, "nothing") for program in programs)) for name in names}
    changing = sorted((name for name in names if len(shapes[name]) > 1), key=lambda name: name.startswith(RESULT_PREFIXES))
    if not changing:
        return "", ""
    first, further_count = changing[0], sum(not name.startswith(RESULT_PREFIXES) for name in changing[1:])
    shown_shapes = (
        shapes[first] if len(shapes[first]) <= _MOST_SHAPES else [*shapes[first][: _MOST_SHAPES - 1], "...", shapes[first][-1]]
    )
    return first, " → ".join(shown_shapes) + f" and {format_count(further_count, 'more argument')}" * bool(further_count)
