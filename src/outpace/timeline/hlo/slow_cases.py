# SPDX-License-Identifier: Apache-2.0
"""Computations that libraries are known to be slow at, with what to do instead.

Sources: NVIDIA's documentation of cuDNN (grouped convolutions have kernels of their own, most of
them without tensor cores) and of cuFFT (lengths of the primes 2, 3, 5 and 7 have the fastest
kernels, others up to 127 slower ones, and larger ones take Bluestein's algorithm: several
transforms of at least twice the length), and a measurement on an H100: with a depthwise convolution
of 1,024 channels and a kernel of 4, a step takes 11.8 ms, with four shifted multiply-adds 5.2 ms.
"""

from __future__ import annotations

from collections.abc import Collection

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.timeline.hlo.cost.convolutions import convolution_groups
from outpace.timeline.hlo.cost.library_calls import is_sort
from outpace.timeline.hlo.cost.traffic import parts_read
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.products import has_spatial_dimensions, product_flops

_PRIMES = (2, 3, 5, 7)  # factors of lengths for which FFT libraries have fast kernels
_SMALL_PART = 0.1  # maximum share of a sorted array that is used, for sorting all of it to be a waste
_LONGEST = 2**40  # maximum length of an FFT; longer ones are damage
_FAR = 12  # maximum number of instructions that are followed to the use of a sorted array
_SHUFFLES = compile_lazily(r"_shuffle|permutation|choice")
_PASSING = ("get-tuple-element", "bitcast", "copy", "reshape", "convert")
_UNFOLLOWED = ("tuple", "while", "call", "conditional")


@dataclass(frozen=True)
class SlowCase:
    """Why an instruction is slow, and what would be faster.

    name: short name of the case: `depthwise`, `fft_length`.
    reason: what it is, to stand behind a colon: `an FFT of 8,191 numbers, a prime`.
    action: what to do instead, in the imperative, without a full stop.
    is_of_processors: whether it is slow on processors alone, not on accelerators.
    does_less: whether the other way has less to compute, so that all of its time can go, not only
        that above its roof.
    part: name of the instruction, of those inside, that it is about; "" for the whole one.
    source: the line that this part comes from; "" where it is not known.
    """

    name: str
    reason: str
    action: str
    is_of_processors: bool = False
    does_less: bool = False
    part: str = ""
    source: str = ""

    @property
    def advice(self) -> str:
        """The action as a sentence."""
        return f"{self.action[:1].upper()}{self.action[1:]}."


def find_slow_case(instruction: Instruction, roots: Collection[Instruction]) -> SlowCase | None:
    """Return the slow case that an instruction is; None where none is known. `roots`: instructions
    whose results the program's computations return.
    """
    for part in instruction.parts:
        if part.opcode == "fft":
            return _fft_case(part)
        if is_sort(part):
            return _sort_case(part, roots)
        if product_flops(part) and has_spatial_dimensions(part):
            return _convolution_case(part)
    return None


def _convolution_case(convolution: Instruction) -> SlowCase | None:
    groups, is_depthwise = convolution_groups(convolution)
    if groups == 1:
        return None
    kind = "a depthwise convolution" if is_depthwise else "a grouped convolution"
    reason = f"{kind} ({groups:,} groups)"
    if is_depthwise:
        return SlowCase(
            "depthwise",
            reason,
            "write the convolution as shifted multiply-adds: the sum over the kernel's positions of the shifted input times its weights",
        )
    return SlowCase("groups", reason, "multiply the groups as one batched product, or use fewer groups")


def _fft_case(fft: Instruction) -> SlowCase | None:
    slow = [n for n in fft.fft_lengths if n < _LONGEST and not _is_smooth(n)]
    if not slow:
        return None
    padded = ", ".join(f"{next_smooth(n):,}" for n in slow)
    what = (
        f"{slow[0]:,} numbers, {'a prime' if is_prime(slow[0]) else f'which has the prime factor {largest_factor(slow[0]):,}'}"
    )
    return SlowCase("fft_length", f"an FFT of {what}", f"pad the FFT to {padded}, whose factors have fast kernels")


def _sort_case(sort: Instruction, roots: Collection[Instruction]) -> SlowCase | None:
    """Return the case of a sort of which only a small part is used."""
    count = sort.operands[0].shapes[0].element_count if sort.operands and sort.operands[0].shapes else 0
    used = _used_elements(sort, roots)
    if not 0 < used <= _SMALL_PART * count:
        return None
    names = " ".join(i.framework_op for i in (sort, *sort.operands))
    if _SHUFFLES.search(names):
        return SlowCase(
            "permutation",
            f"a random order of {count:,} elements, of which {used:,} are used",
            "draw with replacement (jax.random.randint), or permute once an epoch",
            does_less=True,
        )
    return SlowCase(
        "partial_sort",
        f"a sort of {count:,} elements, of which {used:,} are used",
        "take the largest (jax.lax.top_k)",
        does_less=True,
    )


def _used_elements(sort: Instruction, roots: Collection[Instruction]) -> int:
    """Return how many elements of a sorted array are read in the end, through further sorts; 0
    where that is not known: where the array is a result, or a loop or branch takes it.
    """
    layer, seen, parts = [sort], {sort}, set[tuple[object, int]]()
    for _ in range(_FAR):
        further: list[Instruction] = []
        for instruction, user in ((i, user) for i in layer for user in i.users if user not in seen):
            if user.opcode in _PASSING or is_sort(user):
                seen.add(user)
                further.append(user)
            elif user.opcode in _UNFOLLOWED:
                return 0
            else:
                parts |= parts_read(instruction, user)
        if any(instruction in roots for instruction in layer):
            return 0
        layer = further
    return sum(count for _, count in parts)


def is_prime(number: int) -> bool:
    """Whether a number above 1 has no factor but itself."""
    return number > 1 and largest_factor(number) == number


def largest_factor(number: int) -> int:
    """Return the largest prime factor of a number; 1 for 1."""
    largest, factor = 1, 2
    while factor * factor <= number and factor * factor < _LONGEST:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)


def _is_smooth(number: int) -> bool:
    return largest_factor(number) <= _PRIMES[-1]


def next_smooth(number: int) -> int:
    """Return the smallest number not below another whose prime factors are 2, 3, 5 and 7; a power
    of two where one is at most a tenth larger.
    """
    power = 1 << max(number - 1, 0).bit_length()
    if power <= 1.1 * number:
        return power
    odd = [n for a in range(26) for b in range(18) for c in range(15) if (n := 3**a * 5**b * 7**c) < power]
    return min(int(n << max(-(-number // n) - 1, 0).bit_length()) for n in odd)
