# SPDX-License-Identifier: Apache-2.0
"""What Outpace tells of an instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.timeline.hlo.cost import CONTROL_OPCODES, UNKNOWN_COST, Cost

if TYPE_CHECKING:
    from outpace.timeline.hlo.slow_cases import SlowCase

AMD_LIBRARIES = {
    "cuBLAS": "hipBLASLt",
    "cuDNN": "MIOpen",
    "CUB": "hipCUB",
    "cuFFT": "hipFFT",
    "cuSOLVER": "hipSOLVER",
    "NCCL": "RCCL",
}
"""AMD's libraries for the calls of NVIDIA's; XLA gives both the same targets."""


@dataclass(frozen=True)
class HloOp:
    """One instruction of a program.

    opcode: `fusion`, `dot`; "" where unknown.
    framework_op: `jit(step)/dot_general`; "" where unknown.
    source: `train.py:12`, the innermost line that is not a library's where the program has stack
        frames; "" where unknown. An op that the compiler added has the line of the op that uses its
        result.
    function: name of the function that holds that line; "" where unknown.
    precision_bits: 16, 32 or 64, the precision of its computation; 0 where unknown.
    cost: operations and bytes of one execution, by its shapes. Loops and conditionals cost
        nothing themselves: what they run has ops of its own.
    library: library that a custom call calls (`cuBLAS`); "" for other ops.
    operation: what the library computes (`matrix product`).
    description: what it computes, in a few words (`depthwise, 1,024 groups, kernel 4`); "" where
        its opcode says it all.
    slow_case: the known slow case that it is; None for none.
    alternative: what it is, and another way to compute it where it is far above its roof; None for
        none.
    transfer: for the end of an asynchronous op, what it waits for (`host_to_device`,
        `device_to_host`, `device_to_device`, `collective`); "" for other ops.
    copied_bytes: bytes that the transfer copies.
    backend_config: the compiler's configuration of a library call.
    is_in_loop: whether it is part of the body of a loop.
    is_complex: whether its products are of complex numbers, each of which takes four multiply-adds.
    is_aligned: whether all sizes of its matrix products are multiples of 8.
    is_attention: whether it is a part of an attention, recognised by its structure (a softmax
        between two batches of matrix products).
    is_highest_precision: whether its products are requested at `Precision.HIGHEST`.
    is_one_hot: whether it multiplies by a one-hot matrix, or creates one for a product.
    is_repeat: whether it computes a part of the forward pass once more (`jax.checkpoint`).
    is_hoistable: whether a loop computes it in each iteration though once would do: what it takes
        stays the same, or one factor does and the products are only added up.
    needed_share: share of its work that anything needs: the rest computes parts of its result that
        nothing reads, or multiplies by an array's zeros.
    needed_at: source line of what takes the part that is needed; "" where all of it is, or unknown.
    filled_share: for an op that updates all rows of an array, share of the rows whose gradient can
        be other than 0, where these are few; 1 for other ops.
    is_joinable: whether it multiplies an array that another product takes in the same way: one
        product could take both other factors, beside each other.
    undonated_argument: for a copy, the argument of the program (`state[0]`) that is copied because
        the program updates and returns it while the caller did not donate it; `source` is then the
        line of the update.
    product: kind of its product (`dot`, `convolution`, `attention`); "" where it has none.
    """

    opcode: str
    framework_op: str = ""
    source: str = ""
    function: str = ""
    precision_bits: int = 0
    cost: Cost = UNKNOWN_COST
    library: str = ""
    operation: str = ""
    description: str = ""
    slow_case: SlowCase | None = None
    alternative: SlowCase | None = None
    transfer: str = ""
    copied_bytes: float = 0.0
    backend_config: str = ""
    is_in_loop: bool = False
    is_complex: bool = False
    is_aligned: bool = False
    is_attention: bool = False
    is_highest_precision: bool = False
    is_one_hot: bool = False
    is_repeat: bool = False
    is_hoistable: bool = False
    needed_share: float = 1.0
    needed_at: str = ""
    filled_share: float = 1.0
    is_joinable: bool = False
    undonated_argument: str = ""
    product: str = ""

    @property
    def is_control(self) -> bool:
        """Whether it only runs other instructions: a loop, a branch, a call."""
        return self.opcode in CONTROL_OPCODES

    @property
    def has_known_end(self) -> bool:
        """Whether the marks of XLA's threads tell when it ended. Those of a loop's ops may be
        written after later iterations, and what a control op runs has events of its own.
        """
        return not (self.is_control or self.is_in_loop)

    @property
    def has_product(self) -> bool:
        """Whether it multiplies matrices or convolves."""
        return self.cost.product_flops > 0


NO_OP = HloOp("")
