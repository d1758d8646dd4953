# SPDX-License-Identifier: Apache-2.0
"""Writes a loop anew: several steps per call."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from outpace.pyscope.names import read_names_outside, required_names
from outpace.tune.loop.body import Body, listed
from outpace.tune.loop.jax_calls import SEVERAL_STEPS
from outpace.tune.loop.statement import function_of, loops_around
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import made_with
from outpace.tune.patch.written import Edits
from outpace.tune.texts.indentation import dedent_code, indent_code

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.taken import Taken

_GROUPS = '''def {in_groups}(items, size, used, ends=None{begins}):
    """Lists of `size` items, each with a stack of their first `used` parts, or their numbers where that is 0; None for a stack where items are
    fewer, or of several shapes.

    ends: whether a list ends with an item, the n-th of it.{begins_meaning}
    """
    items{following} = iter(items){nothing}
    while True:
        group{following} = {first}
        for item in items:
{begin}            group.append(item)
            if len(group) == size or (ends is not None and ends(item, len(group))):
                break
        if not group:
            return
        parts = [item[:used] for item in group]
        shapes = {{
            tuple((getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in {leaves}(part)) for part in parts
        }}
        if len(group) < size or len(shapes) > 1:
            yield group, None
        else:
            yield group, {map}(lambda *leaves: {stack}(leaves), *parts) if used else {np}.arange(size)
'''
_BEGINS = {
    "begins": ", begins=None",
    "begins_meaning": " begins: likewise, whether one begins with it.",
    "following": ", following",
    "nothing": ", []",
    "first": "following, []",
    "begin": """\
            if group and begins(item, len(group) + 1):
                following = [item]
                break
""",
}
_EACH = '''def {each_of}(results, count):
    """The results of each of so many steps, of a stack of them."""
{text}
'''
_FRAMEWORKS = {  # what these are written with
    "jax": {
        "leaves": "{it}.tree.leaves",
        "map": "{it}.tree.map",
        "stack": "{np}.stack",
        "maker": "{it}.jit",
        "each": """\
    leaves, form = {it}.tree.flatten({it}.device_get(results))
    return [{it}.tree.unflatten(form, [leaf[at] for leaf in leaves]) for at in range(count)]""",
    },
    "tensorflow": {
        "leaves": "{it}.nest.flatten",
        "map": "{it}.nest.map_structure",
        "stack": "({np} if isinstance(leaves[0], {np}.ndarray) else {it}).stack",
        "maker": "{it}.function",
        "each": """\
    rows = zip(*[{it}.unstack(leaf, count) for leaf in {it}.nest.flatten(results)])
    return list(rows) if all(map({it}.is_tensor, results)) else [{it}.nest.pack_sequence_as(results, row) for row in rows]""",
    },
}


def write_loop(loop: Loop, edits_of: Callable[[str], Edits]) -> None:
    """Let the innermost loop of the steps make several of them in one call. Raises Unpatchable
    where it is not found.
    """
    assert loop.taken is not None
    edits, node = _found(loop.taken.body, edits_of)
    made = _Several(loop, loop.taken, edits)
    around = loops_around(loop.taken.body.tree, loop.taken.body.loop.lineno)
    edits.before[_node(edits.file, around[0])] = [*cst.parse_module(made.inner).body]
    edits.above[edits.file.top(node)] = cst.parse_module(made.functions).body
    edits.loops[node] = cst.parse_module(made.text).body


def _found(body: Body, edits_of: Callable[[str], Edits]) -> tuple[Edits, cst.CSTNode]:
    """The edits of the loop's file, and the loop."""
    edits = edits_of(body.file)
    if edits.file.text != "".join(body.lines):
        raise Unpatchable(f"the loop at {edits.file.name}:{body.loop.lineno} was not found: the file was edited since")
    return edits, _node(edits.file, body.loop)


def _node(file: SourceFile, loop: ast.For | ast.While) -> cst.CSTNode:
    """A loop in the tree that is edited."""
    node = file.starting(loop.lineno, (cst.For, cst.While))
    assert node is not None, "the text is the one that was read"
    return node


class _Several:
    """The text of a loop over groups of steps, and of the functions that it calls: at the top of
    the file, or, where they need what only the function around the loop knows, `inner` ones.
    """

    def __init__(self, loop: Loop, taken: Taken, edits: Edits) -> None:
        self.body, self.edits, self.loop = taken.body, edits, loop
        module, np = self._module(self.body.framework), self._module("numpy")
        written = {name: text.format(it=module, np=np) for name, text in _FRAMEWORKS[self.body.framework].items()}
        names = ("group", "stack", "results", SEVERAL_STEPS, "inputs", "items", "in_groups", "each_of")
        self.names = {name: edits.file.unused(name) for name in names}
        self.text = self._loop()
        begins = _BEGINS if self.body.begins else {**dict.fromkeys(_BEGINS, ""), "first": "[]"}
        helpers = [_GROUPS.format(in_groups=self.names["in_groups"], np=np, **written, **begins)]
        helpers += [_EACH.format(each_of=self.names["each_of"], text=written["each"])] if self.body.results else []
        scan = [f"@{self._maker(written['maker'])}\n{self.body.scan(self.names[SEVERAL_STEPS], module)}"]
        local = _local(self.body)
        if local is not None and not taken.inside:
            raise Unpatchable(
                f"the step calls {local}, which only the function around the loop knows, and that is called again and again"
            )
        self.functions = "".join(f"\n\n{each.strip()}\n" for each in (*helpers, *(scan if local is None else ())))
        self.inner = f"{scan[0].strip()}\n" if local is not None else ""

    def _module(self, name: str) -> str:
        found = self.edits.file.spelled(name, anywhere=False)  # functions of ours stand at the top of the file
        if found is None:
            self.edits.imports.add(name)
        return found or name

    def _maker(self, maker: str) -> str:
        """What compiles the function."""
        if self.loop.gives_away:
            return made_with(self.edits, maker, "donate_argnums=(0,)", "jax.jit")
        return f"{maker}(jit_compile=True)" if self.loop.compiles else maker

    def _loop(self) -> str:
        """The loop over groups of steps."""
        body, group, stack, found = self.body, self.names["group"], self.names["stack"], self.names["results"]
        names, results = listed((*body.inputs, *body.beside)), listed(body.results)
        each = names[1:-1] or "_"
        inputs, items = self._inputs(names)
        ends = f", lambda item, n: {body.ends}" if body.ends else ""
        ends += f", begins=lambda item, n: {body.begins}" if body.begins else ""
        opened = [f"{names} = {group}[0]" if names != "()" else "", body.text(body.openings)] if body.openings else []
        single, call = body.text(body.steps), body.call(self.names[SEVERAL_STEPS], stack, found)
        if body.results:
            single += f"\n{found}.append({results})"
            call += f"\n{found} = {self.names['each_of']}({found}, len({group}))"
        text = [
            f"for {group}, {stack} in {self.names['in_groups']}({items}, {self.loop.per_call}, {len(body.inputs)}{ends}):",
            *(indent_code(each, " " * 4) for each in opened if each),
            f"    if {stack} is None:",
            *([f"        {found} = []"] if body.results else []),
            f"        for {each} in {group}:",
            indent_code(single, " " * 12),
            "    else:",
            indent_code(call, " " * 8),
        ]
        rest = body.text(body.after)
        if rest or body.results or _outlives(body):
            text.append(
                f"    for {names}, {results} in zip({group}, {found}):" if body.results else f"    for {each} in {group}:"
            )
            text.append(indent_code(rest or "pass", " " * 8))
        if body.breaks:  # which leaves the group's loop alone
            text.append("    else:\n        continue\n    break")
        return inputs + "\n".join(text) + "\n"

    def _inputs(self, names: str) -> tuple[str, str]:
        """What stands before the loop, and gives the inputs of the steps one after the other."""
        body = self.body
        iterated = dedent_code(_source(body, body.loop.iter))
        target = _source(body, body.loop.target)
        if not body.before:
            return "", f"({names} for {target} in {iterated})"
        name, items = self.names["inputs"], self.names["items"]
        held = indent_code(body.text(body.before), " " * 8)
        return f"def {name}({items}):\n    for {target} in {items}:\n{held}\n        yield {names}\n\n\n", f"{name}({iterated})"


def _outlives(body: Body) -> bool:
    """Whether what makes the steps' inputs gives names that are read behind the loop."""
    behind = read_names_outside(function_of(body.frame, body.tree), body.loop.lineno, body.loop.end_lineno or body.loop.lineno)
    return bool({*body.inputs, *body.beside} & set(behind))


def _local(body: Body) -> str | None:
    """A name that the step reads and only the function around the loop knows; None for none."""
    if body.frame.f_code.co_name == "<module>":
        return None
    known = {*body.carried, *body.inputs, *body.fixed}
    made = {body.outline.name} if body.outline is not None else set()
    return next(
        (name for name in required_names(body.steps) if name not in known and name in {*body.frame.f_locals, *made}), None
    )


def _source(body: Body, node: ast.AST) -> str:
    return ast.get_source_segment("".join(body.lines), node) or ast.unparse(node)
