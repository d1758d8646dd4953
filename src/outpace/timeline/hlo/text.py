# SPDX-License-Identifier: Apache-2.0
"""An instruction as a line of a program's text, in the form of XLA's own (`HloModule::ToString`):
shapes with layouts, operands, and the attributes that say what it computes.

Backend configurations, shardings, literals, and the ranges of slices and paddings are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outpace.timeline.hlo.graph import Computation, HloGraph, Instruction, WindowDimension
from outpace.timeline.hlo.shape import Shape
from outpace.timeline.hlo.wire import Message

_LISTED = ("broadcast", "reduce", "transpose", "concatenate", "reverse", "sort", "map", "all-gather", "all-to-all")
_DOT_FIELDS = (
    ("lhs_batch_dims", 3),
    ("lhs_contracting_dims", 1),
    ("rhs_batch_dims", 4),
    ("rhs_contracting_dims", 2),
)  # DotDimensionNumbers
_LABELS = (
    (("b", 7), ("f", 8), 11),
    (("i", 3), ("o", 4), 6),
    (("b", 9), ("f", 10), 12),
)  # ConvolutionDimensionNumbers: of input, kernel and output
_CALLED_AS = {"fusion": ("calls",), "while": ("body", "condition")}
_MOST_OPERANDS = 12  # maximum number of operands that are written; large tuples have hundreds


def iter_program_text(graph: HloGraph, name: str = "") -> Iterator[str]:
    """Yield the lines of a program's text, the entry computation last, as XLA writes it."""
    yield f"HloModule {name}".rstrip()
    entry = set(graph.entry[:1])
    for computation in sorted(graph.computations.values(), key=lambda each: bool(entry.intersection(each.instructions[:1]))):
        is_entry = bool(entry.intersection(computation.instructions[:1]))
        yield ""
        yield f"{'ENTRY ' * is_entry}%{computation.name} ({_parameters(computation)}) -> {_result(computation)} {{"
        for instruction in computation.instructions:
            yield f"  {'ROOT ' * (instruction is computation.root)}{instruction_text(instruction)}"
        yield "}"


def _parameters(computation: Computation) -> str:
    return ", ".join(f"{each.name}: {_shapes(each.shapes)}" for each in computation.parameters)


def _result(computation: Computation) -> str:
    return _shapes(computation.root.shapes) if computation.root is not None else "()"


def instruction_text(instruction: Instruction) -> str:
    """Return the instruction as a line of text: `%dot.1 = f32[16,8]{1,0} dot(f32[16,4]{1,0} %a,
    f32[4,8]{1,0} %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}`.
    """
    operands = [f"{_shapes(operand.shapes)} %{operand.name}" for operand in instruction.operands[:_MOST_OPERANDS]]
    further = len(instruction.operands) - len(operands)
    operands += [f"... {further} more"] * (further > 0)
    operands += [str(instruction.parameter_number)] * (instruction.opcode == "parameter")
    call = f"%{instruction.name} = {_shapes(instruction.shapes)} {instruction.opcode}({', '.join(operands)})"
    return ", ".join((call, *_iter_attributes(instruction)))


def _shapes(shapes: Sequence[Shape]) -> str:
    texts = [_shape(shape) for shape in shapes[:_MOST_OPERANDS]] + ["..."] * (len(shapes) > _MOST_OPERANDS)
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _shape(shape: Shape) -> str:
    layout = f"{{{','.join(map(str, shape.minor_to_major))}}}" if shape.minor_to_major else ""
    return f"{shape}{layout}"


def _iter_attributes(instruction: Instruction) -> Iterator[str]:
    """Yield the attributes of an instruction, in XLA's order."""
    if instruction.opcode in _LISTED:
        yield f"dimensions={_numbers(instruction.dimensions)}"
    if instruction.opcode == "iota":
        yield f"iota_dimension={instruction.dimensions[0] if instruction.dimensions else 0}"
    yield from _iter_convolution(instruction)
    for name, field in _DOT_FIELDS:
        if numbers := instruction.dot_dimension_numbers.numbers(field):
            yield f"{name}={_numbers(numbers)}"
    if instruction.opcode == "fft":
        yield f"fft_type={instruction.fft_kind}"
        yield f"fft_length={_numbers(instruction.fft_lengths)}"
    if instruction.opcode == "get-tuple-element":
        yield f"index={instruction.tuple_index}"
    for name, text in (
        ("direction=", instruction.comparison_direction),
        ("custom_call_target=", f'"{instruction.custom_call_target}"' * bool(instruction.custom_call_target)),
    ):
        if text:
            yield f"{name}{text}"
    yield from _iter_called(instruction)
    if instruction.framework_op:
        yield f'metadata={{op_name="{instruction.framework_op}"}}'


def _iter_convolution(instruction: Instruction) -> Iterator[str]:
    """Yield the window of an instruction that has one, and what a convolution's dimensions are."""
    if instruction.window:
        yield f"window={{{_window(instruction.window)}}}"
    labels = _dimension_labels(instruction.convolution_dimension_numbers)
    if labels:
        yield f"dim_labels={labels}"
    for name, count in zip(("feature_group_count", "batch_group_count"), instruction.group_counts, strict=True):
        if count > 1:
            yield f"{name}={count}"


def _iter_called(instruction: Instruction) -> Iterator[str]:
    """Yield the computations that an instruction calls, by what it calls them for."""
    if instruction.opcode == "conditional":
        yield f"branch_computations={{{', '.join(f'%{computation.name}' for computation in instruction.called)}}}"
        return
    names = _CALLED_AS.get(instruction.opcode, ("to_apply",) * len(instruction.called))
    for name, computation in zip(names, instruction.called, strict=False):
        if computation.name:
            yield f"{name}=%{computation.name}"


def _numbers(numbers: Sequence[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def _window(window: Sequence[WindowDimension]) -> str:
    """Return a window in XLA's form: `size=3x3 stride=2x2 pad=1_1x1_1`; what is 1 or 0 in all
    dimensions is left out.
    """
    parts = [f"size={'x'.join(str(d.size) for d in window)}"]
    for name, values in (
        ("stride", [d.stride for d in window]),
        ("lhs_dilate", [d.base_dilation for d in window]),
        ("rhs_dilate", [d.dilation for d in window]),
    ):
        if any(value != 1 for value in values):
            parts.append(f"{name}={'x'.join(map(str, values))}")
    if any(d.low or d.high for d in window):
        parts.insert(
            1 + (len(parts) > 1 and parts[1].startswith("stride")), f"pad={'x'.join(f'{d.low}_{d.high}' for d in window)}"
        )
    return " ".join(parts)


def _dimension_labels(numbers: Message) -> str:
    """Return the roles of a convolution's dimensions: `b01f_01io->b01f`; "" for no convolution."""
    texts = []
    for (first, first_field), (second, second_field), spatial in _LABELS:
        roles = {place: str(number) for number, place in enumerate(numbers.numbers(spatial))}
        roles |= {numbers.integer(first_field, 0): first, numbers.integer(second_field, 0): second}
        texts.append("".join(roles[place] for place in sorted(roles)))
    return f"{texts[0]}_{texts[1]}->{texts[2]}" if numbers.numbers(_LABELS[0][2]) else ""
