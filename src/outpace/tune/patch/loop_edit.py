"""Writes a loop anew: several steps per call, of JAX also values read later, and the arguments that its step gives away."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from outpace.tune.loop.body import Body, listed, unpacked
from outpace.tune.loop.jax_calls import SEVERAL_STEPS
from outpace.tune.loop.later import Later
from outpace.tune.loop.statement import function_of, loops_around, order, read_outside, stores
from outpace.tune.loop.taken import AT_ONCE, LATER, SEVERAL, Taken
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import edit_function
from outpace.tune.patch.written import Edits

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop

_SCAN = '''
{decorator}
def {several}(carried, stack, fixed):
    """Steps one after the other in one call: the state after the last one, and the results of each."""

    def one_step(carried, inputs):
{step}
        return {carried}, {results}

    return {jax}.lax.scan(one_step, carried, stack)
'''
_SEVERAL = """
for {group}, {stack} in {items}:
    if {stack} is None:
        {found} = []
        for {names} in {group}:
{single}
            {found}.append({results})
    else:
        {carried}, {found} = {several}({carried}, {stack}, {fixed})
        {found} = {each_of}({found}, len({group}))
"""


def write_donation(loop: Loop, edits_of: Callable[[str], Edits]) -> None:
    """Give the calls of `jax.jit` that make the step their `donate_argnums`. Raises Unpatchable where one is not found."""
    assert loop.donation is not None and loop.taken is not None
    body = loop.taken.body
    for given in loop.donation.given.values():
        if given.function.code is None:
            raise Unpatchable(f"line {given.line} calls what jax.jit has made of no function of the program")
        edit_function(given.function.code, {name: repr(value) for name, value in given.options.items()}, edits_of, "jax.jit")
    edits, _ = _found(body, edits_of)
    jax = edits.file.spelled("jax")
    if jax is None:
        raise Unpatchable(f"{edits.file.name} has no name for jax")
    copies = "\n".join(f"{name} = {jax}.tree.map({jax}.numpy.copy, {name})" for name in loop.donation.said)
    made = cst.parse_module(f"{copies}  # the steps give their own away").body
    own = Counter(stores([body.loop]))  # an outer loop that begins with another state each time holds the copies
    around = loops_around(body.tree, body.loop.lineno)
    outer = next(each for each in around if not {*loop.donation.said} & {*(Counter(stores([each])) - own)})
    edits.first[_node(edits.file, outer)] = made


def write_loop(loop: Loop, edits_of: Callable[[str], Edits], option: str) -> None:
    """Write the innermost loop of the steps anew, with an option (`taken`). Raises Unpatchable where it is not found."""
    assert loop.taken is not None
    edits, node = _found(loop.taken.body, edits_of)
    kind = _Loop if loop.taken.body.framework == "jax" else _TensorLoop
    made = kind(loop, loop.taken, edits.file, option)
    around = loops_around(loop.taken.body.tree, loop.taken.body.loop.lineno)
    edits.before[_node(edits.file, around[0])] = [*cst.parse_module(made.inner).body]
    edits.above[edits.file.top(node)] = cst.parse_module(made.functions).body
    edits.loops[node] = cst.parse_module(made.text).body
    edits.imports |= made.imports


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


class _Loop:
    """The text of a loop with an option, and of the functions that it calls: at the top of the file, or, where they need what only the
    function around the loop knows, `inner` ones."""

    uses: Mapping[str, str] = {"jax": "jax", "np": "numpy"}  # modules, by what our own sources call them

    def __init__(self, loop: Loop, taken: Taken, file: SourceFile, option: str) -> None:
        self.body, self.file, self.option, self.loop, self.taken = taken.body, file, option, loop, taken
        self.imports: set[str] = set()
        self.modules = {short: self._module(name) for short, name in self.uses.items()}
        self.names = {
            name: file.unused(name) for name in ("group", "stack", "results", "kept", SEVERAL_STEPS, "inputs", "items")
        }
        self.helpers: dict[str, str] = {}
        self.text = self._loop()
        scan = [self._scan()] if option == SEVERAL else []
        local = _local(self.body) if scan else None
        if local is not None and not taken.inside:
            raise Unpatchable(
                f"the step calls {local}, which only the function around the loop knows, and that is called again and again"
            )
        self.functions = "".join(f"\n\n{each.strip()}\n" for each in (*self.helpers.values(), *(scan if local is None else ())))
        self.inner = "".join(f"{each.strip()}\n" for each in scan) if local is not None else ""

    def _module(self, name: str) -> str:
        found = self.file.spelled(name, anywhere=False)  # functions of ours stand at the top of the file
        if found is None:
            self.imports.add(name)
        return found or name

    def _helper(self, function: Callable[..., object]) -> str:
        """A function that is written into the file, by its name there."""
        name = self.file.unused(function.__name__)
        text = inspect.getsource(function)
        self.helpers[name] = _plain(text, function.__name__, name, self.modules)
        self.imports |= {module for module in ("itertools", "queue", "threading") if f"{module}." in text}
        return name

    def _scan(self) -> str:
        """The function that makes several steps in one call."""
        jit = f"{self.modules['jax']}.jit"
        if self.loop.gives_away:
            self.imports.add("functools")
            jit = f"functools.partial({jit}, donate_argnums=(0,))"
        step = "\n".join([*unpacked(self.body, ("carried", "inputs", "fixed")), self.body.text(self.body.steps)])
        return _SCAN.format(
            decorator=f"@{jit}",
            several=self.names[SEVERAL_STEPS],
            step=textwrap.indent(step, " " * 8),
            carried=listed(self.body.carried),
            results=listed(self.body.results),
            jax=self.modules["jax"],
        )

    def _loop(self) -> str:
        body, later = self.body, self.taken.later if self.option == LATER else None
        rest = self._rest(later)
        if later is not None:
            head = "".join(self.file.lines[at] + "\n" for at in range(body.loop.lineno - 1, _head_end(body)))
            inner = "\n".join(part for part in (body.text(body.before), body.text(body.steps), rest) if part)
            begin = f"{self.names['kept']} = []\n"
            return begin + textwrap.dedent(head) + textwrap.indent(inner, "    ") + "\n" + self._kept_read(later)
        from outpace.tune.loop import batches

        names = listed((*body.inputs, *body.beside))
        inputs, items = self._inputs(names)
        items = f"{self._helper(batches.in_groups)}({items}, {self.loop.per_call}, {len(body.inputs)}{self._ends})"
        return inputs + self._grouped(items, names, rest)

    def _grouped(self, items: str, names: str, rest: str) -> str:
        """The loop over groups of steps."""
        from outpace.tune.loop import batches

        group, found, results = self.names["group"], self.names["results"], listed(self.body.results)
        text = _SEVERAL.format(
            group=group,
            stack=self.names["stack"],
            found=found,
            items=items,
            names=names[1:-1],
            single=textwrap.indent(self.body.text(self.body.steps), " " * 12),
            results=results,
            carried=listed(self.body.carried),
            fixed=listed(self.body.fixed),
            several=self.names[SEVERAL_STEPS],
            each_of=self._helper(batches.each_of),
        )
        if rest or self.body.results or _outlives(self.body):
            text += f"    for {names}, {results} in zip({group}, {found}):\n" + textwrap.indent(rest or "pass", " " * 8) + "\n"
        return text.lstrip("\n") + self._end

    @property
    def _ends(self) -> str:
        """The argument of groups that says where one ends."""
        return f", lambda item, n: {self.body.ends}" if self.body.ends else ""

    @property
    def _end(self) -> str:
        """What a `break` of the rest, which leaves the group's loop alone, comes to."""
        return "    else:\n        continue\n    break\n" if self.body.breaks else ""

    def _inputs(self, names: str) -> tuple[str, str]:
        """What stands before the loop, and gives the inputs of the steps one after the other."""
        body = self.body
        iterated = textwrap.dedent(_source(body, body.loop.iter))
        target = _source(body, body.loop.target)
        if not body.before:
            return "", f"({names} for {target} in {iterated})"
        name, items = self.names["inputs"], self.names["items"]
        held = textwrap.indent(body.text(body.before), " " * 8)
        return f"def {name}({items}):\n    for {target} in {items}:\n{held}\n        yield {names}\n\n\n", f"{name}({iterated})"

    def _rest(self, later: Later | None) -> str:
        """What comes after a step."""
        after = self.body.after
        if later is None:
            return self.body.text(after)
        kept, names = self.names["kept"], listed(later.names)
        read = textwrap.indent(self._kept_read(later).rstrip("\n"), "    ")
        said = f"{kept}.append({names})\nif len({kept}) == {AT_ONCE}:\n{read}\n    {kept}.clear()"
        return "\n".join(
            part for part in (self.body.text(after[: later.first]), said, self.body.text(after[later.last + 1 :])) if part
        )

    def _kept_read(self, later: Later) -> str:
        """The statements that need values, for all that is kept."""
        moved = self.body.text(self.body.after[later.first : later.last + 1])
        return f"for {listed(later.names)[1:-1] or '_'} in {self.names['kept']}:\n" + textwrap.indent(moved, "    ") + "\n"


_SEVERAL_TENSORS = """
for {group}, {stack} in {items}:
    if {stack} is None:
        {found} = []
        for {names} in {group}:
{single}
            {found}.append({results})
    else:
        {found} = {each_of}({several}({given}), len({group}))
"""
_SEVERAL_ALONE = """
for {group}, {stack} in {items}:
    if {stack} is None:
        for {names} in {group}:
{single}
    else:
        {several}({given})
"""


class _TensorLoop(_Loop):
    """Likewise, of TensorFlow."""

    uses: Mapping[str, str] = {"tf": "tensorflow", "np": "numpy"}

    def _scan(self) -> str:
        """The function that makes several steps in one call."""
        from outpace.tune.loop.tensors import TensorBody

        body = self.body
        assert isinstance(body, TensorBody)
        tf = self.modules["tf"]
        options = "(jit_compile=True)" if self.loop.compiles else ""
        return f"@{tf}.function{options}\n{body.scan(self.names[SEVERAL_STEPS], tf)}"

    def _loop(self) -> str:
        from outpace.tune.loop import tensors

        body = self.body
        names = listed((*body.inputs, *body.beside))
        inputs, items = self._inputs(names)
        items = f"{self._helper(tensors.in_groups)}({items}, {self.loop.per_call}, {len(body.inputs)}{self._ends})"
        group, stack, found, results = self.names["group"], self.names["stack"], self.names["results"], listed(body.results)
        text = (_SEVERAL_TENSORS if body.results else _SEVERAL_ALONE).format(
            group=group,
            stack=stack,
            found=found,
            items=items,
            names=names[1:-1] or "_",
            single=textwrap.indent(body.text(body.steps), " " * 12),
            results=results,
            given=", ".join((stack, *body.fixed)),
            several=self.names[SEVERAL_STEPS],
            each_of=self._helper(tensors.each_of) if body.results else "",
        )
        rest = body.text(body.after)
        if body.results:
            text += f"    for {names}, {results} in zip({group}, {found}):\n" + textwrap.indent(rest or "pass", " " * 8) + "\n"
        elif rest or _outlives(body):
            text += f"    for {names[1:-1] or '_'} in {group}:\n" + textwrap.indent(rest or "pass", " " * 8) + "\n"
        return inputs + text.lstrip("\n") + self._end


def _plain(text: str, old: str, new: str, used: dict[str, str]) -> str:
    """A function's source without annotations, under another name, with a file's own names of modules."""
    module = cst.parse_module(text)
    return module.visit(_Plain(old, new, used)).code.strip("\n")


class _Plain(cst.CSTTransformer):
    def __init__(self, old: str, new: str, used: dict[str, str]) -> None:
        super().__init__()
        self._names = {old: new, **used}

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        """No annotation."""
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return updated_node.with_changes(
            annotation=None, equal=tight if updated_node.default is not None else cst.MaybeSentinel.DEFAULT
        )

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        """Likewise."""
        return updated_node.with_changes(returns=None)

    def leave_AnnAssign(self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign) -> cst.BaseSmallStatement:
        """Likewise."""
        assert updated_node.value is not None
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """Names of modules, and the function's own."""
        return cst.parse_expression(self._names.get(original_node.value, original_node.value))


def _outlives(body: Body) -> bool:
    """Whether what makes the steps' inputs gives names that are read behind the loop."""
    behind = read_outside(function_of(body.frame, body.tree), body.loop.lineno, body.loop.end_lineno or body.loop.lineno)
    return bool({*body.inputs, *body.beside} & set(behind))


def _local(body: Body) -> str | None:
    """A name that the step reads and only the function around the loop knows; None for none."""
    if body.frame.f_code.co_name == "<module>":
        return None
    known = {*body.carried, *body.inputs, *body.fixed}
    made = {body.outline.name} if body.outline is not None else set()
    return next((name for name in order(body.steps)[0] if name not in known and name in {*body.frame.f_locals, *made}), None)


def _source(body: Body, node: ast.AST) -> str:
    return ast.get_source_segment("".join(body.lines), node) or ast.unparse(node)


def _head_end(body: Body) -> int:
    """The number of lines up to the first statement of the loop."""
    first = body.loop.body[0].lineno
    if first == body.loop.lineno:
        raise Unpatchable(f"the loop at line {first} stands on one line")
    return first - 1
