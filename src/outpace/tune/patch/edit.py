# SPDX-License-Identifier: Apache-2.0
"""Turns a row of calls back into source: which calls of which file change, move, come and go."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

from outpace.capture.frames import CallSite
from outpace.capture.pipeline import READERS, SOURCES, PipelineRecorder
from outpace.frameworks.tensorflow import MAP_FUNCTION
from outpace.store.record import PipelineStage
from outpace.tune.data.tree import Pipeline
from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import UNSEEN, Call, Unpatchable, arranged
from outpace.tune.patch.chain import Link, calling, chain_of, function_argument, new_link
from outpace.tune.patch.divide import Divided, divided
from outpace.tune.patch.impure import Purity
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits, Segment
from outpace.tune.purity.traced import user_function

AUTOTUNE = "tf.data.AUTOTUNE"


@dataclass(eq=False)
class Editor:
    """Edits of one program's files. `wrappers`: the traced function of each map, by the key of its
    call. `called`: the line that calls fit.
    """

    own: Sequence[PipelineStage]
    wrappers: Mapping[int, Any]
    called: CallSite | None = None
    _files: dict[str, SourceFile] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, recorder: PipelineRecorder, called: CallSite | None = None) -> Editor:
        """For a pipeline as the user built it; its own records are those of all stages, of what
        feeds them and of their functions.
        """
        own: dict[int, PipelineStage] = {}
        todo = [stage.record.id for stage in pipeline.stages() if stage.record is not None]
        while todo:
            stage = recorder.stages[todo.pop()]
            if stage.id not in own:
                own[stage.id] = stage
                todo += [*stage.inputs, *stage.inner]
        maps = {s.record.id: MAP_FUNCTION.of(s.dataset) for s in pipeline.spine() if s.record is not None and s.op == "map"}
        return cls(tuple(own.values()), maps, called)

    def file(self, path: str) -> SourceFile:
        """The parsed file, read once."""
        path = os.path.abspath(path)
        if path not in self._files:
            self._files[path] = SourceFile(path)
        return self._files[path]

    def edits(self, row: Sequence[Call], patches: Sequence[Patch]) -> dict[str, Edits]:
        """The edits of each file that make the patches of one rewrite of a row of calls. Raises
        Unpatchable with the reason.
        """
        writing = _Writing(self, arranged(row, patches))
        for patch in patches:
            if patch.keywords:
                writing.set_keywords(patch)
        writing.arrange()
        return writing.edited

    def located(self, stage: PipelineStage) -> tuple[SourceFile, cst.Call]:
        """The call of a record, which may make other data sets as well: these change, too. Raises
        Unpatchable where it is not unique.
        """
        file = self.file(stage.file)
        return file, file.located(stage, sorted(self.own, key=lambda other: other.id))


class _Writing:
    def __init__(self, editor: Editor, calls: Sequence[Call]) -> None:
        self.editor, self.calls = editor, calls
        self.found: dict[int, tuple[SourceFile, cst.Call]] = {}
        self.lost: dict[int, str] = {}
        for call in self.calls:
            if call.place is not None:
                try:
                    self.found[call.key] = editor.located(call.place)
                except Unpatchable as reason:
                    self.lost[call.key] = str(reason)
        self.edited: dict[str, Edits] = {}
        self.names: dict[int, tuple[str, str]] = {}  # divided call -> names of its two functions

    def set_keywords(self, patch: Patch) -> None:
        """Arguments of a recorded call, in the main line or beside it (an input of a zip)."""
        stage = next((stage for stage in self.editor.own if stage.id == patch.call), None)
        if stage is None:
            raise Unpatchable(UNSEEN)
        if stage.library is not None:
            raise Unpatchable(f"{stage.library} calls {stage.op} itself")
        file, node = self.editor.located(stage)
        self.of(file).keywords[node] = {name: _spelled(file, text) for name, text in patch.keywords.items()}

    def of(self, file: SourceFile) -> Edits:
        return self.edited.setdefault(file.path, Edits(file))

    def _place(self, key: int) -> tuple[SourceFile, cst.Call]:
        if key not in self.found:
            raise Unpatchable(self.lost.get(key, UNSEEN))
        return self.found[key]

    def arrange(self) -> None:
        """Give every call a chain: its own, or for what is new or moved that of the
        call before it.
        """
        for call in self.calls:
            if call.divided:
                self._divide(call)
        segments = self._segments()
        home = {key: top for top, segment in segments.items() for key in segment.keys}
        contents, touched = self._placed(segments, home)
        for top in touched:
            segment = segments[top]
            self._same_block(segment, contents[top])
            links = self._leading(segment)
            for call in contents[top]:
                links += self._link(call, segment, segments, home) if call.key != segment.base_key else []
            options = next((call.options for call in contents[top] if call.options), {})
            self.of(segment.file).segments[top] = replace(segment, links=tuple(links), options=options)

    def _placed(
        self, segments: Mapping[cst.Call, Segment], home: Mapping[int, cst.Call]
    ) -> tuple[dict[cst.Call, list[Call]], set[cst.Call]]:
        """The calls of each chain, and the chains that change. What comes behind a call that cannot
        be edited stands before the next one that can, or where fit is called.
        """
        contents: dict[cst.Call, list[Call]] = {top: [] for top in segments}
        last: cst.Call | None = None
        touched: set[cst.Call] = set()
        lost, unplaced = UNSEEN, list[Call]()
        for call in self.calls:
            if call.moved:
                self._place(call.key)
                touched.add(home[call.key])
            if not call.new and not call.moved:
                last = home.get(call.key)
                if unplaced and (last is None or call.key == segments[last].base_key or self._of_library(call)):
                    raise Unpatchable(lost)  # behind that one it would be another place
                lost = self.lost.get(call.key, UNSEEN)
            elif last is None:
                if call.moved or call.first_part_of is not None or call.options:
                    raise Unpatchable(lost)
                unplaced.append(call)
            if last is not None:
                contents[last] += [*unplaced, call]
                if unplaced or call.new or call.moved:
                    touched.add(last)
                unplaced = []
        if unplaced:
            self._where_fit_is_called(unplaced, lost)
        return contents, touched

    def _of_library(self, call: Call) -> bool:
        return call.place is not None and call.place.library is not None

    def _where_fit_is_called(self, calls: Sequence[Call], lost: str) -> None:
        """New calls at the end of the pipeline, written behind the argument that fit is given.
        Raises Unpatchable with `lost` where that cannot be.
        """
        called = self.editor.called
        if called is None or called.library is not None:
            raise Unpatchable(lost)
        file = self.editor.file(called.file)
        fits = [call for call in file.calls() if file.calls_at(call, "fit", called.line)]
        at = _data_of(fits[0]) if len(fits) == 1 else None
        if at is None:
            raise Unpatchable(lost)
        value = fits[0].args[at].value
        for call in calls:
            assert call.text is not None
            value = new_link(_spelled(file, call.text)).on(value)
        self.of(file).arguments[fits[0]] = [
            arg.with_changes(value=value) if number == at else arg for number, arg in enumerate(fits[0].args)
        ]

    def _same_block(self, segment: Segment, calls: Sequence[Call]) -> None:
        """What belongs together must run together, where names mean the same: a call does not move
        into or out of a branch or a function, nor does half of a function.
        """
        for call in calls:
            other = call.key if call.moved else call.first_part_of
            if other is None:
                continue
            file, node = self._place(other)
            if file is not segment.file or file.block(node) is not file.block(segment.chain.top):
                raise Unpatchable(
                    f"{file.name}:{file.position(node).start.line} runs under other conditions than the call before it"
                )

    def _segments(self) -> dict[cst.Call, Segment]:
        """The chains that hold calls of the row, by their outermost call."""
        found: dict[cst.Call, Segment] = {}
        keys = {node: key for key, (_, node) in self.found.items()}
        sources = {call.key for call in self.calls if call.place is not None and call.place.op in (*SOURCES, *READERS)}
        for file, node in self.found.values():
            top = _top(file, node)
            if top in found:
                continue
            base, base_key = _base(top, keys, sources)
            chain = chain_of(top, base)
            inside = [keys[link.call] for link in chain.links if link.call in keys]
            found[top] = Segment(file, chain, (*([base_key] if base_key is not None else []), *inside), base_key, ())
        return found

    def _link(
        self, call: Call, segment: Segment, segments: Mapping[cst.Call, Segment], home: Mapping[int, cst.Call]
    ) -> list[Link]:
        """A call as links of a chain; calls that nobody recorded stay behind the one that they
        follow.
        """
        if call.options:
            return [new_link(f".with_options({segment.options_name})")]
        if call.first_part_of is not None:
            _, node = self._place(call.first_part_of)
            return [Link(calling(node, self.names[call.first_part_of][0]))]
        if call.text is not None:
            return [new_link(_spelled(segment.file, call.text))]
        _, node = self._place(call.key)
        own = segments[home[call.key]]
        links = own.chain.links
        at = next((at for at, link in enumerate(links) if link.call is node), None)
        if at is None:
            raise Unpatchable("the call to move is the source of a chain")
        known = {self.found[key][1] for key in own.keys}
        end = next((later for later in range(at + 1, len(links)) if links[later].call in known), len(links))
        changed = replace(links[at], call=calling(node, self.names[call.key][1])) if call.divided else links[at]
        if own is not segment:  # it is written as its new neighbours are, with its comments
            above = own.statement.leading_lines if own.statement is not None and own.alone else ()
            behind = own.statement.trailing_whitespace.comment if own.statement is not None and own.alone else changed.comment
            changed = replace(changed, dot=None, above=[line for line in above if line.comment is not None], comment=behind)
        return [changed, *links[at + 1 : end]]

    def _leading(self, segment: Segment) -> list[Link]:
        """Links of a chain that stand before the first one that somebody recorded."""
        known = {self.found[key][1] for key in segment.keys}
        return list(itertools.takewhile(lambda link: link.call not in known, segment.chain.links))

    def _divide(self, call: Call) -> None:
        """Write the two functions of a divided map."""
        file, node = self._place(call.key)
        function = inspect.unwrap(user_function(self.editor.wrappers[call.key]))
        function = getattr(function, "python_function", function)
        definition = _definition(file, node, function)
        name = definition.name.value
        alone = len([each for each in file.names(name) if not _is_attribute(file, each)]) == 2  # the definition and this call
        first, second = file.unused(f"{name}_cached"), name if alone else file.unused(f"{name}_rest")

        def lines(part: cst.CSTNode) -> range:
            found = file.position(part)
            return range(found.start.line, found.end.line + 1)

        purity = Purity(function, self.editor.wrappers[call.key], lines)
        parts: Divided = divided(definition, purity, first, second)
        self.names[call.key] = (first, second)
        self.of(file).functions[definition] = (parts.first, parts.second) if alone else (definition, parts.first, parts.second)
        if not alone:
            self.of(file).arguments[node] = calling(node, second).args


def _definition(file: SourceFile, node: cst.Call, function: Any) -> cst.FunctionDef:
    """The definition of the function that a map is called with. Raises Unpatchable when it is no
    plain function of the same file.
    """
    named = function_argument(node).value
    if isinstance(named, cst.Lambda):
        raise Unpatchable("its function is a lambda, which has no statements to divide: write it as a function")
    code = getattr(function, "__code__", None)
    if not isinstance(named, cst.Name) or code is None:
        raise Unpatchable("its function is not named in the call")
    if code.co_filename != file.path:
        raise Unpatchable(f"its function {named.value} stands in another file ({code.co_filename})")
    for definition in file.functions():
        lines = [file.position(each).start.line for each in (definition, *definition.decorators)]
        if definition.name.value == named.value and code.co_firstlineno in lines:
            return definition
    raise Unpatchable(f"the definition of {named.value} is not at line {code.co_firstlineno}: the file was edited since")


def _data_of(fit: cst.Call) -> int | None:
    """Which argument of a call of fit is its data; None where that is not a name, an attribute or a
    call.
    """
    for at, arg in enumerate(fit.args):
        if (at == 0 and arg.keyword is None and not arg.star) or (arg.keyword is not None and arg.keyword.value == "x"):
            return at if isinstance(arg.value, (cst.Name, cst.Attribute, cst.Call)) else None
    return None


def _is_attribute(file: SourceFile, name: cst.Name) -> bool:
    parent = next(iter(file.above(name)), None)
    return (isinstance(parent, cst.Attribute) and parent.attr is name) or (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


def _top(file: SourceFile, node: cst.Call) -> cst.Call:
    """The outermost call of the chain that a call stands in."""
    above = file.above(node)
    for attribute, call in zip(above, above, strict=False):
        if not (isinstance(attribute, cst.Attribute) and isinstance(call, cst.Call) and call.func is attribute):
            break
        node = call
    return node


def _base(top: cst.Call, keys: Mapping[cst.Call, int], sources: Set[int]) -> tuple[cst.BaseExpression, int | None]:
    """What a chain begins with, and its key where it is itself a call of the row (the source of the
    pipeline).
    """
    node = top
    while isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call):
        node = node.func.value
    key = keys.get(node)
    if key is not None and key not in sources and isinstance(node.func, cst.Attribute):
        return node.func.value, None
    return node, key


def _spelled(file: SourceFile, text: str) -> str:
    return text.replace(AUTOTUNE, file.name_of(AUTOTUNE)) if AUTOTUNE in text else text
