"""XLA programs in a profile: for every HLO op its opcode, framework op and source line, and what it
computes.

TensorFlow and JAX store each program as an `HloProto` on the plane `/host:metadata`. A program is
decoded when one of its ops is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model.arrays import Codes, Indices
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.event_names import normalize_function_name, parse_jitted_function
from outpace.timeline.hlo_analysis import (
    LAYOUT_OPCODES,
    PRODUCT_OPCODES,
    byte_size,
    bytes_accessed,
    flops,
    has_product,
    is_aligned,
    is_batched_product,
    is_highest_precision,
    is_in_place_update,
    is_one_hot,
    is_softmax,
    precision_bits,
    product_kind,
    transfer_kind,
)
from outpace.timeline.hlo_proto import (
    Instruction,
    Shape,
    as_bytes,
    as_int,
    as_text,
    iter_intact_fields,
    iter_messages,
    iter_shapes,
    read_packed,
)
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import distinct, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

_NO_CELLS: Mapping[str, str] = {}
_MODULE = 1  # HloProto
_COMPUTATIONS, _SHAPE, _ENTRY, _SCHEDULE, _ALIASES, _ASSIGNED, _FRAMES = 3, 4, 6, 7, 8, 15, 17  # HloModuleProto
_REPLICAS, _PARTITIONS = 1, 2  # DeviceAssignmentProto
_SEQUENCES, _SEQUENCE, _NUMBERS = 1, 2, 1  # HloScheduleProto: a map of computations to sequences of instructions
_INSTRUCTIONS, _COMPUTATION_ID = 2, 5  # HloComputationProto
_FILES, _FUNCTIONS, _LOCATIONS, _STACK = 1, 2, 3, 4  # StackFrameIndex
_LIBRARY = compile_lazily(r"/(?:site|dist)-packages/|/lib/python\d|^<")  # paths of code that is not the program's own
_SILENT = frozenset(  # opcodes that execute nothing
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id", "opt-barrier")
)
_RESULT = 2  # ProgramShapeProto
_ALIAS, _ALIASED = 1, 2  # HloInputOutputAliasProto, and the number of a parameter in one of its entries
_COPIES = frozenset(("copy", "copy-start", "copy-done"))
_HASHES = 2**32  # value from which ids of programs are hashes, not counts
_FAR = 4  # maximum distance that is searched from an instruction to those that use its result
_WIDE = 100  # maximum number of instructions per distance: what more instructions use is specific to none of them
_DEEPEST = 200  # maximum number of stack frames that are searched for one op


@dataclass(frozen=True)
class HloOp:
    """One instruction of a program.

    opcode: `fusion`, `dot`; "" where unknown.
    framework_op: `jit(step)/dot_general`; "" where unknown.
    source: `train.py:12`, the innermost line that is not a library's where the program has stack
        frames; "" where unknown. An op that the compiler added has the line of the op that uses its
        result.
    precision_bits: 16, 32 or 64, the precision of its computation; 0 where unknown.
    flops, bytes: of one execution, computed from its shapes; -1 where unknown.
    transfer: for the end of an asynchronous op, what it waits for (`host_to_device`,
        `device_to_host`, `device_to_device`, `collective`); "" for other ops.
    copied_bytes: bytes that the transfer copies.
    backend_config: the compiler's configuration of a library call.
    is_aligned: whether all sizes of its matrix products are multiples of 8.
    is_attention: whether it is a part of an attention, recognised by its structure (a softmax
        between two batches of matrix products).
    is_highest_precision: whether its products are requested at `Precision.HIGHEST`.
    is_one_hot: whether it multiplies by a one-hot matrix, or creates one for a product.
    undonated_argument: for a copy, the argument of the program (`state[0]`) that is copied because
        the program updates and returns it while the caller did not donate it; `source` is then the
        line of the update.
    product: kind of its product (`dot`, `convolution`, `attention`); "" where it has none.
    """

    opcode: str
    framework_op: str = ""
    source: str = ""
    precision_bits: int = 0
    flops: float = -1.0
    bytes: float = -1.0
    transfer: str = ""
    copied_bytes: float = 0.0
    backend_config: str = ""
    is_aligned: bool = False
    is_attention: bool = False
    is_highest_precision: bool = False
    is_one_hot: bool = False
    undonated_argument: str = ""
    product: str = ""


NO_OP = HloOp("")
RESULT_PREFIXES = ("its result", "result ")
"""Prefixes of the names of a signature's results."""
OP_LINE = "XLA Ops"


class HloModule:
    """Ops of one program by name; for a damaged program, the ops that could be decoded."""

    def __init__(self, proto: bytes, cell_names: Mapping[str, str] = _NO_CELLS) -> None:
        self._proto = proto
        self._cells = cell_names
        self._made: dict[str, HloOp] = {}
        self._given: dict[int, list[Instruction]] = {}
        self._within: dict[int, list[Instruction]] = {}
        self._form_of: dict[int, Instruction | None] = {}
        self._batches: dict[int, bool] = {}

    @once
    def _module(self) -> bytes:
        return next(iter_messages(self._proto, _MODULE), b"")

    @once
    def _computations(self) -> dict[int, list[Instruction]]:
        found = {}
        for computation in iter_messages(self._module, _COMPUTATIONS):
            instructions = [Instruction(i) for i in iter_messages(computation, _INSTRUCTIONS)]
            found[as_int(dict(iter_intact_fields(computation)).get(_COMPUTATION_ID))] = instructions
        return found

    @once
    def _by_name(self) -> dict[str, Instruction]:
        return {i.name: i for instructions in self._computations.values() for i in instructions}

    @once
    def _by_number(self) -> dict[int, Instruction]:
        return {i.id: i for instructions in self._computations.values() for i in instructions}

    @once
    def has_products(self) -> bool:
        """Whether the program multiplies matrices or convolves."""
        return any(self[i.name].flops > 0 for i in self._by_number.values() if i.opcode in PRODUCT_OPCODES)

    @property
    def device_count(self) -> int:
        """Number of devices of all hosts that run the program; 0 where it is unknown."""
        assigned = dict(iter_intact_fields(next(iter_messages(self._module, _ASSIGNED), b"")))
        return max(as_int(assigned.get(_REPLICAS)), 0) * max(as_int(assigned.get(_PARTITIONS)), 0)

    @once
    def schedules(self) -> list[list[str]]:
        """Names of the instructions that execute something, in order of execution, one list per
        scheduled computation.
        """
        found = []
        for entry in (e for message in iter_messages(self._module, _SCHEDULE) for e in iter_messages(message, _SEQUENCES)):
            numbers = read_packed(
                as_bytes(dict(iter_intact_fields(as_bytes(dict(iter_intact_fields(entry)).get(_SEQUENCE)))).get(_NUMBERS))
            )
            known = (self._by_number[n] for n in numbers if n in self._by_number)
            found.append([i.name for i in known if i.opcode not in _SILENT])
        return [names for names in found if names]

    @once
    def _frames(self) -> _Frames:
        return _Frames(next(iter_messages(self._module, _FRAMES), b""), self._cells)

    @once
    def signature(self) -> dict[str, str]:
        """Shapes of the arrays that the program takes, by name of the argument (`params['w']`), and
        of those that it returns: `f32[64,264]`.
        """
        takes = sorted((i for i in self._entry if i.opcode == "parameter"), key=lambda i: i.parameter_number)
        named = {i.framework_op or i.name: ", ".join(map(str, i.shapes)) for i in takes}
        several = len(self._results) > 1
        return named | {f"result {n}" if several else "its result": str(shape) for n, shape in enumerate(self._results)}

    @property
    def computations(self) -> tuple[bytes, ...]:
        """All computations of the program as bytes; equal for a program that was compiled twice."""
        return tuple(iter_messages(self._module, _COMPUTATIONS))

    def find_source_line(self, function: str) -> str:
        """Return `file:line` of the first line of a Python function that an op comes from; "" where
        there is none.
        """
        return self._frames.first_line(function)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> HloOp:
        """Return the op called `name`; `NO_OP` where the program has none."""
        known = self._made.get(name)
        if known is None:
            instruction = self._by_name.get(name)
            known = self._made[name] = NO_OP if instruction is None else self._op(instruction)
        return known

    def _op(self, instruction: Instruction) -> HloOp:
        told = self._teller(instruction)
        how = (instruction, self._inside, self._operands)
        argument, updater = self._undonated.get(instruction.id, ("", told))
        place = self._place(updater) or next(filter(None, map(self._place, self._takers(instruction))), "")
        waits = transfer_kind(*how)
        moved = byte_size(instruction.shapes[:1]) if waits else 0.0
        config = instruction.backend_config if instruction.opcode == "custom-call" else ""
        operations = flops(*how)
        numbers = precision_bits(*how), operations, bytes_accessed(*how), waits, moved, config, is_aligned(*how)
        return HloOp(
            instruction.opcode,
            told.framework_op,
            place,
            *numbers,
            is_attention=instruction.id in self._attention,
            is_highest_precision=is_highest_precision(instruction, self._inside),
            is_one_hot=instruction.id in self._one_hot,
            undonated_argument=argument,
            product=product_kind(*how) if operations > 0 or instruction.opcode == "custom-call" else "",
        )

    def _teller(self, instruction: Instruction) -> Instruction:
        """Return the instruction with the origin of `instruction`: itself, or for a fusion without
        metadata the last fused instruction that has some.
        """
        if instruction.framework_op:
            return instruction
        return next((i for i in reversed(self._inside(instruction)) if i.framework_op), instruction)

    def _place(self, instruction: Instruction) -> str:
        file, line = instruction.source_line
        return self._frames.line(instruction.stack_frame_id) or _line(self._cells.get(file, file), line)

    def _takers(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yield the instructions that use the result of an instruction, nearest first: the compiler
        adds instructions (a copy, a broadcast) for them.
        """
        layer, seen = [instruction.id], {instruction.id}
        for _ in range(_FAR):
            takers = [t for n in layer for t in self._users.get(n, [])[:_WIDE] if t.id not in seen][:_WIDE]
            yield from takers
            layer = [t.id for t in takers]
            seen.update(layer)

    @once
    def _attention(self) -> frozenset[int]:
        """Ids of the instructions of attentions: batched products whose results a softmax uses,
        batched products that use the softmax's result, and all instructions between them.
        """
        found: set[int] = set()
        for instruction in self._by_number.values():
            if is_softmax(instruction, self._inside, self._operands):
                above, below = self._near(instruction, self._operands), self._near(instruction, self._taken)
                if above and below:
                    found |= {instruction.id, *above, *below}
        return frozenset(found)

    @once
    def _one_hot(self) -> frozenset[int]:
        """Ids of products with a one-hot operand, and of the instructions that create it."""
        found: set[int] = set()
        if not any(is_one_hot(instruction, self._inside) for instruction in self._by_number.values()):
            return frozenset()
        for each in self._by_number.values():
            if has_product(each, self._inside, self._operands):
                for chain in map(self._chain, self._operands(each)):
                    if is_one_hot(chain[-1], self._inside):
                        found |= {each.id, *(i.id for i in chain)}
        return frozenset(found)

    def _chain(self, instruction: Instruction) -> list[Instruction]:
        """Return an instruction and the instructions before it, as far back as the array was only
        changed in its layout or type.
        """
        found = [instruction]
        while len(found) <= _FAR and (before := self._handed_on(found[-1])) is not None:
            found.append(before)
        return found

    def _handed_on(self, instruction: Instruction) -> Instruction | None:
        """Return the single operand whose array the instruction passes on in another layout or
        type; None where the instruction does anything else.
        """
        if id(instruction) not in self._form_of:
            moves = {i.opcode for i in self._inside(instruction) or [instruction]} <= LAYOUT_OPCODES
            arrays = [o for o in self._operands(instruction) if o.opcode != "constant"] if moves else []
            self._form_of[id(instruction)] = arrays[0] if len(arrays) == 1 else None
        return self._form_of[id(instruction)]

    def _near(self, instruction: Instruction, beside: Callable[[Instruction], list[Instruction]]) -> set[int]:
        """Return the ids of the batched products near an instruction, and of the instructions on
        the path to them. `beside` returns its neighbours: operands, or users of its result.
        """
        layer, seen, products = [instruction], {instruction.id}, set()
        back: dict[int, set[int]] = {}
        for _ in range(_FAR):
            further: dict[int, Instruction] = {}
            for one in layer:
                for i in beside(one)[:_WIDE]:
                    back.setdefault(i.id, set()).add(one.id)
                    further[i.id] = i
            layer = [i for i in further.values() if i.id not in seen][:_WIDE]
            seen |= {i.id for i in layer}
            products |= {i.id for i in layer if self._batched(i)}
            layer = [i for i in layer if i.id not in products]
        found, left = set(products), [*products]
        while left:
            before = back[left.pop()] - found - {instruction.id}
            found |= before
            left += before
        return found

    def _batched(self, instruction: Instruction) -> bool:
        known = self._batches.get(id(instruction))
        if known is None:
            known = is_batched_product(instruction, self._inside, self._operands, self._taken(instruction))
            self._batches[id(instruction)] = known
        return known

    @once
    def _entry(self) -> list[Instruction]:
        return self._computations.get(as_int(dict(iter_intact_fields(self._module)).get(_ENTRY)), [])

    @once
    def entry_instructions(self) -> frozenset[str]:
        """Names of the instructions of the program's entry computation, each of which runs once per
        run; instructions of loops run as often as their loop.
        """
        return frozenset(i.name for i in self._entry)

    @once
    def _results(self) -> list[Shape]:
        return list(
            iter_shapes(
                as_bytes(dict(iter_intact_fields(as_bytes(dict(iter_intact_fields(self._module)).get(_SHAPE)))).get(_RESULT))
            )
        )

    @once
    def _undonated(self) -> dict[int, tuple[str, Instruction]]:
        """Copies of arguments that could have been donated: by id of the copy, the argument's name
        and the instruction that updates the copy in place.

        Not included are copies of donated arguments, whose memory an output takes over
        (`input_output_alias`), copies into another layout, and copies whose old values are used
        together with the new ones. An argument can be donated if an output of the same size exists
        that is not taken by donated arguments.
        """
        aliases = (entry for message in iter_messages(self._module, _ALIASES) for entry in iter_messages(message, _ALIAS))
        donated = {max(as_int(dict(iter_intact_fields(entry)).get(_ALIASED)), 0) for entry in aliases}
        free = Counter(s.alias_key for s in self._results)
        free.subtract(i.shapes[0].alias_key for i in self._entry if i.opcode == "parameter" and i.parameter_number in donated)
        found = {}
        for instruction in self._entry:
            source = self._argument(instruction)
            if source is None or source.parameter_number in donated or not self._only_copies(instruction):
                continue
            same = [vars(s) for s in instruction.shapes[:1]] == [vars(s) for s in source.shapes]
            updater = self._updater(instruction) if same else None
            if updater is not None and free[source.shapes[0].alias_key] > 0 and not self._outlives(source, updater):
                found[instruction.id] = (source.framework_op or source.name, self._teller(updater))
        return found

    def _outlives(self, source: Instruction, updater: Instruction) -> bool:
        """Whether an instruction near the update uses the values from before the update."""
        takers = {t.id for t in self._taken(source)}
        return any(t.id in takers for t in self._takers(updater))

    def _only_copies(self, instruction: Instruction) -> bool:
        inside = {i.opcode for i in self._inside(instruction)} if instruction.opcode == "fusion" else set()
        return instruction.opcode in _COPIES or ("copy" in inside and inside <= {*_SILENT, "copy"})

    def _argument(self, instruction: Instruction) -> Instruction | None:
        """Return the parameter that is the instruction's first operand without any change, or
        None.
        """
        for _ in range(_FAR):
            operands = self._operands(instruction)
            if not operands or operands[0].opcode == "parameter":
                return operands[0] if operands else None
            if operands[0].opcode not in (*_SILENT, "copy-start"):
                return None
            instruction = operands[0]
        return None

    def _updater(self, instruction: Instruction) -> Instruction | None:
        """Return the instruction that updates the result of an instruction in place, or None."""
        layer, (copied, *_) = [instruction], instruction.shapes
        for _ in range(_FAR):
            takers = list({t.id: t for i in layer for t in self._taken(i)}.values())
            alike = (t for t in takers if copied.alias_key in t.alias_keys)
            found = next((t for t in alike if is_in_place_update(t, self._inside)), None)
            if found is not None:
                return found
            layer = [t for t in takers if t.opcode in (*_SILENT, "copy-done")]
        return None

    def _taken(self, instruction: Instruction) -> list[Instruction]:
        return self._users.get(instruction.id, [])

    @once
    def _users(self) -> dict[int, list[Instruction]]:
        users: dict[int, list[Instruction]] = {}
        for instruction in self._by_number.values():
            for operand in instruction.operand_ids:
                users.setdefault(operand, []).append(instruction)
        return users

    def _inside(self, instruction: Instruction) -> list[Instruction]:
        known = self._within.get(id(instruction))
        if known is None:
            known = [i for number in instruction.called_computation_ids for i in self._computations.get(number, ())]
            self._within[id(instruction)] = known
        return known

    def _operands(self, instruction: Instruction) -> list[Instruction]:
        known = self._given.get(id(instruction))
        if known is None:
            known = [self._by_number[n] for n in instruction.operand_ids if n in self._by_number]
            self._given[id(instruction)] = known
        return known


class _Frames:
    """Stack frames of a program's ops (`StackFrameIndex`), in which all numbers count from 1."""

    def __init__(self, data: bytes, cells: Mapping[str, str]) -> None:
        self._files = [cells.get(file, file) for file in (as_text(f) for f in iter_messages(data, _FILES))]
        self._functions = [as_text(f) for f in iter_messages(data, _FUNCTIONS)]
        self._locations = [dict(iter_intact_fields(m)) for m in iter_messages(data, _LOCATIONS)]
        self._stack = [dict(iter_intact_fields(m)) for m in iter_messages(data, _STACK)]

    def line(self, frame: int) -> str:
        """Return `file:line` of the innermost frame of the program's own code, else of the
        innermost frame; "" where there is none.
        """
        innermost = ""
        for _ in range(_DEEPEST):
            if not 0 < frame <= len(self._stack):
                break
            place = self._place(as_int(self._stack[frame - 1].get(1)))
            if place and not _LIBRARY.search(place):
                return place
            innermost = innermost or place
            frame = as_int(self._stack[frame - 1].get(2))
        return innermost

    def first_line(self, function: str) -> str:
        """Return `file:line` of the first line of a function that an op comes from. The function is
        known by its last name: `f` also matches `main.<locals>.f`.
        """
        named = {i for i, name in enumerate(self._functions, 1) if name.rpartition(".")[2] == function}
        inside = sorted((as_int(m.get(3)), i) for i, m in enumerate(self._locations, 1) if as_int(m.get(2)) in named)
        return next((place for _, i in inside if not _LIBRARY.search(place := self._place(i))), "")

    def _place(self, location: int) -> str:
        if not 0 < location <= len(self._locations):
            return ""
        found = self._locations[location - 1]
        file = as_int(found.get(1))
        return _line(self._files[file - 1], as_int(found.get(3))) if 0 < file <= len(self._files) else ""


def _line(file: str, line: int) -> str:
    return f"{file}:{line}" if file and line > 0 else file


_EMPTY = HloModule(b"")


class HloModules:
    """All programs of a profile, by id."""

    def __init__(self, trace: Trace, cell_names: Mapping[str, str] = _NO_CELLS) -> None:
        """Decode the programs of a trace when they are used. `cell_names`: names of a notebook's
        cells (`In [3]`), by the file under which each was compiled.
        """
        self._found: dict[int, HloModule] = {}
        self._named: dict[str, list[int]] = {}
        for row, stats in trace.name_stats.items():
            if isinstance(proto := stats.get(dialect.HLO_PROTO), bytes):
                of = parse_program_id(trace.names[row])
                self._found[of] = HloModule(as_bytes(proto), cell_names)
                self._named.setdefault(normalize_function_name(parse_jitted_function(trace.names[row])), []).append(of)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[HloModule]:
        """Yield all programs."""
        return iter(self._found.values())

    def __getitem__(self, number: int) -> HloModule:
        """Return the program with an id; an empty program where the profile has none."""
        return self._found.get(number, _EMPTY)

    @property
    def device_count(self) -> int:
        """Number of devices of all hosts that run the largest program; 0 where it is unknown."""
        return max((program.device_count for program in self._found.values()), default=0)

    def find_source_line(self, function: str) -> str:
        """Return `file:line` of the first line of a function that JAX compiled; "" where no program
        has it.
        """
        return next(filter(None, (program.find_source_line(function) for program in self.modules_of(function))), "")

    def modules_of(self, function: str) -> list[HloModule]:
        """Return the programs of a function that JAX compiled, in the order of their ids."""
        return [self._found[of] for of in sorted(self._named.get(normalize_function_name(function), []))]

    def find_newest(self, function: str, count: int) -> list[HloModule]:
        """Return the last `count` programs of a function that JAX compiled, in order; all of them
        where ids are hashes (TPUs), which have no order.
        """
        counted = max(self._named.get(normalize_function_name(function), []), default=0) < _HASHES
        return self.modules_of(function)[-count:] if counted else self.modules_of(function)

    def op(self, program: int, name: str) -> HloOp:
        """Return an op of a program; `NO_OP` where the profile lacks it."""
        return self[program][name]


def load_hlo_modules(trace: Trace) -> HloModules:
    """Return the programs of a profile, uncached; `Timeline.hlo_modules` caches them."""
    return HloModules(trace)


def parse_program_id(name: str) -> int:
    """Return the id in a program's name: 8 for `jit_step(8)`; -1 for a name without an id."""
    digits = name.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdigit() else -1


def find_op_lines(trace: Trace, plane: Plane) -> list[int]:
    """Return a device's lines of XLA ops, which TPUs have. On a GPU the profiler derives that line
    from the streams, which have more detail: it is left out.
    """
    names = {i: trace.lines.names[i] for i in plane.lines}
    streams = any(name.startswith("Stream") for name in names.values())
    return [i for i, name in names.items() if name == OP_LINE and not streams]


def load_hlo_ops(timeline: Timeline, rows: Indices) -> tuple[Codes, list[HloOp]]:
    """Return (index into the ops, int64, of each event at `rows` (sorted); distinct ops), by the
    stats `hlo_op` and `program_id`.

    Op 0 is `NO_OP`, for events without these stats. Ops of equal name in two programs are distinct.
    """
    trace = timeline.trace
    index = np.zeros(len(rows), np.int64)
    names, program = compute_hlo_op_stat(timeline), trace.stat(dialect.PROGRAM_ID)
    at, place = intersect_indices(rows, names.rows)
    if len(at) == 0:
        return index, [NO_OP]
    code, texts = names.encode_texts(place)
    numbers = program.take_ints(rows[at])
    ids = distinct(numbers)
    pair = np.searchsorted(ids, numbers) * len(texts) + code
    pairs = distinct(pair)
    index[at] = 1 + np.searchsorted(pairs, pair)
    of = [(int(ids[p // len(texts)]) & (2**64 - 1), texts[p % len(texts)]) for p in pairs.tolist()]
    return index, [NO_OP, *(timeline.hlo_modules.op(number, name) for number, name in of)]
