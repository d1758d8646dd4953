# SPDX-License-Identifier: Apache-2.0
"""Other ways to compute what takes far longer than its operations and bytes need, by the kind of
its large parts: those with a tenth of the elements of its largest array, and where it multiplies
matrices the product alone.

`slow_cases` has what libraries are known to be slow at, by sizes. What stands here is what
compilers make slow code of in general: on processors XLA runs scatters, sorts and windows element
by element on one thread, calls LAPACK for one small matrix after the other, has fast code for
products of floats of 32 and 64 bits alone, and adds up the last dimension of an array one number at
a time, since the order of additions must not change (measured on an AMD EPYC with jaxlib 0.10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from outpace.timeline.hlo.cost.arithmetic import DOTS
from outpace.timeline.hlo.cost.convolutions import convolution_output_sizes
from outpace.timeline.hlo.cost.library_calls import find_library_call, is_sort
from outpace.timeline.hlo.graph import SILENT_OPCODES, Instruction, WindowDimension
from outpace.timeline.hlo.products import has_spatial_dimensions, product_flops
from outpace.timeline.hlo.slow_cases import SlowCase

_FLOATS = (11, 12, 15, 18)  # F32, F64, C64, C128: types whose products libraries for processors have fast code for
_INTEGERS = (2, 3, 4, 5, 6, 7, 8, 9)  # S8 to U64
_SMALL_PRODUCT = 2 * 32**3  # operations of a product up to which calling it costs as much as computing it
_MANY = 64  # minimum number of such products or matrices at once
_LARGE = 0.1  # minimum elements of a part, as a share of those of the instruction's largest array
_LONG = 16  # minimum number of positions of a window for sums to be worth sharing between windows
_ORDER = "order"  # name of the case of a copy that a matrix product may need
_MOST_VIEWS = 3  # views between a copy and the product that it is made for
_LHS_BATCH = 3  # field of DotDimensionNumbers
_REORDERS = {"transpose": "another order of dimensions", "copy": "a copy into another layout"}  # opcodes, in words
_HARD = ("power", "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "sine", "cosine")
_SCALAR_FUNCTIONS = (
    "power",
    "cbrt",
    "remainder",
    "atan2",
    "tan",
    "sine",
    "cosine",
)  # called for one number at a time on processors
_HARD_FUNCTIONS = frozenset((*_HARD, *_SCALAR_FUNCTIONS, "erf"))
_DECOMPOSITIONS = ("cholesky", "triangular-solve")
_GENERAL = "getrf"  # part of LAPACK's and cuSOLVER's names of the factorisation of matrices of any kind (LU)
_MANY_NUMBERS = 10_000  # minimum number of elements for an op to be slow by its elements


def find_alternative(instruction: Instruction, *, is_in_loop: bool = False) -> SlowCase | None:
    """Return what the large parts of an instruction do, with another way to do it; None where no
    other way is known. `is_in_loop`: whether it is part of a loop's body.
    """
    if is_in_loop and instruction.opcode == "copy" and _elements(instruction) >= _MANY_NUMBERS:
        return SlowCase(
            "carried_copy",
            f"a copy of {instruction.shapes[0]} in each iteration of a loop",
            "carry only what the next iteration needs, and return the rest as the loop's outputs (the second result of "
            "a scan's body): an array that the body reads and writes, or whose gradient it adds up, is copied whole",
            does_less=True,
        )
    parts = [part for part in instruction.parts if _elements(part) >= _LARGE * _elements(instruction)]
    if any(map(product_flops, instruction.parts)):
        parts = [part for part in instruction.parts if product_flops(part)]
    case = next((case for rule in _RULES if (case := rule(parts)) is not None), None)
    if case is not None and case.name == _ORDER and _is_of_product(instruction):
        return None  # the compiler copies it, however the product is written
    return case


def _is_of_product(instruction: Instruction) -> bool:
    """Whether a matrix product takes the result of an instruction, or has made what it takes."""
    return _leads_to_product(instruction.users, lambda each: each.users) or _leads_to_product(
        instruction.operands, lambda each: each.operands
    )


def _leads_to_product(layer: Sequence[Instruction], neighbours: Callable[[Instruction], Sequence[Instruction]]) -> bool:
    """Whether a matrix product is among instructions, or behind those of them that execute nothing.
    `neighbours` returns operands, or users: one way alone, since what shares an argument or a tuple
    has nothing else in common.
    """
    for _ in range(_MOST_VIEWS + 1):
        if any(part.opcode in DOTS for each in layer for part in each.parts):
            return True
        layer = [other for each in layer if each.opcode in SILENT_OPCODES for other in neighbours(each)]
    return False


def _first(parts: Iterable[Instruction], *opcodes: str) -> Instruction | None:
    """Return the part with one of these opcodes that has most elements; None without any."""
    found = (part for part in parts if part.opcode in opcodes and part.shapes)
    return max(found, key=_elements, default=None)


def _elements(part: Instruction) -> int:
    return max((shape.element_count for shape in (*part.operand_shapes, *part.shapes)), default=0)


def _sort(parts: list[Instruction]) -> SlowCase | None:
    part = max(filter(is_sort, parts), key=_elements, default=None)
    if part is None:
        return None
    return SlowCase(
        "sort",
        f"a sort of {_elements(part):,} numbers",
        "sort fewer numbers or less often, take the largest (jax.lax.top_k), or find a quantile by counting (a histogram, a bisection)",
        does_less=True,
        part=part.name,
    )


def _linear_algebra(parts: list[Instruction]) -> SlowCase | None:
    found = (part for part in parts if part.opcode in _DECOMPOSITIONS or _is_solver(part))
    call = max(found, key=_elements, default=None)
    if call is None or not call.operand_shapes:
        return None
    matrix = call.operand_shapes[0]
    count = math.prod(matrix.dimensions[:-2])
    sizes = " x ".join(f"{n:,}" for n in matrix.dimensions[-2:])
    what = (
        f"linear algebra of {count:,} matrices of {sizes}, one after the other" if count > 1 else f"linear algebra of {sizes}"
    )
    small = "write such small matrices out (closed forms, element-wise over the batch)"
    large = "use products of matrices (a few iterations of Newton-Schulz, conjugate gradients)"
    if _GENERAL in call.custom_call_target:
        large = (
            "factor the matrix once by Cholesky, where it is symmetric positive definite, as a covariance is (jax.scipy.linalg.cho_factor, "
            "cho_solve; the determinant is on the diagonal)"
        )
    way = small if math.prod(matrix.dimensions[-2:]) <= _MANY else large
    action = f"{way}, or do it every few steps"
    return SlowCase("linear_algebra", what, action, is_of_processors=True, does_less=True)


def _is_solver(part: Instruction) -> bool:
    call = find_library_call(part)
    return call is not None and call.library == "cuSOLVER"


def _convolution(parts: list[Instruction]) -> SlowCase | None:
    part = max(parts, key=product_flops)
    if not product_flops(part) or not has_spatial_dimensions(part):
        return None
    if not _is_spread(part):
        return None  # what else makes convolutions slow is known by their sizes
    kernel = " x ".join(str(dimension.size) for dimension in part.window)
    return SlowCase(
        "convolution",
        f"a convolution with a kernel of {kernel} over arrays that are spread out (dilated, transposed, or the gradient of one with strides)",
        "take the window apart (shifted slices of the input, beside each other in one array, times the kernel as a matrix), or compare another "
        "order of dimensions (channels last)",
    )


def _is_spread(part: Instruction) -> bool:
    """Whether a convolution is over an array that is spread out and can be taken apart into one
    product: a dilated one, or one whose places of the kernel do not overlap (transposed, or a
    gradient of one with strides). Of those that overlap a part is computed more often than once:
    three times slower, measured.
    """
    sizes = convolution_output_sizes(part)
    return any(_is_spread_along(window, size) for window, size in zip(part.window, sizes, strict=False))


def _is_spread_along(window: WindowDimension, output_size: int) -> bool:
    """Whether that holds for a dimension. A window longer than its output is the gradient of a
    kernel: what arrives from the next layer slides over the input.
    """
    if window.base_dilation > 1:
        return window.size <= window.base_dilation
    return window.dilation > 1 and (window.size <= output_size or output_size <= window.dilation)


def _product(parts: list[Instruction]) -> SlowCase | None:
    part = max(parts, key=product_flops)
    flops = product_flops(part)
    if not flops or not part.operand_shapes or not part.shapes:
        return None
    left = part.operand_shapes[0]
    if left.element_type not in _FLOATS:
        kind = str(left).partition("[")[0]
        return SlowCase(
            "product_type",
            f"a product of {kind}, for which processors have no fast code",
            "compute in float32, and convert the result",
            is_of_processors=True,
        )
    batch = part.dot_dimension_numbers.numbers(_LHS_BATCH) if part.opcode in DOTS else []
    count = math.prod(left.dimensions[d] for d in batch if 0 <= d < len(left.dimensions))
    if count >= _MANY and flops / count <= _SMALL_PRODUCT:
        return SlowCase(
            "small_products",
            f"{count:,} matrix products of {flops / count:,.0f} operations each",
            "join such products into fewer, larger ones (fold the batch into rows, another order in einsum), or write each as a sum "
            "of element-wise products over the batch",
        )
    return None


def _window(parts: list[Instruction]) -> SlowCase | None:
    gradient = _first(parts, "select-and-scatter")
    if gradient is not None:
        return SlowCase(
            "window_gradient",
            "the gradient of a maximum over windows, element by element",
            "pool by reshape and maximum, where windows do not overlap: its gradient is a comparison",
            does_less=True,
        )
    part = _first(parts, "reduce-window")
    if part is None:
        return None
    positions = math.prod(d.size for d in part.window)
    what = f"windows of {positions:,} numbers at {part.shapes[0].element_count:,} places"
    return SlowCase("window", what, _window_action(part, positions), does_less=True)


def _window_action(part: Instruction, positions: int) -> str:
    """Return another way to reduce windows of so many positions."""
    is_sum = _reducer(part) == "add"
    sizes = part.operand_shapes[0].dimensions if part.operand_shapes else []
    if any(
        d.size > 1 and d.size == size and d.size - 1 in (d.low, d.high) for d, size in zip(part.window, sizes, strict=False)
    ):
        return (
            "cumulate in blocks: rows of a reshaped array, and then the results of the rows before; a short sum also as a product with a "
            "triangular matrix"
        )
    if all(d.stride == d.size for d in part.window):
        return "reshape, so that each window is a dimension of its own, and reduce that"
    if sum(d.size > 1 for d in part.window) > 1:
        return "reduce one dimension after the other" + " (for sums also differences of jnp.cumsum)" * is_sum
    if positions >= _LONG:
        return (
            "take differences of a cumulative sum (jnp.cumsum)"
            if is_sum
            else "double the window in steps: results of results, shifted"
        )
    return f"{'add' if is_sum else 'reduce'} shifted slices of the array instead"


def _reducer(part: Instruction) -> str:
    """Return the opcode that an instruction reduces with; "" where it is not known."""
    root = part.called[0].root if part.called else None
    return root.opcode if root is not None else ""


def _scatter(parts: list[Instruction]) -> SlowCase | None:
    part = _first(parts, "scatter")
    if part is None or not part.operand_shapes:
        return None
    updates = part.operand_shapes[-1]
    return SlowCase(
        "scatter",
        f"a scatter that writes {updates.element_count:,} numbers one after the other",
        "use a gather, a reshape or a pad where the places are known before; else a product with a one-hot matrix where there are "
        "few places, or sorted indices (indices_are_sorted=True), or wider rows",
        is_of_processors=True,
    )


def _random(parts: list[Instruction]) -> SlowCase | None:
    shifts = sum(part.opcode in ("shift-left", "shift-right-logical", "xor") for part in parts)
    generators = _first(parts, "rng-bit-generator")
    if generators is None and shifts < 20:  # a round of threefry has four of them, and there are twenty rounds
        return None
    return SlowCase(
        "random",
        "drawing random numbers",
        "draw fewer (bits instead of floats for a mask, one draw for several uses, smaller shapes), draw them once for several steps, or "
        "compare a cheaper generator (jax_default_prng_impl='rbg')",
        does_less=True,
    )


def _gather(parts: list[Instruction]) -> SlowCase | None:
    part = _first(parts, "gather")
    if part is None or part.shapes[0].element_count < _MANY_NUMBERS:
        return None
    indices = part.operand_shapes[1].element_count if len(part.operand_shapes) > 1 else 0
    if part.shapes[0].element_count >= _LONG * max(indices, 1):
        return None  # whole rows
    return SlowCase(
        "gather",
        f"a gather that picks {part.shapes[0].element_count:,} numbers by index",
        "pick whole rows (indices along the first dimension only), slices or a roll where the places are known before, or a product with a "
        "one-hot matrix where there are few",
    )


def _hard_function(parts: list[Instruction]) -> SlowCase | None:
    hard = [part for part in parts if part.opcode in _HARD_FUNCTIONS and part.shapes and part.shapes[0].element_type in _FLOATS]
    most = _first(hard, *_HARD_FUNCTIONS)
    if most is None or most.shapes[0].element_count < _MANY_NUMBERS:
        return None
    scalar = [part for part in hard if part.opcode in _SCALAR_FUNCTIONS]
    names = " and ".join(list(dict.fromkeys(part.opcode for part in scalar or hard))[:3])
    return SlowCase(
        "hard_function",
        f"{names} of {most.shapes[0].element_count:,} numbers",
        "compute fewer of them (once what repeats along a dimension or from step to step), or others: powers of whole numbers as products, "
        "roots by exp(log(x) / n), remainders by floor, differences of logarithms instead of logarithms of quotients",
        does_less=True,
        part=(scalar or [most])[0].name,
    )


def _division(parts: list[Instruction]) -> SlowCase | None:
    part = _first(parts, "remainder", "divide")
    if part is None or part.shapes[0].element_type not in _INTEGERS or part.shapes[0].element_count < _MANY_NUMBERS:
        return None
    return SlowCase(
        "integer_division",
        f"divisions of {part.shapes[0].element_count:,} whole numbers",
        "divide once per row or column, not per element, or use powers of two (shifts and masks)",
        does_less=True,
    )


def _last_dimension(parts: list[Instruction]) -> SlowCase | None:
    part = _first(parts, "reduce")
    if part is None or not part.operand_shapes or part.operand_shapes[0].element_count < _MANY_NUMBERS:
        return None
    source = part.operand_shapes[0]
    if len(part.shapes) > 1:
        return SlowCase(
            "argument",
            f"a reduction of {source} with its indices (argmin, argmax), one number at a time",
            "reduce the values alone first, and then take the first index that has the result (where the array equals it, the smallest of a "
            "range)",
            is_of_processors=True,
            part=part.name,
        )
    fastest = source.minor_to_major[0] if source.minor_to_major else len(source.dimensions) - 1
    if fastest not in part.dimensions or len(part.dimensions) == len(source.dimensions):
        return None
    ones = "sum by a product with ones, as a vector, or " * (_reducer(part) == "add")
    return SlowCase(
        "last_dimension",
        f"a reduction of {source} along the dimension that lies together in memory, one number at a time",
        f"{ones}order the dimensions, so that the reduced one is not the last",
        is_of_processors=True,
    )


def _layout(parts: list[Instruction]) -> SlowCase | None:
    root = parts[-1]
    if root.opcode == "broadcast" and root.shapes and root.shapes[0].element_count >= _MANY_NUMBERS:
        return SlowCase(
            "layout",
            f"copies of one array, written out as {root.shapes[0]} (broadcast)",
            "let the op that uses it broadcast, or group what shares a copy (a dimension for the group), so that no copy per example is made",
            does_less=True,
            part=root.name,
        )
    part = _first(parts, "transpose", "copy", "reverse", "concatenate", "pad", "dynamic-update-slice")
    if part is None or part.shapes[0].element_count < _MANY_NUMBERS:
        return None
    source = part.operands[0].shapes[0] if part.operands and part.operands[0].shapes else part.shapes[0]
    if part.opcode == "copy" and source.minor_to_major == part.shapes[0].minor_to_major:
        return SlowCase(
            "copy",
            f"a copy of {part.shapes[0]}, which keeps its layout",
            "update the array in place: donate the argument (donate_argnums), and take what is needed of the old values before the update",
            does_less=True,
        )
    what = _REORDERS.get(part.opcode, f"a {part.opcode}")
    return SlowCase(
        _ORDER if part.opcode in _REORDERS else "layout",
        f"{what} of {part.shapes[0]}",
        "keep one order of dimensions (einsum takes any) from layer to layer, so that nothing is copied",
        does_less=True,
    )


_RULES: tuple[Callable[[list[Instruction]], SlowCase | None], ...] = (
    _sort,
    _linear_algebra,
    _convolution,
    _product,
    _window,
    _scatter,
    _random,
    _gather,
    _hard_function,
    _division,
    _last_dimension,
    _layout,
)
