"""The pipeline as a row of calls, and what patches make of it. Nothing here reads source.

A rewrite says its change as patches of single calls (`optimisations/optimisation.py`), which give the row that the edited source has to hold.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from outpace.store.record import PipelineStage
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.optimisations.optimisation import Patch, Rewrite

_CALL = re.compile(r"^\.(\w+)\(")
OPTIONS = "with_options"


class Unpatchable(Exception):
    """A change that cannot be written into the source; the message is the reason, for the recipe."""


@dataclass(frozen=True)
class Call:
    """One call of the pipeline.

    key: the id of the recorded call, negative for one that no record has. op: the tf.data operation. place: the record, None for a new
    call and for a stage that nobody recorded. text: a new call as source, `.cache()`. keywords: arguments to set. moved: it stands
    elsewhere than the user wrote it. first_part_of: key of the call whose function is divided; this one takes its first part.
    divided: its own function is the second part. options: what a new with_options sets, by attribute.
    """

    key: int
    op: str | None
    place: PipelineStage | None = None
    text: str | None = None
    keywords: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False
    first_part_of: int | None = None
    divided: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def new(self) -> bool:
        """Whether a patch added it."""
        return self.text is not None or self.first_part_of is not None or bool(self.options)


@dataclass(frozen=True)
class Row:
    """The calls from the source of the pipeline to its end, and arguments to set on recorded calls beside it (inputs of a zip).

    `written` are the keys in the order of the user's source."""

    calls: tuple[Call, ...]
    beside: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    written: tuple[int, ...] = ()

    @classmethod
    def of(cls, calls: Iterable[Call]) -> Row:
        """The row as the user wrote it."""
        calls = tuple(calls)
        return cls(calls, {}, tuple(call.key for call in calls))

    def standing(self) -> tuple[Call, ...]:
        """The calls with `moved` only where the order against the calls that stay asks for it: moving behind what was inserted right
        before a call is no move."""
        order = {key: at for at, key in enumerate(self.written)}
        kept = [call for call in self.calls if not call.new and not call.moved]
        found = []
        for at, call in enumerate(self.calls):
            if call.moved and not call.new:
                before = {c.key for c in self.calls[:at]}
                fits = all((c.key in before) == (order[c.key] < order[call.key]) for c in kept)
                call = replace(call, moved=not fits)
                kept += [call] if fits else []
            found.append(call)
        return tuple(found)

    def patched(self, patches: Iterable[Patch]) -> Row:
        """The row after the patches of one rewrite, in order. Raises Unpatchable with the reason."""
        editor = _Editor(self)
        for patch in patches:
            editor.apply(patch)
        return Row(tuple(editor.calls), editor.beside, self.written)


class _Editor:
    def __init__(self, row: Row) -> None:
        self.calls = list(row.calls)
        self.beside = {key: dict(keywords) for key, keywords in row.beside.items()}
        self.last: dict[int, int] = {}  # call -> what this rewrite put behind it last

    def apply(self, patch: Patch) -> None:
        if patch.call is None:
            raise Unpatchable("the call was made where the recorder does not see it")
        if patch.keywords:
            self._set(patch.call, patch.keywords)
        if patch.options:
            self._options(patch.call, patch.options)
        elif patch.insert is not None:
            self._insert(patch.call, patch.insert, patch.divides)
        elif patch.after is not None:
            self._move(patch.call, patch.after)
        elif not patch.keywords:
            raise Unpatchable(patch.note or "the change is not one of calls and arguments")

    def _at(self, key: int) -> int:
        for at, call in enumerate(self.calls):
            if call.key == key:
                return at
        raise Unpatchable("the call does not stand in the main line of the pipeline")

    def _set(self, key: int, keywords: Mapping[str, str]) -> None:
        if any(call.key == key for call in self.calls):
            at = self._at(key)
            self.calls[at] = replace(self.calls[at], keywords={**self.calls[at].keywords, **keywords})
        else:
            self.beside[key] = {**self.beside.get(key, {}), **keywords}

    def _insert(self, key: int, text: str, divides: int | None) -> None:
        if divides is not None:
            of = self._at(divides)
            if self.calls[of].divided or self.calls[of].new:
                raise Unpatchable("the function is divided already")
            self._place(key, Call(self._fresh(), "map", keywords=self.calls[of].keywords, first_part_of=divides))
            self.calls[self._at(divides)] = replace(self.calls[self._at(divides)], divided=True)
        found = _CALL.match(text)
        if found is None:
            raise Unpatchable(f"{text} is no call")
        nodes = list(ast.walk(ast.parse(f"_{text}")))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        free = {node.id for node in nodes if isinstance(node, ast.Name)} - own - {"_", "tf"}
        if free:
            raise Unpatchable(f"the {' and '.join(sorted(free))} of {text} is yours to choose")
        self._place(key, Call(self._fresh(), found[1], text=text))

    def _move(self, key: int, behind: int) -> None:
        call = self.calls.pop(self._at(key))
        if call.place is None and not call.new:
            raise Unpatchable("the call to move was made where the recorder does not see it")
        self._place(behind, replace(call, moved=True))

    def _options(self, key: int, options: Mapping[str, str]) -> None:
        at = self._at(key)
        if self.calls[at].options:  # one object for all that patches set
            self.calls[at] = replace(self.calls[at], options={**self.calls[at].options, **options})
        else:
            self._place(key, Call(self._fresh(), OPTIONS, options=dict(options)))

    def _place(self, behind: int, call: Call) -> None:
        at = self._at(self.last.get(behind, behind))
        self.calls.insert(at + 1, call)
        self.last[behind] = call.key

    def _fresh(self) -> int:
        return min(0, *(call.key for call in self.calls)) - 1


def collapsed(ops: Sequence[str | None]) -> list[str | None]:
    """Operations of a pipeline; one call may set what several options stages in a row set."""
    return [op for at, op in enumerate(ops) if not (op == OPTIONS and at and ops[at - 1] == OPTIONS)]


def row_with(pipeline: Pipeline, rewrite: Rewrite) -> Row:
    """The row of a pipeline's calls with a rewrite. Raises Unpatchable with the reason."""
    row = row_of(pipeline)
    patches = rewrite.patch(named(pipeline, row.calls))
    if not patches:
        raise Unpatchable(rewrite.practice)
    return row.patched(patches)


def row_of(pipeline: Pipeline) -> Row:
    """The stages from the source to the end, as calls; what nobody recorded gets a negative key."""
    stages = list(reversed(pipeline.spine()))
    return Row.of(
        Call(stage.record.id if stage.record is not None else -1 - at, stage.op, stage.record)
        for at, stage in enumerate(stages)
    )


def named(pipeline: Pipeline, calls: Sequence[Call]) -> Pipeline:
    """The pipeline with every stage of its main line recorded under its call's key, so that patches speak of calls."""
    stages = list(reversed(pipeline.spine()))
    if collapsed([stage.op for stage in stages]) != collapsed([call.op for call in calls]):
        raise Unpatchable("the calls do not line up with the stages of the pipeline")
    keys: dict[int, Call] = {}
    todo = list(calls)
    for stage in stages:
        if stage.op == OPTIONS and not (todo and todo[0].op == OPTIONS):
            continue
        keys[id(stage.dataset)] = todo.pop(0)
    return Pipeline(_named(pipeline.root, keys), pipeline.dataset)


def _named(stage: Stage, keys: Mapping[int, Call]) -> Stage:
    inputs = tuple(_named(each, keys) for each in stage.inputs)
    call = keys.get(id(stage.dataset))
    if call is None:
        return replace(stage, inputs=inputs)
    known = call.place or stage.record
    place = PipelineStage(call.key, call.op or "", None, known.file if known else "", known.line if known else 0, "")
    return replace(stage, inputs=inputs, record=place)
