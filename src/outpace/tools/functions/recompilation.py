"""Why a function of JAX was compiled again, as far as the programs that it became tell: by what
they take and return, and by what they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from outpace._dataclass import dataclass
from outpace.model.units import format_count
from outpace.timeline.hlo_modules import RESULT_PREFIXES, HloModule
from outpace.tools.functions.retracing import SAME_ARGUMENTS, SAME_ARRAYS, SAME_PROGRAM, diff_arguments

_TOLD = 3  # shapes in a sentence
_AGAIN = (
    2  # times that a program came again, from where the function is made anew: arguments have no more forms that do not show
)


@dataclass(frozen=True)
class Recompilation:
    """`explanation`, in words; the `argument` that changes, where one does; `causes`: kinds of
    change, and how many programs each made, most first.
    """

    explanation: str
    argument: str
    causes: tuple[tuple[str, int], ...]


def find_recompilation(programs: Sequence[HloModule]) -> Recompilation | None:
    """What made a function become these programs, in the order in which they were compiled; None
    where there are no two.
    """
    if len(programs) < 2:
        return None
    kinds: Counter[str] = Counter()
    known = {tuple(programs[0].signature.items()): {programs[0].computations}}
    for before, now in pairwise(programs):
        codes = known.setdefault(tuple(now.signature.items()), set())
        if codes:
            kinds[SAME_ARGUMENTS if now.computations in codes else SAME_ARRAYS] += 1
        else:
            kinds.update(diff_arguments(before.signature, now.signature)[1].split(", "))
        codes.add(now.computations)
    if kinds[SAME_ARRAYS]:  # its remedy is the other's as well
        kinds[SAME_ARRAYS] += kinds.pop(SAME_ARGUMENTS, 0)
    elif kinds[SAME_ARGUMENTS] < _AGAIN:
        kinds[SAME_PROGRAM] += kinds.pop(SAME_ARGUMENTS, 0)
    argument, shapes = _changing(programs)
    why = f", because of {argument}: {shapes}" if argument else ", though its arguments keep their shapes and types"
    return Recompilation(
        f"{why}{', each time to the same program' * (set(+kinds) <= {SAME_ARGUMENTS, SAME_PROGRAM})}",
        argument,
        tuple((+kinds).most_common()),
    )


def _changing(programs: Sequence[HloModule]) -> tuple[str, str]:
    """(what changes between the programs, an argument before a result; its shapes in
    their order).
    """
    names = dict.fromkeys(name for program in programs for name in program.signature)
    shapes = {name: list(dict.fromkeys(program.signature.get(name, "nothing") for program in programs)) for name in names}
    changing = sorted((name for name in names if len(shapes[name]) > 1), key=lambda name: name.startswith(RESULT_PREFIXES))
    if not changing:
        return "", ""
    first, others = changing[0], sum(not name.startswith(RESULT_PREFIXES) for name in changing[1:])
    told = shapes[first] if len(shapes[first]) <= _TOLD else [*shapes[first][: _TOLD - 1], "...", shapes[first][-1]]
    return first, " → ".join(told) + f" and {format_count(others, 'more argument')}" * bool(others)
