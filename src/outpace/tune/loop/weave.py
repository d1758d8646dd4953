"""The user's loop with what lets each of its steps run with one variant or another; where the plain one does, its statements stand as they are.

```python
def _outpace_inputs(_outpace_items):
    for x, y in _outpace_items:
        (what makes the inputs)
        yield ((x, y), (names that only the rest reads))
for _outpace_item in _outpace.items(data, _outpace_inputs):
    if _outpace.plain:
        x, y = _outpace_item
        (the loop's statements)
    else:
        _outpace_group, _outpace_results = ...
        for ...: (the rest)
```
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outpace.tune.loop.statement import GIVES, SAID, assigned, meant

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body
    from outpace.tune.loop.later import Later


AT_ONCE = 100  # steps whose values are read together
NAME = "_outpace"  # of the `Woven` that the loop speaks to


def woven(body: Body, loop: ast.For, later: Later) -> list[ast.stmt]:
    """What stands in the place of a loop (the same as the body's, in the tree that is compiled)."""
    held = list(loop.body)
    first, last = len(body.before), len(body.before) + len(body.steps)
    before, steps, after = held[:first], held[first:last], held[last:]
    begin, end = list[ast.stmt](), list[ast.stmt]()
    if not later.why:
        begin, end = _parsed(f"{NAME}_kept = []", loop), [_read_kept(later, loop, after)]
        after = [*after[: later.first], _kept(later, loop, after), *after[later.last + 1 :]]
    noted = _parsed(
        f"{NAME}.recording and {NAME}.note({_tuple(body.carried)}, {_tuple(body.inputs)}, {_tuple(body.fixed)})", loop
    )
    plain = [_stored(loop.target, f"{NAME}_item"), *before, *noted, *steps, *after]
    if body.unmovable:
        loop.body = plain
        loop.target = _target(f"{NAME}_item")
        loop.iter = _call(loop.iter, "None", "")
        return [*begin, loop, *end]
    other = _other(body, loop, steps, after)
    inputs = _parsed(
        f"def {NAME}_inputs({NAME}_items):\n    for {NAME}_item in {NAME}_items:\n        yield {_tuple((*body.inputs, *body.beside))}",
        loop,
    )
    maker = inputs[0]
    assert isinstance(maker, ast.FunctionDef)
    each = maker.body[0]
    assert isinstance(each, ast.For)
    each.target, each.body = copy.deepcopy(loop.target), [*copy.deepcopy(before), *each.body]
    choice = _parsed(f"if {NAME}.plain:\n    pass\nelse:\n    pass", loop)[0]
    assert isinstance(choice, ast.If)
    choice.body, choice.orelse = plain, other
    loop.target, loop.iter, loop.body = _target(f"{NAME}_item"), _call(loop.iter, f"{NAME}_inputs", body.ends), [choice]
    return [*begin, *inputs, loop, *end]


def results_in_step(loop: ast.For, last: int, names: Mapping[str, Any]) -> None:
    """Let what metrics say after each step (`accuracy.result()`) be asked for in the step, where nothing between the two may change it: names
    stand for it behind the step's last statement, and right before them statements that assign these."""
    after = loop.body[last + 1 :]
    found = {ast.unparse(node): node for each in after for node in _asked(each, names)}
    taken = {*names, *(each.id for each in ast.walk(loop) if isinstance(each, ast.Name))}
    stands = dict[str, str]()
    for text, call in found.items():
        holder = text.removesuffix(".result()")
        nodes = (node for each in after for node in ast.walk(each) if isinstance(node, (ast.Name, ast.Attribute)))
        uses = [node for node in nodes if ast.unparse(node) == holder]
        asked = [node for each in after for node in _asked(each, names) if ast.unparse(node) == text]
        name = f"{holder.rpartition('.')[2]}_result"
        if len(uses) == len(asked) and name not in taken and holder.partition(".")[0] not in assigned([loop]):
            stands[text] = name
            made = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(call)), call)
            setattr(made, SAID, f"{name} = {text}")
            setattr(made, GIVES, meant(call.func, names)())
            loop.body.insert(last + 1, ast.fix_missing_locations(made))
    for each in after:
        if any(ast.unparse(node) in stands for node in _asked(each, names)):
            _Standing(stands).visit(each)
            setattr(each, SAID, ast.unparse(ast.fix_missing_locations(each)))


def _asked(statement: ast.stmt, names: Mapping[str, Any]) -> list[ast.Call]:
    """What a statement that runs in every step asks metrics of Keras for, and not a function that it makes."""
    ours = isinstance(statement, ast.If) and ast.unparse(statement.test).startswith(NAME)
    if not ours and not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)):
        return []
    apart = {id(node) for each in ast.walk(statement) if isinstance(each, ast.Lambda) for node in ast.walk(each)}
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call) and id(each) not in apart)
    return [each for each in calls if not each.args and not each.keywords and _of_metric(each.func, names)]


def _of_metric(func: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a function is `metric.result`."""
    metric = meant(func.value, names) if isinstance(func, ast.Attribute) and func.attr == "result" else None
    return hasattr(metric, "update_state") and type(metric).__module__.partition(".")[0] == "keras"


class _Standing(ast.NodeTransformer):
    """Names in the place of calls."""

    def __init__(self, stands: Mapping[str, str]) -> None:
        self._stands = stands

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The name, or the call as it is."""
        name = self._stands.get(ast.unparse(node))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name is not None else self.generic_visit(node)


def _kept(later: Later, loop: ast.For, after: Sequence[ast.stmt]) -> ast.stmt:
    """The statements that need values, or what they need is kept, for many steps."""
    choice = _parsed(
        f"if {NAME}.keeping():\n"
        f"    {NAME}_kept.append({_tuple(later.names)})\n"
        f"    if len({NAME}_kept) == {AT_ONCE}:\n"
        f"        {NAME}_kept.clear()\n"
        f"else:\n"
        f"    pass",
        loop,
    )[0]
    assert isinstance(choice, ast.If)
    full = choice.body[1]
    assert isinstance(full, ast.If)
    full.body.insert(0, _read_kept(later, loop, after))
    choice.orelse = copy.deepcopy(list(after[later.first : later.last + 1]))
    return choice


def _read_kept(later: Later, loop: ast.For, after: Sequence[ast.stmt]) -> ast.stmt:
    """The statements, for all that is kept."""
    reads = _parsed(f"for {_tuple(later.names)} in {NAME}_kept:\n    pass", loop)[0]
    assert isinstance(reads, ast.For)
    reads.body = copy.deepcopy(list(after[later.first : later.last + 1]))
    return reads


def _other(body: Body, loop: ast.For, steps: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The steps of a group of inputs: in one call, or one after the other; then the rest of the loop for each of them."""
    inputs, carried, results = (*body.inputs, *body.beside), _tuple(body.carried), _tuple(body.results)
    found = _parsed(
        f"{NAME}_group, {NAME}_stack = {NAME}_item\n"
        f"if {NAME}_stack is None:\n"
        f"    {NAME}_results = []\n"
        f"    for {_tuple(inputs)} in {NAME}_group:\n"
        f"        {NAME}_results.append({results})\n"
        f"else:\n"
        f"    {_tuple(body.carried)}, {NAME}_results = {NAME}.several({carried}, {NAME}_stack, {_tuple(body.fixed)}, len({NAME}_group))\n"
        f"for {_tuple(inputs)}, {results} in zip({NAME}_group, {NAME}_results):\n"
        f"    pass",
        loop,
    )
    singly, rest = found[1], found[2]
    assert isinstance(singly, ast.If) and isinstance(rest, ast.For)
    one = singly.body[1]
    assert isinstance(one, ast.For)
    one.body = [*copy.deepcopy(list(steps)), *one.body]
    rest.body = [*copy.deepcopy(list(after)), *rest.body]
    if body.breaks:  # a `break` of the rest leaves the group's loop alone
        rest.orelse = _parsed("continue", loop)
        found += _parsed("break", loop)
    return found


def _parsed(text: str, at: ast.stmt) -> list[ast.stmt]:
    """Statements, which Python says to stand where another one does."""
    made = ast.parse(text).body
    for each in (node for statement in made for node in ast.walk(statement)):
        if hasattr(each, "lineno"):
            ast.copy_location(each, at)
    return made


def _tuple(names: Sequence[str]) -> str:
    """`(x, y)`, to be read or assigned to."""
    return f"({', '.join(names)},)" if names else "()"


def _target(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _stored(target: ast.expr, name: str) -> ast.stmt:
    return ast.Assign([copy.deepcopy(target)], ast.Name(name, ast.Load()))


def _call(value: ast.expr, inputs: str, ends: str) -> ast.expr:
    call = ast.parse(f"{NAME}.items(None, {inputs}{f', lambda item, n: {ends}' if ends else ''})", mode="eval").body
    assert isinstance(call, ast.Call)
    call.args[0] = value
    return call


SEVERAL, AHEAD, LATER, DONATED, COMPILED = "several", "ahead", "later", "donated", "compiled"
