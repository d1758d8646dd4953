# SPDX-License-Identifier: Apache-2.0
"""Source lines of instructions, by a program's stack frames (`StackFrameIndex`), in which all
numbers count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from outpace._lazy import compile_lazily
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.wire import Message, iter_parts

_FRAMES = 17  # HloModuleProto
_FILES, _FUNCTIONS, _LOCATIONS, _STACK = 1, 2, 3, 4  # StackFrameIndex
_FILE, _FUNCTION, _LINE = 1, 2, 3  # FileLocation
_LOCATION, _PARENT = 1, 2  # StackFrame
_LIBRARY = compile_lazily(r"/(?:site|dist)-packages/|/lib/python\d|^<")  # paths of code that is not the program's own
# files of Keras whose frames tell more than the user's line that calls fit
_TRAINER = compile_lazily(r"-packages/keras/(?:\w+/)?(?:backend/\w+/trainer|trainers/\w+)\.py:")
_ROLE = compile_lazily(r"-packages/keras/(?:\w+/)?(?:metrics|losses|optimizers)/")
_DEEPEST = 200  # maximum number of stack frames that are searched for one op


class SourceLines:
    """Source lines of a program, as `file:line`; "" where there is none."""

    def __init__(self, module: bytes, cell_names: Mapping[str, str]) -> None:
        """Read the stack frames of an `HloModuleProto`. `cell_names`: names of a notebook's cells,
        by the file under which each was compiled.
        """
        frames = next(iter_parts(module, _FRAMES), b"")
        self._cell_names = cell_names
        self._files, self._functions = (
            [part.decode("utf-8", "replace") for part in iter_parts(frames, f)] for f in (_FILES, _FUNCTIONS)
        )
        self._locations, self._stack = ([Message(part) for part in iter_parts(frames, f)] for f in (_LOCATIONS, _STACK))

    def find(self, instruction: Instruction) -> str:
        """Return the line of the innermost frame of the program's own code, else of the innermost
        frame, else the line that the instruction itself names.
        """
        return self.find_place(instruction)[0]

    def find_place(self, instruction: Instruction) -> tuple[str, str]:
        """Return (the line that `find` returns, name of the function that holds it); "" for a name
        that the program does not tell. For an op of Keras' own step, which a line of the program
        runs as a whole, it is the line of the metric, loss or optimizer in Keras.
        """
        innermost, role, frame = ("", ""), ("", ""), instruction.stack_frame_id
        is_step_of_keras = False
        for _ in range(_DEEPEST):
            if not 0 < frame <= len(self._stack):
                break
            location = self._stack[frame - 1].integer(_LOCATION)
            if place := self._place(location):
                if not _LIBRARY.search(place):
                    return role if role[0] and is_step_of_keras else (place, self._function(location))
                is_step_of_keras = is_step_of_keras or bool(_TRAINER.search(place))
                role = role if role[0] or not _ROLE.search(place) else (place, self._function(location))
                innermost = innermost if innermost[0] else (place, self._function(location))
            frame = self._stack[frame - 1].integer(_PARENT)
        return innermost if innermost[0] else (self._line(*instruction.source_line), "")

    def stack(self, instruction: Instruction) -> list[str]:
        """Return the frames that an instruction was traced in, innermost first: `train.py:12
        (loss)`.
        """
        frames: list[str] = []
        frame = instruction.stack_frame_id
        while 0 < frame <= len(self._stack) and len(frames) < _DEEPEST:
            location = self._stack[frame - 1].integer(_LOCATION)
            if place := self._place(location):
                function = self._function(location)
                frames.append(f"{place} ({function})" if function else place)
            frame = self._stack[frame - 1].integer(_PARENT)
        return frames

    def find_function(self, function: str) -> str:
        """Return the first line of a function that an op comes from. The function is known by its
        last name: `f` also matches `main.<locals>.f`.
        """
        named = {i for i, name in enumerate(self._functions, 1) if name.rpartition(".")[2] == function}
        inside = sorted((m.integer(_LINE), i) for i, m in enumerate(self._locations, 1) if m.integer(_FUNCTION) in named)
        return next((place for _, i in inside if not _LIBRARY.search(place := self._place(i))), "")

    def _place(self, number: int) -> str:
        if not 0 < number <= len(self._locations):
            return ""
        location = self._locations[number - 1]
        file = location.integer(_FILE)
        return self._line(self._files[file - 1], location.integer(_LINE)) if 0 < file <= len(self._files) else ""

    def _function(self, number: int) -> str:
        """Return the name of the function of a location; "" where it has none."""
        name = self._locations[number - 1].integer(_FUNCTION) if 0 < number <= len(self._locations) else 0
        return self._functions[name - 1] if 0 < name <= len(self._functions) else ""

    def _line(self, file: str, line: int) -> str:
        name = self._cell_names.get(file, file)
        return f"{name}:{line}" if name and line > 0 else name
